"""Registers users, logs them in and out, and issues their tokens; the coordinator runs it, or a broker without one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, TypeVar

import httpx
import msgspec

from tocsin.errors import Conflict, NotFound, SystemFailure, Unauthorized
from tocsin.identity import messages as it
from tocsin.identity.passwords import Passwords
from tocsin.identity.rate_limit import RateLimit
from tocsin.identity.tokens import OWN, Issuer, Provider, Verifier
from tocsin.identity.user_store import Session, UserStore, check_device, check_name, check_password

log = logging.getLogger(__name__)

#: Seconds between two searches for sessions that have expired and keys that are due.
MAINTENANCE = 15.0
#: Seconds between two fetches of an identity provider's keys: regularly, after a failure, and for an unknown key.
FETCH_EVERY, FETCH_AGAIN, FETCH_UNKNOWN = 3_600.0, 10.0, 10.0
#: Seconds for one of them.
FETCH_SECONDS = 5.0
WRONG = "wrong user or password"

T = TypeVar("T")


class IdentityService:
    """``clock`` is that of the store."""

    def __init__(self, store: UserStore, passwords: Passwords | None = None) -> None:
        config, clock = store.config, store.clock
        self.store, self.config, self.clock = store, config, clock
        self.passwords = passwords or Passwords()
        self.issuer = Issuer(store.rotate().result(), config.token_seconds, clock)
        self.provider = Provider(config.issuer, config.audience, config.roles_claim) if config.issuer else None
        self.verifier = Verifier(clock, config.clock_skew, self.provider)
        self.verifier.learn(OWN, self.issuer.jwks())
        self._provider_keys: dict[str, Any] = {"keys": []}
        self._fetched = float("-inf")
        self._registrations = RateLimit("registrations from this address", config.registrations, clock)
        self._by_user = RateLimit("wrong passwords for this user", config.guesses, clock)
        self._by_address = RateLimit("wrong passwords from this address", config.guesses_per_address, clock)
        self._calls: dict[type[it.Call], Callable[[Any, str], Any]] = {
            it.Register: self._register,
            it.LogIn: self._log_in,
            it.Refresh: self._refresh,
            it.ChangePassword: self._change_password,
            it.DeleteUser: self._delete,
            it.LogOut: self._log_out,
        }

    def close(self) -> None:
        self.passwords.close()

    async def maintain(self) -> None:
        """For ever: expires sessions and rotates keys."""
        while True:
            await self._fetch_keys(FETCH_EVERY)
            with contextlib.suppress(SystemFailure):  # the store has logged it
                await _done(self.store.expire())
                keys = await _done(self.store.rotate())
                if keys != self.issuer.keys:
                    self.issuer.keys = keys
                    self.verifier.learn(OWN, self.issuer.jwks())
            await asyncio.sleep(MAINTENANCE)

    async def _fetch_keys(self, every: float) -> None:
        """The identity provider's keys, unless they were fetched within this time."""
        now = asyncio.get_running_loop().time()
        if self.provider is None or now < self._fetched + every:
            return
        self._fetched = now
        url = self.config.jwks or self.config.issuer.rstrip("/") + "/.well-known/jwks.json"
        try:
            async with httpx.AsyncClient(timeout=FETCH_SECONDS) as client:
                answer = (await client.get(url)).raise_for_status()
            found = msgspec.json.decode(answer.content, type=dict[str, Any])
        except (httpx.HTTPError, OSError, msgspec.DecodeError) as error:
            log.warning(
                "the identity provider's keys cannot be fetched from %s: %s", url, error or type(error).__name__
            )
            self._fetched = now - every + FETCH_AGAIN
            return
        self._provider_keys = found
        self.verifier.learn(self.provider.issuer, found)

    async def call(self, call: it.AnyCall, address: str) -> it.Tokens | it.Changed:
        """What people ask for. ``address`` is theirs."""
        if self.config.issuer and not isinstance(call, it.LogOut):
            raise Conflict("users belong to the identity provider", hint=f"log in at {self.config.issuer}")
        found: it.Tokens | it.Changed = await self._calls[type(call)](call, address)
        return found

    async def _register(self, call: it.Register, address: str) -> it.Changed:
        self._registrations.take(address)  # whether a name exists can be asked only this often
        check_name(call.user)
        check_password(call.password)
        await _done(self.store.add(call.user, await self.passwords.hash(call.password)))
        return it.Changed(call.user)

    async def _log_in(self, call: it.LogIn, address: str) -> it.Tokens:
        check_device(call.device)
        await self._verify(call.user, call.password, address)
        return self._tokens(await _done(self.store.log_in(call.user, call.device)))

    async def _refresh(self, call: it.Refresh, address: str) -> it.Tokens:
        return self._tokens(await _done(self.store.refresh(call.refresh)))

    def _tokens(self, session: Session) -> it.Tokens:
        token, expires = self.issuer.issue(session.user, session.device, session.roles)
        return it.Tokens(token, expires, self.config.token_seconds, session.refresh)

    async def _verify(self, user: str, password: str, address: str) -> str:
        """The hash of the password. Only wrong passwords count for the limits."""
        self._by_address.take(address)
        try:
            self._by_user.take(user)
        except SystemFailure:
            self._by_address.give_back(address)
            raise
        known = await _done(self.store.password(user))
        right, renewed = await self.passwords.verify(known, password)
        if not right or known is None:
            raise Unauthorized(WRONG)
        self._by_address.give_back(address)
        self._by_user.give_back(user)
        if renewed is not None:
            with contextlib.suppress(Unauthorized):  # changed at the same moment
                await _done(self.store.set_password(user, known, renewed, revoke=False))
                known = renewed
        return known

    async def _change_password(self, call: it.ChangePassword, address: str) -> it.Changed:
        check_password(call.new_password)
        known = await self._verify(call.user, call.password, address)
        hashed = await self.passwords.hash(call.new_password)
        await _done(self.store.set_password(call.user, known, hashed, revoke=True))
        return it.Changed(call.user)

    async def _delete(self, call: it.DeleteUser, address: str) -> it.Changed:
        await self._verify(call.user, call.password, address)
        await _done(self.store.delete(call.user))
        return it.Changed(call.user)

    async def _log_out(self, call: it.LogOut, address: str) -> it.Changed:
        claims = self.verifier.verify(call.token)
        await _done(self.store.log_out(claims.sub, claims.sid, claims.issued))
        return it.Changed(claims.sub)

    # -- for the operator

    async def revoke(self, user: str) -> it.Changed:
        await _done(self.store.revoke(user))
        return it.Changed(user)

    async def set_roles(self, user: str, roles: list[str]) -> it.Changed:
        if not await _done(self.store.set_roles(user, roles)):
            raise NotFound("user", user)
        return it.Changed(user)

    # -- for brokers

    async def exchange(self, broker: str, asked: it.Exchange, alive: Collection[str] | None = None) -> it.Exchanged:
        """``alive``: see the store."""
        if asked.unknown_key == self.config.issuer:
            await self._fetch_keys(FETCH_UNKNOWN)
        outcomes, revocations = await _done(self.store.exchange(broker, asked.revocation, asked.commands, alive))
        issuers = [it.TrustedIssuer(OWN, OWN, "roles", self.issuer.jwks())]
        if self.provider is not None:
            provider = self.provider
            keys = self._provider_keys
            issuers.append(it.TrustedIssuer(provider.issuer, provider.audience, provider.roles, keys))
        return it.Exchanged(outcomes, revocations, issuers)


async def _done(future: Future[T]) -> T:
    """Goes on in the store when the caller has gone."""
    return await asyncio.shield(asyncio.wrap_future(future))
