"""Access tokens: what is accepted, and what is not, whoever signed it."""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tocsin.errors import Unauthorized
from tocsin.identity.tokens import (
    AHEAD,
    OWN,
    Issuer,
    Provider,
    SigningKey,
    UnknownKey,
    Verifier,
    rotated,
    session_id,
    session_prefix,
)

HOUR, DAY = 3_600.0, 86_400.0
PROVIDER = Provider("https://login.example", "alarms", "realm_access.roles")
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def issuer(clock: Clock) -> Issuer:
    return Issuer([SigningKey.new(clock.now)], HOUR, clock)


@pytest.fixture
def verifier(clock: Clock, issuer: Issuer) -> Verifier:
    found = Verifier(clock, 30.0, PROVIDER)
    found.learn(OWN, issuer.jwks())
    found.learn(PROVIDER.issuer, {"keys": [{**RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True), "kid": "theirs"}]})
    return found


def theirs(clock: Clock, key: Any = RSA, alg: str = "RS256", kid: str = "theirs", **claims: Any) -> str:
    given = {"iss": PROVIDER.issuer, "aud": "alarms", "sub": "ann", "exp": clock.now + 60} | claims
    return jwt.encode({name: it for name, it in given.items() if it is not None}, key, alg, headers={"kid": kid})


def test_a_token_says_who_the_user_is_and_which_roles_it_has(clock: Clock, issuer: Issuer, verifier: Verifier) -> None:
    token, expires = issuer.issue("ann", "phone", ["nurse", "driver"])
    claims = verifier.verify(token)
    assert (claims.sub, claims.sid, claims.roles) == ("ann", "ann/phone", ("nurse", "driver"))
    assert claims.expires == expires == clock.now + HOUR
    assert claims.raw["jti"] and claims.raw["jti"] != verifier.verify(issuer.issue("ann", "phone", [])[0]).raw["jti"]


def test_a_token_expires_with_leeway_for_clocks_that_differ(clock: Clock, issuer: Issuer, verifier: Verifier) -> None:
    token, expires = issuer.issue("ann", "phone", [])
    clock.now = expires + 29
    assert verifier.verify(token).sub == "ann"
    clock.now = expires + 30
    with pytest.raises(Unauthorized, match="expired"):
        verifier.verify(token)


def test_a_token_of_a_clock_that_is_ahead_is_valid_within_the_leeway_only(
    clock: Clock, issuer: Issuer, verifier: Verifier
) -> None:
    clock.now += 31
    token, _ = issuer.issue("ann", "phone", [])
    clock.now -= 31
    with pytest.raises(Unauthorized, match="not valid yet"):
        verifier.verify(token)
    clock.now += 1
    assert verifier.verify(token).sub == "ann"


def test_a_changed_token_is_refused(issuer: Issuer, verifier: Verifier) -> None:
    head, body, signature = issuer.issue("ann", "phone", [])[0].split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    for change in ({"sub": "bob", "sid": "bob/phone"}, {"roles": ["admin"]}, {"exp": 9e9}):
        forged = base64.urlsafe_b64encode(json.dumps(claims | change).encode()).rstrip(b"=").decode()
        with pytest.raises(Unauthorized):
            verifier.verify(f"{head}.{forged}.{signature}")


def test_a_token_without_a_signature_is_refused(clock: Clock, verifier: Verifier, issuer: Issuer) -> None:
    claims = {"iss": OWN, "aud": OWN, "sub": "ann", "sid": "ann/phone", "exp": clock.now + 60}
    for kid in (issuer.keys[0].kid, "theirs"):
        with pytest.raises(Unauthorized):
            verifier.verify(jwt.encode(claims, None, algorithm="none", headers={"kid": kid}))


def test_a_public_key_is_not_taken_for_a_shared_secret(clock: Clock, verifier: Verifier, issuer: Issuer) -> None:
    claims = {"iss": OWN, "aud": OWN, "sub": "ann", "sid": "ann/phone", "exp": clock.now + 60}
    public = Ed25519PrivateKey.from_private_bytes(issuer.keys[0].private).public_key()
    secret = public.public_bytes(Encoding.Raw, PublicFormat.Raw)
    with pytest.raises(Unauthorized):
        verifier.verify(jwt.encode(claims, secret, "HS256", headers={"kid": issuer.keys[0].kid}))


