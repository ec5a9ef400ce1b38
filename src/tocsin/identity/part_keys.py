"""Keys of the parts: data cluster, brokers and coordinator sign their requests to each other.

Each part has an Ed25519 key of its own. It joins another part by sending its public key with an HMAC of the join
secret, which itself never travels; the answer proves in the same way whose the other key is. From then on every request
between the two carries a token that is valid for a minute, and only for its receiver.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jwt
import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tocsin.config import Anonymous
from tocsin.errors import StorageError, Unauthorized, UserError
from tocsin.http.access import loopback
from tocsin.http.requests import Headers, header
from tocsin.wire.join import PART, Join, Joined

#: Seconds for which a token is valid, and after which its sender makes the next one.
LIFETIME, RENEWED = 60.0, 20.0
#: Seconds by which the clocks of two parts may differ.
SKEW = 30.0
#: Verified tokens that are remembered.
REMEMBERED = 1_000
_ALGORITHM = "EdDSA"

Clock = Callable[[], float]


class PartKey:
    """``name`` is how other parts know this one."""

    def __init__(self, private: bytes, name: str, clock: Clock = time.time) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(private)
        self.name, self.clock = name, clock
        self.public = _text(self._private.public_key().public_bytes_raw())
        self._tokens: dict[str, tuple[float, str]] = {}  # audience: time of issue, token

    @classmethod
    def load(cls, file: Path, name: str) -> PartKey:
        """Made once, and readable only by its owner."""
        try:
            with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as opened:
                private = opened.read()
                if not private:
                    private = Ed25519PrivateKey.generate().private_bytes_raw()
                    opened.write(private)
                    opened.flush()
                    os.fsync(opened.fileno())
            return cls(private, name)
        except (OSError, ValueError) as error:
            hint = "choose another --home; if the file is damaged, delete it and restart"
            raise StorageError(f"cannot keep the key of this part in {file}: {error}", hint=hint) from error

    def sign(self, data: bytes) -> str:
        return _text(self._private.sign(data))

    def token(self, audience: str) -> str:
        """For the part with this public key; the same one for some seconds."""
        now = self.clock()
        issued, token = self._tokens.get(audience, (0.0, ""))
        if not issued <= now < issued + RENEWED:
            claims = {"iss": self.name, "aud": audience, "iat": int(now), "exp": int(now + LIFETIME)}
            token = jwt.encode(claims, self._private, _ALGORITHM)
            self._tokens = {audience: (now, token)} if len(self._tokens) > REMEMBERED else self._tokens
            self._tokens[audience] = now, token
        return token


class Peer:
    """The part that this one sends requests to, such as ``data cluster``. ``key`` is '' until it has been joined."""

    def __init__(self, part: str, own: PartKey, secret: str) -> None:
        self.part, self.own, self._secret = part, own, secret
        self.key = ""

    def join(self, url: str) -> Join:
        now = self.own.clock()
        statement = _statement("join", self.part, self.own.name, url, self.own.public, now)
        return Join(self.own.public, now, self.own.sign(statement), _proof(self._secret, statement))

    def joined(self, join: Join, answer: Joined) -> None:
        """Raises Unauthorized unless the other part has proved that it knows the secret."""
        statement = _statement("joined", self.part, self.own.name, answer.key, join.key, join.time)
        if not answer.key or not _same(answer.proof, _proof(self._secret, statement)):
            hint = f"give both the same join secret; is the address that of the {self.part}?"
            raise Unauthorized(f"the {self.part} does not know the join secret", hint=hint)
        self.key = answer.key

    @property
    def headers(self) -> dict[str, str]:
        return {PART: self.own.token(self.key)} if self.key else {}


class Part(NamedTuple):
    """The sender of a request."""

    name: str
    key: str


class PartGate:
    """Admits parts that join this one, and verifies the tokens of those that have. ``part`` is what this one is."""

    def __init__(self, part: str, own: PartKey, secret: str) -> None:
        self.part, self.own, self._secret = part, own, secret
        self._verified: dict[str, tuple[float, Part]] = {}  # token: when it expires, who sent it

    def admit(self, name: str, url: str, join: Join | None, known: str) -> Joined | None:
        """``known`` is the key that has this name already. Raises Unauthorized; None: a part without a key, which only
        a part without a join secret admits."""
        if join is None:
            if self._secret or known:
                raise Unauthorized(f"a broker joins the {self.part} with its key", hint="start it with `tocsin broker`")
            return None
        late = self.own.clock() - join.time
        if not -LIFETIME <= late <= LIFETIME:
            raise Unauthorized(f"the clocks of {name} and the {self.part} differ by {abs(late):.0f} s")
        statement = _statement("join", self.part, name, url, join.key, join.time)
        try:
            _public(join.key).verify(_bytes(join.signature), statement)
        except (InvalidSignature, ValueError, binascii.Error):
            raise Unauthorized(f"the key of {name} did not sign this request") from None
        if join.key != known and not _same(join.proof, _proof(self._secret, statement)):
            hint = f"set join_secret to the same secret at {name} and at the {self.part}"
            raise Unauthorized(f"{name} does not know the join secret of the {self.part}", hint=hint)
        answer = _statement("joined", self.part, name, self.own.public, join.key, join.time)
        return Joined(self.own.public, _proof(self._secret, answer))

    def sender(self, headers: Headers, key_of: Callable[[str], str]) -> Part | None:
        """Who sent the request, by its token; None without a valid one. ``key_of`` knows keys by name, '' for none."""
        raw = header(headers, PART.encode())
        if raw is None:
            return None
        token, now = raw.decode("latin-1"), self.own.clock()
        expires, part = self._verified.get(token, (0.0, None))
        if part is None or not expires - LIFETIME - SKEW <= now <= expires + SKEW:
            verified = verify(token, self.own.public, key_of, now)
            if verified is None:
                return None
            expires, part = verified
            if len(self._verified) >= REMEMBERED:
                self._verified.clear()
            self._verified[token] = expires, part
        return part if _same(key_of(part.name), part.key) else None


def verify(token: str, audience: str, key_of: Callable[[str], str], now: float) -> tuple[float, Part] | None:
    """When it expires, and its sender; None if it is not a valid token for ``audience``."""
    try:
        name = str(jwt.decode(token, options={"verify_signature": False}).get("iss", ""))
        key = key_of(name)
        if not key:
            return None
        options: Any = {"require": ["iss", "aud", "iat", "exp"], "verify_exp": False, "verify_iat": False}
        claims = jwt.decode(token, _public(key), [_ALGORITHM], options, audience=audience)
        issued, expires = float(claims["iat"]), float(claims["exp"])
    except (jwt.InvalidTokenError, ValueError, TypeError, binascii.Error):
        return None
    current = issued - SKEW <= now <= expires + SKEW and 0 <= expires - issued <= LIFETIME
    return (expires, Part(name, key)) if current else None


def require_join_secret(
    secret: str, variable: str, part: str, *sockets: socket.socket, anonymous: Anonymous = ""
) -> None:
    """A part that other machines reach, or that gives other processes here no rights (``anonymous``), starts only
    with a secret: without one each of them could act as a part."""
    remedy = f"set {variable} to the same long random text at all parts (openssl rand -hex 32)"
    if not secret and not all(map(loopback, sockets)):
        raise UserError(
            f"a {part} that listens beyond loopback needs a join secret", hint=f"{remedy}, or listen on 127.0.0.1"
        )
    if not secret and anonymous == "none":
        raise UserError(f"a {part} with anonymous = none needs a join secret", hint=remedy)


def _statement(*words: str | float) -> bytes:
    return msgspec.json.encode(words)


def _proof(secret: str, statement: bytes) -> str:
    return hmac.new(secret.encode(), statement, "sha256").hexdigest() if secret else ""


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _public(key: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(_bytes(key))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
