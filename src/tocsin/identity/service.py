"""Performs what users, operators and brokers ask of the accounts; the coordinator runs it, or a broker without one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from tocsin.effects import Effects, run_effects
from tocsin.errors import SystemFailure
from tocsin.identity import messages as it
from tocsin.identity.accounts import Accounts, HashPassword, Stored
from tocsin.identity.passwords import Passwords
from tocsin.identity.tokens import Issuer, Verifier
from tocsin.identity.user_store import UserStore

log = logging.getLogger(__name__)

#: Seconds between two searches for sessions that have expired and keys that are due.
MAINTENANCE = 15.0
#: Seconds between two fetches of an identity provider's keys: regularly, after a failure, and for an unknown key.
FETCH_EVERY, FETCH_AGAIN, FETCH_UNKNOWN = 3_600.0, 10.0, 10.0
#: Seconds for one of them.
FETCH_SECONDS = 5.0
#: Of the public keys of tokens, in the home of the coordinator.
KEYS_FILE = "jwks.json"

T = TypeVar("T")


class IdentityService:
    """The public keys of its tokens are in ``keys_file`` too, for parts that start earlier or while this one is
    away."""

    def __init__(self, store: UserStore, passwords: Passwords | None = None, *, keys_file: Path | None = None) -> None:
        self.store, self.config = store, store.config
        self.accounts = Accounts(store.config, store.clock, store.rotate().result())
        self.passwords = passwords or Passwords()
        self._keys_file = keys_file
        self._publish_keys()
        self._fetched = float("-inf")

    @property
    def issuer(self) -> Issuer:
        return self.accounts.issuer

    @property
    def verifier(self) -> Verifier:
        return self.accounts.verifier

    def close(self) -> None:
        self.passwords.close()

    async def maintain(self) -> None:
        """For ever: expires sessions and rotates keys."""
        while True:
            await self._fetch_keys(FETCH_EVERY)
            with contextlib.suppress(SystemFailure):  # the store has logged it
                if await self._run(self.accounts.maintain()):
                    self._publish_keys()
            await asyncio.sleep(MAINTENANCE)

    def _publish_keys(self) -> None:
        if self._keys_file is None:
            return
        draft = self._keys_file.with_suffix(".new")
        try:
            draft.write_bytes(msgspec.json.encode(self.issuer.jwks()))
            draft.replace(self._keys_file)
        except OSError as error:
            log.warning("the keys of tokens cannot be written to %s: %s", self._keys_file, error)

    async def _fetch_keys(self, every: float) -> None:
        """The identity provider's keys, unless they were fetched within this time."""
        now = asyncio.get_running_loop().time()
        if self.accounts.provider is None or now < self._fetched + every:
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
        self.accounts.learn(found)

    async def call(self, call: it.AnyCall, address: str) -> it.Tokens | it.Changed:
        """What people ask for. ``address`` is theirs."""
        return await self._run(self.accounts.call(call, address))

    async def revoke(self, user: str) -> it.Changed:
        return await self._run(self.accounts.revoke(user))

    async def users(self, after: str, limit: int) -> it.UserList:
        return await self._run(self.accounts.users(after, limit))

    async def delete_user(self, user: str) -> it.Changed:
        return await self._run(self.accounts.delete_user(user))

    async def reset_password(self, user: str, password: str) -> it.Changed:
        return await self._run(self.accounts.reset_password(user, password))

    async def set_roles(self, user: str, roles: list[str]) -> it.Changed:
        return await self._run(self.accounts.set_roles(user, roles))

    async def exchange(self, broker: str, asked: it.Exchange, alive: Collection[str] | None = None) -> it.Exchanged:
        """``alive``: see the store."""
        if asked.unknown_key == self.config.issuer:
            await self._fetch_keys(FETCH_UNKNOWN)
        return await self._run(self.accounts.exchange(broker, asked, alive))

    async def _run(self, effects: Effects[T]) -> T:
        return await run_effects(effects, self._perform)

    async def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Stored):  # goes on in the store when the caller has gone
            return await asyncio.shield(asyncio.wrap_future(self.store.run(effect.work)))
        if isinstance(effect, HashPassword):
            return await self.passwords.hash(effect.password)
        return await self.passwords.verify(effect.known, effect.password)
