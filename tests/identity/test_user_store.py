"""The store of users: SQLite and PostgreSQL alike, also when the database fails."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tocsin.config import IdentityConfig
from tocsin.errors import AlreadyExists, LeaseHeld, LimitExceeded, StorageError, Unauthorized
from tocsin.identity import messages as it
from tocsin.identity.messages import Outcome
from tocsin.identity.user_store import UserStore
from tocsin.steady_clock import SteadyClock
from tocsin.wire.messages import DurableSubscription
from tocsin.wire.position import Position

Open = Callable[..., UserStore]
DAY = 86_400.0


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(database_address: str, tmp_path: Path, clock: Clock) -> Iterator[Open]:
    """Opens the same store at each call."""
    found: list[UserStore] = []

    def open_it(lease: bool = False, expiry: Any = None, **settings: Any) -> UserStore:
        config = IdentityConfig(**settings)
        found.append(UserStore(database_address, tmp_path / "users.db", config, clock, expiry=expiry, lease=lease))
        return found[-1]

    yield open_it
    for each in found:
        each.close()


@pytest.fixture
def store(opened: Open) -> UserStore:
    return opened()


def run(store: UserStore, *commands: it.AnyCommand, broker: str = "a", alive: list[str] | None = None) -> list[Outcome]:
    return store.exchange(broker, 0, list(commands), alive).result(60)[0]


def attach(store: UserStore, session: str = "ann/phone", broker: str = "a", issued: float = 2e6) -> Outcome:
    return run(store, it.Attach(session, session.partition("/")[0], issued), broker=broker)[0]


def remember(id: int, after: int = 0, session: str = "ann/phone", kind: str = "fire") -> it.Remember:
    return it.Remember(session, id, "OfKind", [kind], Position(1, after))


def durable(id: int, after: int = 0, **previous: int) -> DurableSubscription:
    ids = {int(name[1:]): end for name, end in previous.items()}
    return DurableSubscription(id, "OfKind", ["fire"], after, ids, epoch=1)


def test_a_name_is_registered_once(store: UserStore) -> None:
    store.add("ann", "hash").result(60)
    with pytest.raises(AlreadyExists):
        store.add("ann", "other").result(60)
    assert store.password("ann").result(60) == "hash" and store.password("bob").result(60) is None


def test_users_above_the_limit_are_refused(opened: Open) -> None:
    store = opened(users=1)
    store.add("ann", "hash").result(60)
    with pytest.raises(LimitExceeded):
        store.add("bob", "hash").result(60)


def test_what_is_durable_belongs_to_the_session_wherever_it_appears(store: UserStore) -> None:
    assert attach(store).sessions == {"ann/phone": []}
    run(store, remember(7, 3), remember(8), it.Acknowledge("ann/phone", {7: Position(1, 9), 8: Position(0, 1)}))
    run(store, it.Forget("ann/phone", 8), remember(7, 1))
    assert attach(store, broker="b").sessions == {"ann/phone": [durable(7, 9)]}
    assert attach(store, "ann/desk").sessions == {"ann/desk": []}


def refused(outcomes: list[Outcome]) -> list[int]:
    """The places of those that were refused."""
    return [place for place, each in enumerate(outcomes) if each.error and each.error["code"] == "limit_exceeded"]


def test_a_user_has_a_limit_on_all_devices_and_brokers_together(opened: Open) -> None:
    store = opened(subscriptions=3)
    phone, watch = "ann/phone", "ann/watch"
    for session in (phone, watch, "bob/x"):
        attach(store, session)
    assert not refused(run(store, remember(1), remember(2)))
    asked = [*(remember(id, session=watch) for id in (1, 2, 3)), remember(1, session="bob/x")]
    assert refused(run(store, *asked, broker="b")) == [1, 2]
    assert not refused(run(store, remember(1), remember(1, session=watch))), "they are stored already"
    asked = [it.Forget(phone, 1), remember(2, session=watch), remember(3, session=watch)]
    assert refused(run(store, *asked, broker="b")) == [2]
    assert [each.subscription for each in attach(store, watch).sessions[watch]] == [1, 2]


def test_the_arguments_of_a_user_have_a_limit_on_all_devices_together(opened: Open) -> None:
    store = opened(argument_bytes=1_000)
    for session in ("ann/phone", "ann/watch"):
        attach(store, session)
    assert not refused(run(store, remember(1, kind="A" * 600)))
    asked = [remember(1, session="ann/watch", kind="A" * size) for size in (600, 300)]
    assert refused(run(store, *asked)) == [0]


def test_commands_of_one_exchange_count_in_their_order(opened: Open) -> None:
    store = opened(subscriptions=100)
    attach(store)
    ids = range(1, 101)
    first = [*map(remember, ids), *(it.Forget("ann/phone", id) for id in ids), *map(remember, ids), remember(101)]
    assert refused(run(store, *first)) == [300]
    again = [*map(remember, ids), remember(102), it.Forget("ann/phone", 7), remember(103), remember(104)]
    assert refused(run(store, *again)) == [100, 103]
    assert {each.subscription for each in attach(store).sessions["ann/phone"]} == {*ids, 103} - {7}


def test_a_session_that_connects_to_its_broker_again_soon_is_not_written_again(opened: Open, clock: Clock) -> None:
    store = opened(session_seconds=DAY)

    def expires() -> float:
        return float(store.run(lambda records: records.open.rows("SELECT expires FROM sessions")).result(60)[0][0])

    attach(store)
    begin = clock.now
    clock.now += 59
    attach(store)
    assert expires() == begin + DAY
    attach(store, broker="b")
    assert expires() == clock.now + DAY
    clock.now += 61
    attach(store, broker="b")
    assert expires() == clock.now + DAY


def test_an_acknowledgement_never_goes_back(store: UserStore) -> None:
    attach(store)
    run(store, remember(7), it.Acknowledge("ann/phone", {7: Position(1, 9)}))
    run(store, it.Acknowledge("ann/phone", {7: Position(1, 4)}))
    assert attach(store).sessions == {"ann/phone": [durable(7, 9)]}


def test_a_previous_id_is_kept_until_its_results_are_acknowledged(store: UserStore) -> None:
    attach(store)
    change = it.ChangeId("ann/phone", 7, 9, Position(1, 20), Position(1, 25))
    run(store, remember(7, 15), change, change)  # another broker may do the same
    assert attach(store).sessions == {"ann/phone": [durable(9, 15, _7=20)]}
    run(store, it.ChangeId("ann/phone", 9, 12, Position(1, 30), Position(1, 28)))
    assert attach(store).sessions == {"ann/phone": [durable(12, 15, _7=20, _9=30)]}
    run(store, it.Acknowledge("ann/phone", {12: Position(1, 21)}))
    assert attach(store).sessions == {"ann/phone": [durable(12, 21, _9=30)]}


def test_a_position_ahead_of_the_channel_is_reset_to_the_channels(store: UserStore) -> None:
    attach(store)
    run(store, remember(7, 3), it.ChangeId("ann/phone", 7, 9, Position(1, 2), Position(1, 2)))
    assert attach(store).sessions == {"ann/phone": [durable(9, 2, _7=2)]}


def test_a_channel_that_was_created_again_continues_from_its_own_position(store: UserStore) -> None:
    attach(store)
    run(store, remember(7, 57), it.ChangeId("ann/phone", 7, 9, Position(4, 2), Position(4, 2)))
    begun = DurableSubscription(9, "OfKind", ["fire"], 2, epoch=4)
    assert attach(store).sessions == {"ann/phone": [begun]}
    run(store, it.Acknowledge("ann/phone", {9: Position(1, 58)}))  # of the channel before
    assert attach(store).sessions == {"ann/phone": [begun]}
    run(store, it.Acknowledge("ann/phone", {9: Position(4, 3)}))
    assert attach(store).sessions["ann/phone"][0].after == 3


def test_a_subscription_that_has_ended_gets_no_other_id(store: UserStore) -> None:
    attach(store)
    change = it.ChangeId("ann/phone", 7, 9, Position(1, 2), Position(1, 2))
    (outcome,) = run(store, change)
    assert outcome.error is not None and outcome.error["code"] == "not_found"
    assert run(store, remember(9), change)[1] == Outcome()  # another broker has done it
    assert attach(store).sessions == {"ann/phone": [durable(9)]}


def test_a_deleted_subscription_has_no_previous_ids(store: UserStore) -> None:
    attach(store)
    run(store, remember(7, 3), it.ChangeId("ann/phone", 7, 9, Position(1, 12), Position(1, 20)))
    run(store, it.Forget("ann/phone", 9), remember(9, 30))
    assert attach(store).sessions == {"ann/phone": [durable(9, 30)]}


def test_a_session_belongs_to_the_broker_that_served_it_last(store: UserStore) -> None:
    attach(store)
    use = it.Use([], ["ann/phone"])
    assert run(store, use) == [Outcome()] and run(store, use, broker="b") == [Outcome(elsewhere=["ann/phone"])]
    attach(store, broker="b")
    assert run(store, use) == [Outcome(elsewhere=["ann/phone"])]
    assert run(store, it.Served(), broker="b") == [Outcome({"ann/phone": []})]


def test_sessions_of_a_broker_that_is_gone_are_served_by_another_one(store: UserStore) -> None:
    attach(store)
    run(store, remember(7))
    use = it.Use([], [])
    assert run(store, use, broker="b", alive=["a", "b"]) == [Outcome()]
    assert run(store, use, broker="b") == [Outcome()]  # it is not known yet which brokers are alive
    assert run(store, use, broker="b", alive=["b"]) == [Outcome({"ann/phone": [durable(7)]})]
    assert run(store, use, broker="c", alive=["b", "c"]) == [Outcome()]
    assert run(store, it.Use([], ["ann/phone"])) == [Outcome(elsewhere=["ann/phone"])]


def test_a_session_that_is_not_used_expires_and_one_that_is_connected_does_not(store: UserStore, clock: Clock) -> None:
    for session in ("ann/phone", "ann/desk"):
        attach(store, session)
        run(store, remember(7, session=session))
    clock.now += 5 * DAY
    run(store, it.Use(["ann/desk"], []))
    clock.now += 3 * DAY
    store.expire().result(60)
    assert run(store, it.Served()) == [Outcome({"ann/desk": [durable(7)]})]
    run(store, remember(8, session="ann/phone"))  # of a broker that does not know it yet
    assert attach(store).sessions == {"ann/phone": []}


def test_a_clock_that_jumps_while_the_store_is_closed_expires_nothing(opened: Open, clock: Clock) -> None:
    def steady(last: float | None) -> Callable[[], float]:
        return SteadyClock(3_600.0, last, clock, lambda: 5.0).expiry

    store = opened(expiry=steady)
    attach(store)
    run(store, remember(7))
    store.expire().result(60)
    store.close()
    clock.now += 30 * DAY
    store = opened(expiry=steady)
    store.expire().result(60)
    assert attach(store).sessions == {"ann/phone": [durable(7)]}


def test_a_refresh_token_is_valid_until_the_session_ends(store: UserStore, clock: Clock) -> None:
    store.add("ann", "hash").result(60)
    session = store.log_in("ann", "phone").result(60)
    assert store.refresh(session.refresh).result(60) == session
    store.set_roles("ann", ["nurse", "driver", "nurse"]).result(60)
    assert store.refresh(session.refresh).result(60).roles == ["driver", "nurse"]
    again = store.log_in("ann", "phone").result(60)
    with pytest.raises(Unauthorized):  # a new login of the device replaces it
        store.refresh(session.refresh).result(60)
    store.revoke("ann").result(60)
    with pytest.raises(Unauthorized):
        store.refresh(again.refresh).result(60)


def test_a_revoked_token_attaches_no_session_and_a_newer_one_does(store: UserStore, clock: Clock) -> None:
    attach(store, issued=clock.now)
    run(store, remember(7))
    clock.now += 1
    store.revoke("ann").result(60)
    refused = attach(store, issued=clock.now - 1).error
    assert refused is not None and refused["code"] == "unauthorized"
    assert attach(store, issued=clock.now + 1).sessions == {"ann/phone": [durable(7)]}  # nothing durable was lost
    assert attach(store, "bob/phone", issued=clock.now - 1).error is None
    (revocation,) = store.exchange("a", 0, [], None).result(60)[1]
    assert (revocation.user, revocation.session, revocation.ended) == ("ann", "", False)
    assert store.exchange("a", revocation.number, [], None).result(60)[1] == []


def test_a_logout_ends_one_device_and_a_deletion_all_of_them(store: UserStore, clock: Clock) -> None:
    store.add("ann", "hash").result(60)
    for session in ("ann/phone", "ann/desk", "anna/phone"):
        attach(store, session, issued=clock.now + 9)
        run(store, remember(7, session=session))
    store.log_out("ann", "ann/phone", clock.now).result(60)
    assert list(run(store, it.Served())[0].sessions) == ["ann/desk", "anna/phone"]
    with pytest.raises(Unauthorized):  # the token of the logout is void now
        store.log_out("ann", "ann/phone", clock.now).result(60)
    store.delete("ann").result(60)
    assert list(run(store, it.Served())[0].sessions) == ["anna/phone"]
    assert store.password("ann").result(60) is None
    assert [each.ended for each in store.exchange("a", 0, [], None).result(60)[1]] == [True, True]


def test_revocations_are_forgotten_when_their_tokens_have_expired_but_numbers_go_on(
    store: UserStore, clock: Clock
) -> None:
    for name in ("ann", "bob"):
        store.revoke(name).result(60)
    clock.now += 2 * 3_600
    store.expire().result(60)
    (last,) = store.exchange("a", 0, [], None).result(60)[1]
    store.revoke("eve").result(60)
    (new,) = store.exchange("a", last.number, [], None).result(60)[1]
    assert new.user == "eve"


def test_a_password_that_was_changed_meanwhile_is_not_overwritten(store: UserStore) -> None:
    store.add("ann", "first").result(60)
    store.set_password("ann", "first", "second", revoke=True).result(60)
    with pytest.raises(Unauthorized):
        store.set_password("ann", "first", "third", revoke=True).result(60)
    assert store.password("ann").result(60) == "second"


def test_keys_survive_a_restart_and_rotate(opened: Open, clock: Clock) -> None:
    first = opened().rotate().result(60)
    again = opened()
    assert again.rotate().result(60) == first
    clock.now += 30 * DAY
    assert again.rotate().result(60)[0] == first[0] and len(again.rotate().result(60)) == 2
    clock.now += DAY
    assert [key.begins for key in again.rotate().result(60)] == [clock.now - DAY + 3_600]


def test_two_coordinators_do_not_write_the_same_store(opened: Open) -> None:
    opened(lease=True)
    with pytest.raises(LeaseHeld):
        opened(lease=True)


def test_processes_of_a_broker_write_the_same_store_at_once(opened: Open) -> None:
    stores = [opened(), opened()]
    futures = [stores[n % 2].add(f"user {n}", "hash") for n in range(200)]
    assert [future.exception(60) for future in futures] == [None] * 200
    for n in range(200):
        assert stores[(n + 1) % 2].password(f"user {n}").result(60) == "hash"


def test_a_refused_request_does_not_spoil_those_of_the_same_moment(store: UserStore) -> None:
    store.add("ann", "hash").result(60)
    futures = [store.add(name, "hash") for name in ("bob", "ann", "eve")]
    assert [future.exception(60) is None for future in futures] == [True, False, True]
    assert store.password("eve").result(60) == "hash"


def test_a_folder_that_cannot_be_created_is_reported_at_start(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="store of users"):
        UserStore("", tmp_path / "file" / "users.db", IdentityConfig(), clock)


def test_a_failing_statement_is_reported_and_the_store_continues(tmp_path: Path, clock: Clock) -> None:
    store = UserStore("", tmp_path / "users.db", IdentityConfig(), clock)
    try:
        other = sqlite3.connect(tmp_path / "users.db")
        other.execute("DROP TABLE durable_subscriptions")
        other.close()
        with pytest.raises(StorageError, match="no such table: durable_subscriptions"):
            attach(store)
        store.add("ann", "hash").result(60)
    finally:
        store.close()


def test_only_the_owner_may_read_the_files(tmp_path: Path, clock: Clock) -> None:
    store = UserStore("", tmp_path / "users.db", IdentityConfig(), clock, lease=True)
    try:
        store.add("ann", "hash").result(60)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        assert set(modes) >= {"users.db", "users.db-wal", "users.lock"} and set(modes.values()) == {0o600}
    finally:
        store.close()
