"""Accounts: what users, operators and brokers may ask of the store of users, as effects. Pure.

asyncio performs them in production (see ``IdentityService``), and the simulator under its own clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from msgspec import Struct

from tocsin.config import IdentityConfig
from tocsin.effects import Effects
from tocsin.errors import Conflict, NotFound, NotReady, SystemFailure, Unauthorized
from tocsin.identity import messages as it
from tocsin.identity.rate_limit import RateLimit
from tocsin.identity.tokens import OWN, Issuer, Provider, SigningKey, Verifier
from tocsin.identity.user_records import Session, UserRecords, check_device, check_name, check_password

WRONG = "wrong user or password"


class Stored(Struct, frozen=True):
    """Answered by the result of ``work``, when its changes are durable."""

    work: Callable[[UserRecords], Any]


class HashPassword(Struct, frozen=True):
    """Answered by the hash."""

    password: str


class VerifyPassword(Struct, frozen=True):
    """Answered as by ``PasswordHashes.verify``."""

    known: str | None
    password: str


class Accounts:
    """``keys`` sign the tokens; ``clock`` is that of the store."""

    def __init__(self, config: IdentityConfig, clock: Callable[[], float], keys: list[SigningKey]) -> None:
        self.config = config
        self.issuer = Issuer(keys, config.token_seconds, clock)
        self.provider = Provider(config.issuer, config.audience, config.roles_claim) if config.issuer else None
        self.provider_keys: dict[str, Any] = {"keys": []}
        self.verifier = Verifier(clock, config.clock_skew, self.provider)
        self.verifier.learn(OWN, self.issuer.jwks())
        self._exchanges: dict[str, tuple[str, int]] = {}  # the last of each broker
        self._registrations = RateLimit("registrations from this address", config.registrations, clock)
        self._by_user = RateLimit("wrong passwords for this user", config.guesses, clock)
        self._by_address = RateLimit("wrong passwords from this address", config.guesses_per_address, clock)
        self._calls: dict[type[it.Call], Callable[[Any, str], Effects[Any]]] = {
            it.Register: self._register,
            it.LogIn: self._log_in,
            it.Refresh: self._refresh,
            it.ChangePassword: self._change_password,
            it.DeleteUser: self._delete,
            it.LogOut: self._log_out,
        }

    # -- for people

    def call(self, call: it.AnyCall, address: str) -> Effects[it.Tokens | it.Changed]:
        """``address`` is theirs."""
        if self.config.issuer and not isinstance(call, it.LogOut):
            raise Conflict("users belong to the identity provider", hint=f"log in at {self.config.issuer}")
        found: it.Tokens | it.Changed = yield from self._calls[type(call)](call, address)
        return found

    def _register(self, call: it.Register, address: str) -> Effects[it.Changed]:
        self._registrations.take(address)  # whether a name exists can be asked only this often
        check_name(call.user)
        check_password(call.user, call.password)
        hashed = yield HashPassword(call.password)
        yield Stored(lambda records: records.add(call.user, hashed))
        return it.Changed(call.user)

    def _log_in(self, call: it.LogIn, address: str) -> Effects[it.Tokens]:
        check_device(call.device)
        yield from self._verify(call.user, call.password, address)
        return self._tokens((yield Stored(lambda records: records.log_in(call.user, call.device))))

    def _refresh(self, call: it.Refresh, address: str) -> Effects[it.Tokens]:
        return self._tokens((yield Stored(lambda records: records.refresh(call.refresh))))

    def _tokens(self, session: Session) -> it.Tokens:
        token, expires = self.issuer.issue(session.user, session.device, session.roles)
        return it.Tokens(token, expires, self.config.token_seconds, session.refresh)

    def _verify(self, user: str, password: str, address: str) -> Effects[str]:
        """The hash of the password. Only wrong passwords count for the limits."""
        self._by_address.take(address)
        try:
            self._by_user.take(user)
        except SystemFailure:
            self._by_address.give_back(address)
            raise
        known: str | None = yield Stored(lambda records: records.password(user))
        right, renewed = yield VerifyPassword(known, password)
        if not right or known is None:
            raise Unauthorized(WRONG)
        self._by_address.give_back(address)
        self._by_user.give_back(user)
        if renewed is not None:
            with suppress(Unauthorized):  # changed at the same moment
                yield Stored(lambda records: records.set_password(user, known, renewed, revoke=False))
                return str(renewed)
        return known

    def _change_password(self, call: it.ChangePassword, address: str) -> Effects[it.Changed]:
        check_password(call.user, call.new_password)
        known = yield from self._verify(call.user, call.password, address)
        hashed = yield HashPassword(call.new_password)
        yield Stored(lambda records: records.set_password(call.user, known, hashed, revoke=True))
        return it.Changed(call.user)

    def _delete(self, call: it.DeleteUser, address: str) -> Effects[it.Changed]:
        yield from self._verify(call.user, call.password, address)
        yield Stored(lambda records: records.delete(call.user))
        return it.Changed(call.user)

    def _log_out(self, call: it.LogOut, address: str) -> Effects[it.Changed]:
        claims = self.verifier.verify(call.token)
        yield Stored(lambda records: records.log_out(claims.sub, claims.sid, claims.issued))
        return it.Changed(claims.sub)

    # -- for the operator

    def revoke(self, user: str) -> Effects[it.Changed]:
        yield Stored(lambda records: records.revoke(user))
        return it.Changed(user)

    def users(self, after: str, limit: int) -> Effects[it.UserList]:
        return it.UserList((yield Stored(lambda records: records.page(after, limit))))

    def delete_user(self, user: str) -> Effects[it.Changed]:
        return _changed(user, (yield Stored(lambda records: records.delete(user))))

    def reset_password(self, user: str, password: str) -> Effects[it.Changed]:
        check_password(user, password)
        hashed = yield HashPassword(password)
        return _changed(user, (yield Stored(lambda records: records.reset_password(user, hashed))))

    def set_roles(self, user: str, roles: list[str]) -> Effects[it.Changed]:
        return _changed(user, (yield Stored(lambda records: records.set_roles(user, roles))))

    # -- for brokers

    def exchange(self, broker: str, asked: it.Exchange, alive: Collection[str] | None) -> Effects[it.Exchanged]:
        """``alive``: see the store. What a broker sent before, and has repeated since, would undo what came later."""
        incarnation, last = self._exchanges.get(broker, ("", 0))
        if asked.number and asked.incarnation == incarnation and asked.number <= last:
            raise NotReady("a later exchange of this broker has arrived before this one")
        self._exchanges[broker] = (asked.incarnation, asked.number)
        outcomes, revocations = yield Stored(
            lambda records: records.exchange(broker, asked.revocation, asked.commands, alive)
        )
        issuers = [it.TrustedIssuer(OWN, OWN, "roles", self.issuer.jwks())]
        if self.provider is not None:
            provider = self.provider
            issuers.append(it.TrustedIssuer(provider.issuer, provider.audience, provider.roles, self.provider_keys))
        return it.Exchanged(outcomes, revocations, issuers)

    # -- maintenance

    def maintain(self) -> Effects[bool]:
        """Expires sessions and rotates keys. Whether there are other keys."""
        yield Stored(lambda records: records.expire())
        keys: list[SigningKey] = yield Stored(lambda records: records.rotate())
        if keys == self.issuer.keys:
            return False
        self.issuer.keys = keys
        self.verifier.learn(OWN, self.issuer.jwks())
        return True

    def learn(self, jwks: dict[str, Any]) -> None:
        """The identity provider's keys."""
        assert self.provider is not None
        self.provider_keys = jwks
        self.verifier.learn(self.provider.issuer, jwks)


def _changed(user: str, known: bool) -> it.Changed:
    if not known:
        raise NotFound("user", user)
    return it.Changed(user)
