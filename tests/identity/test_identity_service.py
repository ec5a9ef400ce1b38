"""Registering, logging in and out, and what strangers can find out by it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm

from tocsin.config import IdentityConfig
from tocsin.errors import AlreadyExists, Conflict, NotFound, NotReady, RateLimited, Unauthorized, UserError
from tocsin.identity import messages as it
from tocsin.identity import service as module
from tocsin.identity.service import IdentityService
from tocsin.identity.user_store import UserStore
from tocsin.wire.position import Position

PASSWORD = "correct horse"


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@asynccontextmanager
async def served(folder: Path, clock: Clock | None = None, **settings: Any) -> AsyncIterator[IdentityService]:
    store = UserStore("", folder / "users.db", IdentityConfig(**settings), clock or Clock())
    service = IdentityService(store)
    try:
        yield service
    finally:
        service.close()
        store.close()


async def log_in(
    service: IdentityService, password: str = PASSWORD, user: str = "ann", address: str = "1"
) -> it.Tokens:
    found = await service.call(it.LogIn(user, password, "phone"), address)
    assert isinstance(found, it.Tokens)
    return found


async def revoked(service: IdentityService, token: str) -> bool:
    claims = service.verifier.verify(token)
    exchanged = await service.exchange("a", it.Exchange(0, "", [it.Attach(claims.sid, claims.sub, claims.issued)]))
    return exchanged.outcomes[0].error is not None


def test_an_exchange_that_arrives_after_a_later_one_changes_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        async with served(tmp_path) as service:
            attach, remember = it.Attach("ann/phone", "ann", 2e9), it.Remember("ann/phone", 7, "C", [], Position(1, 0))
            early = it.Exchange(0, "", [attach, it.Forget("ann/phone", 7)], "first process", 1)
            await service.exchange("a", early)
            await service.exchange("a", it.Exchange(0, "", [remember], "first process", 2))
            with pytest.raises(NotReady):
                await service.exchange("a", early)  # repeated by the network, or held up
            found = await service.exchange("a", it.Exchange(0, "", [attach], "second process", 1))
            assert [each.subscription for each in found.outcomes[0].sessions["ann/phone"]] == [7]

    asyncio.run(check())


def test_a_user_registers_logs_in_refreshes_and_logs_out(tmp_path: Path) -> None:
    async def check() -> None:
        async with served(tmp_path) as service:
            assert await service.call(it.Register("ann", PASSWORD), "1") == it.Changed("ann")
            first = await log_in(service)
            claims = service.verifier.verify(first.token)
            assert (claims.sub, claims.sid, first.expires) == ("ann", "ann/phone", claims.expires)
            second = await service.call(it.Refresh(first.refresh), "1")
            assert isinstance(second, it.Tokens) and second.token != first.token
            await service.call(it.LogOut(second.token), "1")
            assert await revoked(service, first.token) and await revoked(service, second.token)
            for call in (it.Refresh(first.refresh), it.LogOut(second.token)):
                with pytest.raises(Unauthorized):
                    await service.call(call, "1")
            assert not await revoked(service, (await log_in(service)).token)

    asyncio.run(check())


def test_a_changed_password_voids_all_tokens(tmp_path: Path) -> None:
    async def check() -> None:
        async with served(tmp_path) as service:
            await service.call(it.Register("ann", PASSWORD), "1")
            before = await log_in(service)
            with pytest.raises(Unauthorized):
                await service.call(it.ChangePassword("ann", "wrong horse", "a new horse"), "1")
            await service.call(it.ChangePassword("ann", PASSWORD, "a new horse"), "1")
            assert await revoked(service, before.token)
            with pytest.raises(Unauthorized):
                await log_in(service)
            assert not await revoked(service, (await log_in(service, "a new horse")).token)

    asyncio.run(check())


def test_a_deleted_user_can_register_again_and_gets_nothing_of_before(tmp_path: Path) -> None:
    async def check() -> None:
        async with served(tmp_path) as service:
            await service.call(it.Register("ann", PASSWORD), "1")
            before = await log_in(service)
            await service.call(it.DeleteUser("ann", PASSWORD), "1")
            assert await revoked(service, before.token)
            await service.call(it.Register("ann", "another horse"), "1")
            assert await revoked(service, before.token)

    asyncio.run(check())


def test_a_wrong_password_and_an_unknown_user_get_the_same_answer(tmp_path: Path) -> None:
    async def check() -> None:
        async with served(tmp_path) as service:
            await service.call(it.Register("ann", PASSWORD), "1")
            texts = set()
            for user in ("ann", "bob"):
                with pytest.raises(Unauthorized) as caught:
                    await log_in(service, "wrong horse", user)
                texts.add(str(caught.value))
            assert len(texts) == 1

    asyncio.run(check())


def test_guesses_are_limited_by_user_and_by_address(tmp_path: Path) -> None:
    async def check() -> None:
        async with served(tmp_path, guesses=3, guesses_per_address=5) as service:
            await service.call(it.Register("ann", PASSWORD), "0")
            for address in "123":
                with pytest.raises(Unauthorized):
                    await log_in(service, "wrong horse", address=address)
            with pytest.raises(RateLimited, match="for this user"):
                await log_in(service, address="4")
            for user in ("b", "c", "d", "e"):
                with pytest.raises(Unauthorized):
                    await log_in(service, "wrong horse", user, "1")
            with pytest.raises(RateLimited, match="from this address"):
                await log_in(service, "wrong horse", "f", "1")

    asyncio.run(check())


def test_right_passwords_are_not_limited(tmp_path: Path) -> None:
    async def check() -> None:
        async with served(tmp_path, guesses=2, guesses_per_address=2) as service:
            await service.call(it.Register("ann", PASSWORD), "1")
            for _ in range(5):
                await log_in(service)

    asyncio.run(check())


def test_registrations_are_limited_by_address_also_for_names_that_exist(tmp_path: Path) -> None:
    async def check() -> None:
        async with served(tmp_path, registrations=2) as service:
            await service.call(it.Register("ann", PASSWORD), "1")
            with pytest.raises(AlreadyExists):
                await service.call(it.Register("ann", PASSWORD), "1")
            with pytest.raises(RateLimited):
                await service.call(it.Register("bob", PASSWORD), "1")
            await service.call(it.Register("bob", PASSWORD), "2")

    asyncio.run(check())


@pytest.mark.parametrize(
    "call",
    [
        it.Register("", PASSWORD),
        it.Register("a/b", PASSWORD),
        it.Register("a%2Fb", PASSWORD),
        it.Register("a\nb", PASSWORD),
        it.Register("x" * 129, PASSWORD),
        it.Register("bob", "short"),
        it.Register("bob", "x" * 257),
        it.Register("bob", "aaaaaaaa"),
        it.Register("bob", "1212121212"),
        it.Register("barbara.miller", "Barbara.Miller"),
        it.LogIn("ann", PASSWORD, ""),
        it.LogIn("ann", PASSWORD, "a\0b"),
        it.ChangePassword("ann", PASSWORD, "short"),
        it.ChangePassword("ann", PASSWORD, "aaaaaaaa"),
    ],
    ids=str,
)
def test_bad_names_and_passwords_are_refused(tmp_path: Path, call: it.AnyCall) -> None:
    async def check() -> None:
        async with served(tmp_path) as service:
            with pytest.raises(UserError) as caught:
                await service.call(call, "1")
            assert not isinstance(caught.value, Unauthorized)

    asyncio.run(check())


def test_roles_are_in_the_next_tokens_and_older_tokens_end(tmp_path: Path) -> None:
    async def check() -> None:
        async with served(tmp_path) as service:
            await service.call(it.Register("ann", PASSWORD), "1")
            before = await log_in(service)
            await service.set_roles("ann", ["nurse"])
            assert await revoked(service, before.token)
            after = await service.call(it.Refresh(before.refresh), "1")  # the session goes on
            assert isinstance(after, it.Tokens)
            assert service.verifier.verify(after.token).roles == ("nurse",) and not await revoked(service, after.token)
            with pytest.raises(NotFound):
                await service.set_roles("bob", [])

    asyncio.run(check())


def test_keys_of_an_identity_provider_are_fetched_and_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"a": Ed25519PrivateKey.generate()}

    def answer(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == "https://login.example/.well-known/jwks.json"
        jwks = [{**OKPAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid} for kid, key in keys.items()]
        return httpx.Response(200, content=json.dumps({"keys": jwks}))

    client = httpx.AsyncClient
    monkeypatch.setattr(httpx, "AsyncClient", lambda **_: client(transport=httpx.MockTransport(answer)))
    monkeypatch.setattr(module, "FETCH_UNKNOWN", 0.0)
    clock = Clock()

    def token(kid: str) -> str:
        claims = {"iss": "https://login.example", "aud": "tocsin", "sub": "ann", "exp": clock.now + 60}
        return jwt.encode(claims, keys[kid], "EdDSA", headers={"kid": kid})

    async def check() -> None:
        async with served(tmp_path, clock, issuer="https://login.example") as service:
            await service._fetch_keys(0.0)
            assert service.verifier.verify(token("a")).sub == "ann"
            keys["b"] = Ed25519PrivateKey.generate()
            with pytest.raises(Unauthorized):
                service.verifier.verify(token("b"))
            found = await service.exchange("x", it.Exchange(unknown_key="https://login.example"))
            assert service.verifier.verify(token("b")).sub == "ann"
            assert [each.issuer for each in found.issuers] == ["tocsin", "https://login.example"]
            assert len(found.issuers[1].jwks["keys"]) == 2
            with pytest.raises(Conflict):  # a password of ours must not open an account of the provider's
                await service.call(it.Register("ann", PASSWORD), "1")

    asyncio.run(check())
