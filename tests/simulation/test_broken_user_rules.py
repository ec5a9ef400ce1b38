"""The campaign finds bugs that concern users: each test breaks a rule, and some seeds with users must show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tocsin.broker.core.access import Access
from tocsin.broker.core.be_subscriptions import BESubscriptions
from tocsin.broker.core.durable_subscriptions import DurableSubscriptions
from tocsin.broker.core.sessions import Sessions
from tocsin.broker.core.user_sessions import UserSessions
from tocsin.broker.transport.rest_calls import Acknowledgement, Poll, RestCalls
from tocsin.broker.upstream.user_exchange import UserExchange
from tocsin.identity import messages as it
from tocsin.identity.grants import Condition
from tocsin.identity.messages import Outcome
from tocsin.identity.user_records import UserRecords
from tocsin.simulation.campaign import attempt
from tocsin.simulation.run import scenario_of

#: The campaign must catch each bug within this many seeds with users.
MOST = 40

Patch = Callable[[pytest.MonkeyPatch], None]


def a_subscription_is_confirmed_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    wait = DurableSubscriptions.wait

    def do_not_wait(self: DurableSubscriptions, subscription: Any, request: Any, out: Any) -> bool:
        wait(self, subscription, request, out)
        self._unconfirmed.clear()
        return False

    patch.setattr(DurableSubscriptions, "wait", do_not_wait)


def the_position_of_a_user_is_not_saved_after_a_migration(patch: pytest.MonkeyPatch) -> None:
    first: dict[tuple[int, str], str] = {}
    outcome = UserRecords._outcome

    def forgetful(self: UserRecords, broker: str, command: it.AnyCommand, alive: Any) -> Outcome:
        if isinstance(command, it.Attach):
            first.setdefault((id(self), command.session), broker)
        if isinstance(command, it.Acknowledge) and first.get((id(self), command.user), broker) != broker:
            return Outcome()
        return outcome(self, broker, command, alive)

    patch.setattr(UserRecords, "_outcome", forgetful)


def a_broker_does_not_close_sessions_whose_token_has_ended(patch: pytest.MonkeyPatch) -> None:
    expire_at = Sessions.expire_at
    patch.setattr(
        Sessions, "expire_at", lambda self, session, issued, expires: expire_at(self, session, issued, float("inf"))
    )


def a_refresh_forgets_what_is_durable_for_the_session(patch: pytest.MonkeyPatch) -> None:
    refresh = UserRecords.refresh

    def begin_again(self: UserRecords, token: str) -> Any:
        session = refresh(self, token)
        device = (session.user, session.device)
        text = "SELECT session FROM sessions WHERE name = ? AND device = ?"
        for (row,) in self.open.rows(text, device):
            self.open.run("DELETE FROM durable_subscriptions WHERE session = ?", (row,))
        return session

    patch.setattr(UserRecords, "refresh", begin_again)


def a_revocation_is_not_forwarded_to_brokers(patch: pytest.MonkeyPatch) -> None:
    exchange = UserRecords.exchange
    patch.setattr(UserRecords, "exchange", lambda self, *args: (exchange(self, *args)[0], []))


def a_revocation_does_not_close_connections(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(UserSessions, "revoked", lambda self, event, out: None)


def a_poll_acknowledges_what_it_has_not_delivered(patch: pytest.MonkeyPatch) -> None:
    results = RestCalls.results

    def acknowledge(self: RestCalls, user: Any, durable: Any, asked: Any) -> Any:
        found = yield from results(self, user, durable, asked)
        yield from self.acknowledge(user, durable, Acknowledgement(found["subscription"], found["after"]))
        return found

    patch.setattr(RestCalls, "results", acknowledge)


def the_durable_subscriptions_of_another_user_are_restored(patch: pytest.MonkeyPatch) -> None:
    durable = UserRecords.durable

    def of_all(self: UserRecords, session: str) -> list[Any]:
        sessions = [each for (each,) in self.open.rows("SELECT session FROM sessions ORDER BY session")]
        return [row for each in sessions for row in durable(self, each)]

    patch.setattr(UserRecords, "durable", of_all)


def grants_are_cached_for_ever(patch: pytest.MonkeyPatch) -> None:
    change = Access.change
    patch.setattr(Access, "change", lambda self, table: () if self.known else change(self, table))


def revoked_grants_do_not_end_subscriptions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BESubscriptions, "narrow", lambda self, channels, out: None)


def conditions_of_grants_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Condition, "holds", lambda self, given, claims: True)


def acknowledgements_are_lost_with_a_failed_exchange(patch: pytest.MonkeyPatch) -> None:
    failed = UserExchange._failed

    def forget(self: UserExchange, batch: Any, error: Any) -> None:
        failed(self, batch, error)
        for number, entry in batch.items():
            if isinstance(entry.command, it.Acknowledge):
                self._remove(number)
        self._acks.clear()

    patch.setattr(UserExchange, "_failed", forget)


def a_changed_id_is_not_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(UserRecords, "_change_id", lambda self, command: True)


def a_poll_does_not_pass_on_that_the_user_should_migrate(patch: pytest.MonkeyPatch) -> None:
    take = Poll.take
    patch.setattr(Poll, "take", lambda self, head, text: None if head.type == "migrate" else take(self, head, text))


def a_poll_skips_the_first_result(patch: pytest.MonkeyPatch) -> None:
    take = Poll.take

    def skip(self: Poll, head: Any, text: bytes) -> None:
        if head.type == "notify" and head.execution == self.after + 1 and not self._results and head.execution % 7 == 0:
            self.after = head.execution
            return
        take(self, head, text)

    patch.setattr(Poll, "take", skip)


#: The bug, the invariant that must report it, and the first seed: one that finds it, so that few are run.
BROKEN = [
    (a_subscription_is_confirmed_before_it_is_stored, "durable subscriptions are stored", 1),
    (the_position_of_a_user_is_not_saved_after_a_migration, "positions are stored", 3),
    (a_broker_does_not_close_sessions_whose_token_has_ended, "nothing after a token's end", 10),
    (a_refresh_forgets_what_is_durable_for_the_session, "durable subscriptions are stored", 3),
    (a_revocation_is_not_forwarded_to_brokers, "nothing after a revocation", 1),
    (a_revocation_does_not_close_connections, "nothing after a revocation", 1),
    (a_poll_acknowledges_what_it_has_not_delivered, "nothing is lost", 98),
    (the_durable_subscriptions_of_another_user_are_restored, "durable subscriptions are private", 1),
    (grants_are_cached_for_ever, "nothing without a grant", 24),
    (revoked_grants_do_not_end_subscriptions, "nothing without a grant", 24),
    (conditions_of_grants_are_not_checked, "nothing without a grant", 19),
    (acknowledgements_are_lost_with_a_failed_exchange, "positions are stored", 28),
    (a_changed_id_is_not_stored, "durable subscriptions are stored", 431),
    (a_poll_does_not_pass_on_that_the_user_should_migrate, "it settles", 10),
    (a_poll_skips_the_first_result, "nothing is lost", 1),
]


def seeds_with_users(first: int) -> Iterator[int]:
    found = (seed for seed in range(first, first + 40 * MOST) if scenario_of(seed).users)
    for _ in range(MOST):
        yield next(found)


@pytest.mark.parametrize(("broken", "rule", "first"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_the_campaign_catches_the_bug(monkeypatch: pytest.MonkeyPatch, broken: Patch, rule: str, first: int) -> None:
    broken(monkeypatch)
    found = (violation.invariant for seed in seeds_with_users(first) for violation in attempt(seed).violations)
    assert rule in found
