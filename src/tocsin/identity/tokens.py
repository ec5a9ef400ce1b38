"""Access tokens: JWTs that every broker verifies by itself, with the network's own keys or an identity provider's."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any
from urllib.parse import quote

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm
from msgspec import Struct

from tocsin.errors import Unauthorized

#: ``iss`` and ``aud`` of the network's own tokens; its keys are what tells networks apart.
OWN = "tocsin"
#: Characters of a token; those of identity providers list groups.
LARGEST = 3_072
#: Seconds for which a new key is published before it signs, so that every verifier has it by then.
AHEAD = 3_600.0
#: Most tokens whose claims are remembered, to verify each of them once.
REMEMBERED = 10_000
#: Algorithms by type of key: only those with a public key, so that what verifies cannot sign.
ALGORITHMS = {
    "OKP": ("EdDSA",),
    "EC": ("ES256", "ES384", "ES512"),
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
}
LOG_IN = "log in again"


class Claims(Struct, frozen=True):
    """What a valid token says. ``sub`` is the user, ``sid`` the session: one device of the user, whose durable
    subscriptions belong to it. ``raw`` are all claims."""

    sub: str
    sid: str
    roles: tuple[str, ...]
    issued: float
    expires: float
    raw: dict[str, Any]


class UnknownKey(Unauthorized):
    """No key with the token's ``kid`` is known of its issuer: the issuer may have a new one."""

    def __init__(self, issuer: str) -> None:
        super().__init__("the token is signed with an unknown key", hint=LOG_IN)
        self.issuer = issuer


def session_id(user: str, device: str) -> str:
    """A user's name has no slash in it, except those of an identity provider."""
    return f"{session_prefix(user)}{device}"


def session_prefix(user: str) -> str:
    """With which the ids of all sessions of a user begin."""
    return quote(user, safe="@:+ !$&'()*,;=~") + "/" if "/" in user or "%" in user else f"{user}/"


class SigningKey(Struct, frozen=True):
    """One of the network's own keys; it signs from ``begins`` on, until the next one begins."""

    kid: str
    private: bytes
    begins: float

    @classmethod
    def new(cls, begins: float) -> SigningKey:
        return cls(secrets.token_urlsafe(9), Ed25519PrivateKey.generate().private_bytes_raw(), begins)

    def jwk(self) -> dict[str, str]:
        public = Ed25519PrivateKey.from_private_bytes(self.private).public_key()
        return {**OKPAlgorithm.to_jwk(public, as_dict=True), "kid": self.kid, "use": "sig", "alg": "EdDSA"}


def rotated(keys: list[SigningKey], now: float, rotation: float, kept: float) -> list[SigningKey]:
    """The keys from now on: a new one where it is due, without those whose last token expired ``kept`` seconds after
    the next key began. The oldest is the first."""
    found = sorted(keys, key=lambda key: key.begins)
    if not found:
        found = [SigningKey.new(now)]
    elif found[-1].begins + rotation - AHEAD <= now:
        found.append(SigningKey.new(now + AHEAD))
    while len(found) > 1 and found[1].begins + kept <= now:
        del found[0]
    return found


class Issuer:
    """Signs tokens with the newest of ``keys`` that has begun."""

    def __init__(self, keys: list[SigningKey], lifetime: float, clock: Callable[[], float]) -> None:
        self.keys, self.lifetime, self._clock = keys, lifetime, clock
        self._published: tuple[list[SigningKey], dict[str, Any]] = ([], {"keys": []})

    def jwks(self) -> dict[str, Any]:
        """All public keys, as RFC 7517 has them."""
        if self._published[0] is not self.keys:  # every exchange of a broker has them
            self._published = (self.keys, {"keys": [key.jwk() for key in self.keys]})
        return self._published[1]

    def issue(self, user: str, device: str, roles: list[str]) -> tuple[str, float]:
        """A token, and when it expires."""
        now = self._clock()
        key = next((each for each in reversed(self.keys) if each.begins <= now), self.keys[0])
        claims = {
            "iss": OWN,
            "aud": OWN,
            "sub": user,
            "sid": session_id(user, device),
            "roles": roles,
            "iat": now,
            "exp": now + self.lifetime,
            "jti": secrets.token_urlsafe(12),
        }
        private = Ed25519PrivateKey.from_private_bytes(key.private)
        return jwt.encode(claims, private, algorithm="EdDSA", headers={"kid": key.kid}), now + self.lifetime