def test_a_token_of_another_network_is_refused(clock: Clock, verifier: Verifier, issuer: Issuer) -> None:
    other = Issuer([SigningKey.new(clock.now)], HOUR, clock)
    with pytest.raises(UnknownKey):
        verifier.verify(other.issue("ann", "phone", [])[0])
    named = Issuer([SigningKey(issuer.keys[0].kid, other.keys[0].private, 0.0)], HOUR, clock)
    with pytest.raises(Unauthorized, match="not valid"):
        verifier.verify(named.issue("ann", "phone", [])[0])


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "x" * 5_000, "\0", "ä.ö.ü", "e30.e30.e30", "bnVsbA.bnVsbA.bnVsbA"])
def test_what_is_not_a_token_is_refused(verifier: Verifier, text: str) -> None:
    with pytest.raises(Unauthorized):
        verifier.verify(text)


def test_a_provider_s_token_is_verified_with_its_keys(clock: Clock, verifier: Verifier) -> None:
    claims = verifier.verify(theirs(clock, realm_access={"roles": ["nurse"]}, device="phone"))
    assert (claims.sub, claims.sid, claims.roles) == ("ann", "ann/phone", ("nurse",))
    assert verifier.verify(theirs(clock, realm_access={"roles": "nurse driver"})).roles == ("nurse", "driver")
    assert verifier.verify(theirs(clock)).roles == ()


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "other"},
        {"aud": None},
        {"iss": "https://evil.example"},
        {"iss": OWN},
        {"sub": None},
        {"sub": ""},
        {"exp": None},
        {"exp": "tomorrow"},
        {"exp": True},
        {"exp": 1e400},
        {"nbf": 9e9},
    ],
    ids=str,
)
def test_a_provider_s_token_for_others_or_without_its_claims_is_refused(
    clock: Clock, verifier: Verifier, claims: dict[str, Any]
) -> None:
    with pytest.raises(Unauthorized):
        verifier.verify(theirs(clock, **claims))


def test_a_provider_does_not_sign_for_the_network(clock: Clock, verifier: Verifier) -> None:
    with pytest.raises(UnknownKey):
        verifier.verify(theirs(clock, iss=OWN, aud=OWN, sid="ann/phone"))


def test_a_new_key_of_a_provider_is_known_as_soon_as_it_was_fetched(clock: Clock, verifier: Verifier) -> None:
    new = ec.generate_private_key(ec.SECP256R1())
    token = theirs(clock, new, "ES256", "new")
    with pytest.raises(UnknownKey) as caught:
        verifier.verify(token)
    assert caught.value.issuer == PROVIDER.issuer
    old = theirs(clock)
    assert verifier.verify(old).sub == "ann"
    jwk = {**ECAlgorithm.to_jwk(new.public_key(), as_dict=True), "kid": "new", "alg": "ES256"}
    verifier.learn(PROVIDER.issuer, {"keys": [jwk, {"kty": "oct", "k": "c2VjcmV0", "kid": "oct"}, {"kty": "RSA"}]})
    assert verifier.verify(token).sub == "ann"
    with pytest.raises(UnknownKey):  # a key that the provider withdrew, though the token was verified before
        verifier.verify(old)


def test_keys_rotate_and_old_ones_verify_until_their_last_token_has_expired(clock: Clock) -> None:
    keys = rotated([], clock.now, 30 * DAY, HOUR)
    first = Issuer(keys, HOUR, clock)
    assert rotated(keys, clock.now + DAY, 30 * DAY, HOUR) == keys
    clock.now = keys[0].begins + 30 * DAY - AHEAD
    keys = rotated(keys, clock.now, 30 * DAY, HOUR)
    assert [key.begins for key in keys] == [first.keys[0].begins, first.keys[0].begins + 30 * DAY]
    verifier = Verifier(clock)
    both = Issuer(keys, HOUR, clock)
    verifier.learn(OWN, both.jwks())
    clock.now = keys[1].begins - 1
    last = both.issue("ann", "phone", [])[0]
    assert jwt.get_unverified_header(last)["kid"] == keys[0].kid  # the new one is only published
    clock.now = keys[1].begins
    assert jwt.get_unverified_header(both.issue("ann", "phone", [])[0])["kid"] == keys[1].kid
    clock.now = keys[1].begins + HOUR - 2
    assert len(rotated(keys, clock.now, 30 * DAY, HOUR)) == 2 and verifier.verify(last).sub == "ann"
    assert rotated(keys, keys[1].begins + HOUR, 30 * DAY, HOUR) == keys[1:]


def test_sessions_of_different_users_never_have_the_same_id() -> None:
    pairs = [("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c"), ("a", "b%2Fc"), ("a%", "c")]
    assert len({session_id(*pair) for pair in pairs}) == len(pairs)
    assert not session_id("a/b", "c").startswith(session_prefix("a"))


def test_public_keys_say_nothing_of_the_private_ones(issuer: Issuer) -> None:
    (jwk,) = issuer.jwks()["keys"]
    assert set(jwk) == {"kty", "crv", "x", "kid", "use", "alg"}