class Provider(Struct, frozen=True):
    """An identity provider whose tokens are accepted. ``roles``: the claim that lists them; a dot leads into it."""

    issuer: str
    audience: str
    roles: str = "roles"


class Key(Struct, frozen=True):
    algorithms: tuple[str, ...]
    public: Any


class Verifier:
    """``leeway``: seconds by which clocks may differ."""

    def __init__(self, clock: Callable[[], float], leeway: float = 30.0, provider: Provider | None = None) -> None:
        self.leeway = leeway
        self._clock = clock
        self._issuers: dict[str, Provider] = {}
        self._keys: dict[str, dict[str, Key]] = {}
        self._jwks: dict[str, Mapping[str, Any]] = {}
        self._verified: dict[str, Claims] = {}
        for each in (Provider(OWN, OWN), provider):
            if each is not None:
                self.trust(each)

    def trust(self, provider: Provider) -> None:
        self._issuers[provider.issuer] = provider
        self._keys.setdefault(provider.issuer, {})

    def learn(self, issuer: str, jwks: Mapping[str, Any]) -> None:
        """These are the keys of the issuer from now on; keys of unknown types are ignored."""
        if self._jwks.get(issuer) == jwks:
            return
        found: dict[str, Key] = {}
        for each in jwks.get("keys", ()):
            allowed = ALGORITHMS.get(each.get("kty"), ())
            if "alg" in each:
                allowed = tuple(name for name in allowed if name == each["alg"])
            if not allowed or each.get("use", "sig") != "sig":
                continue
            try:
                found[each.get("kid", "")] = Key(allowed, jwt.PyJWK(each, allowed[0]).key)
            except jwt.PyJWTError:
                continue
        self._verified.clear()  # a key that is gone may be one that was stolen
        self._keys[issuer], self._jwks[issuer] = found, jwks

    def verify(self, token: str) -> Claims:
        """Raises Unauthorized, which says why, and UnknownKey where the issuer's keys may have changed."""
        claims = self._verified.get(token)
        if claims is None:
            claims = self._claims(self._decoded(token))
            if len(self._verified) >= REMEMBERED:
                self._verified.clear()
            self._verified[token] = claims
        now = self._clock()
        if claims.expires + self.leeway <= now:
            self._verified.pop(token, None)
            raise Unauthorized("the token has expired", hint=LOG_IN)
        if max(claims.issued, _number(claims.raw, "nbf", 0.0)) - self.leeway > now:
            raise Unauthorized("the token is not valid yet", hint="check the clocks of the machines")
        return claims

    def _decoded(self, token: str) -> dict[str, Any]:
        if len(token) > LARGEST:
            raise _wrong()
        try:
            known = jwt.decode_complete(token, options={"verify_signature": False})
            issuer = self._issuers.get(str(known["payload"].get("iss")))
            if issuer is None:
                raise Unauthorized("the token is of an unknown issuer", hint=LOG_IN)
            key = self._keys[issuer.issuer].get(str(known["header"].get("kid", "")))
            if key is None:
                raise UnknownKey(issuer.issuer)
            # Times are checked by the verifier's own clock.
            claims: dict[str, Any] = jwt.decode(
                token,
                key.public,
                algorithms=list(key.algorithms),
                audience=issuer.audience,
                issuer=issuer.issuer,
                options={
                    "require": ["exp", "sub", "iss", "aud"],
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                },
            )
        except jwt.PyJWTError:
            raise _wrong() from None
        return claims

    def _claims(self, raw: dict[str, Any]) -> Claims:
        issuer, user = self._issuers[raw["iss"]], raw["sub"]
        own = issuer.issuer == OWN
        session = raw.get("sid") if own else session_id(user, str(raw.get("device", "default")))
        expires = _number(raw, "exp", 0.0)
        if not user or not isinstance(session, str) or not session.startswith(session_prefix(user)):
            raise _wrong()
        roles: Any = raw
        for name in issuer.roles.split("."):
            roles = roles.get(name) if isinstance(roles, dict) else None
        if isinstance(roles, str):
            roles = roles.split()
        listed = tuple(role for role in roles if isinstance(role, str)) if isinstance(roles, list) else ()
        return Claims(user, session, listed, _number(raw, "iat", 0.0), expires, raw)


def _number(claims: dict[str, Any], name: str, default: float) -> float:
    value = claims.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise _wrong()
    return float(value)


def _wrong() -> Unauthorized:
    return Unauthorized("the token is not valid", hint=LOG_IN)
