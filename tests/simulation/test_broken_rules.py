"""The campaign finds bugs: rules of the protocol are broken on purpose, and each must be caught within some seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tocsin.balancing.balancer import Balancer
from tocsin.balancing.model.what_if import WhatIf
from tocsin.broker.core.be_subscriptions import BESubscriptions
from tocsin.broker.core.delivery import Delivery
from tocsin.broker.core.events import Published
from tocsin.broker.core.load_reports import LoadReports
from tocsin.broker.core.replay import Replay
from tocsin.broker.upstream.effects import retry
from tocsin.broker.upstream.protocol import UpstreamProtocol
from tocsin.client.core.session import Asking, Session
from tocsin.client.core.subscription_state import SubscriptionState
from tocsin.client.notification import Notification
from tocsin.simulation.campaign import attempt, command, shrink
from tocsin.simulation.nodes.cluster import DataCluster
from tocsin.wire import messages as wire

#: Seeds within which each must be caught.
MOST = 80

Patch = Callable[[pytest.MonkeyPatch], None]


def the_client_does_not_drop_duplicates(patch: pytest.MonkeyPatch) -> None:
    def take(self: SubscriptionState, message: wire.Notify) -> Notification:
        self.cursor = message.execution
        self.pending += 1
        return Notification(message.channel, message.subscription, message.execution, message.results)

    patch.setattr(SubscriptionState, "take", take)


def the_broker_resumes_one_execution_too_late(patch: pytest.MonkeyPatch) -> None:
    resume = Replay.resume

    def too_late(self: Replay, it: Any, session: Any, execution: int, out: Any, *, quiet: bool = False) -> None:
        resume(self, it, session, execution if quiet else execution + 1, out, quiet=quiet)

    patch.setattr(Replay, "resume", too_late)


def the_client_breaks_before_it_makes(patch: pytest.MonkeyPatch) -> None:
    """It goes to the other broker at once, and begins there with what comes next."""
    ask = Session._ask

    def begin_now(self: Session, entries: list[SubscriptionState]) -> None:
        if self.role.value != "joining":
            ask(self, entries)
            return
        id = next(self._ids)
        self.requests[id] = Asking(list(entries), None, None)
        for entry in entries:
            entry.cursor = None
        self._say(wire.Subscribe(id, entries[0].channel, entries[0].args))

    patch.setattr(Session, "_ask", begin_now)
    patch.setattr(Session, "complete", lambda self, live: True)


def the_broker_does_not_look_again_at_what_it_may_have_missed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delivery, "missed", lambda self, event, out: None)


def the_broker_lets_go_of_what_somebody_still_has(patch: pytest.MonkeyPatch) -> None:
    def idle(self: BESubscriptions, it: Any) -> None:
        if it.id and not it.live and it not in self._idle:
            self._idle[it] = self.context.now + self.context.config.grace

    patch.setattr(BESubscriptions, "idle_if_unused", idle)
    patch.setattr("tocsin.broker.core.be_subscription.BESubscription.unused", property(lambda self: not self.live))


def the_broker_does_not_say_who_has_left(patch: pytest.MonkeyPatch) -> None:
    changes = LoadReports.changes

    def silent(self: LoadReports, number: int, now: float, *, full: bool) -> Any:
        report = changes(self, number, now, full=full)
        report.left.clear()
        return report

    patch.setattr(LoadReports, "changes", silent)


def the_coordinator_forgets_moves_that_are_under_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Balancer, "projected", lambda self, only=None: WhatIf(self.load, self.distance))


def a_post_whose_answer_was_lost_is_another_post(patch: pytest.MonkeyPatch) -> None:
    post = DataCluster.post

    def forgetful(self: DataCluster, wish: Any, done: Any) -> None:
        self.posts.clear()
        post(self, wish, done)

    patch.setattr(DataCluster, "post", forgetful)


def the_broker_confirms_records_before_they_are_stored(patch: pytest.MonkeyPatch) -> None:
    def publish(self: UpstreamProtocol, command: Any) -> Any:
        self.handle(Published(command.feed))
        yield from retry(msgspec.structs.replace(command, key=str(self.rng.random())), self.rng)

    patch.setattr(UpstreamProtocol, "_publish", publish)


def the_data_cluster_does_not_say_what_was_too_late_for_an_execution(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DataCluster, "subscription", lambda self, number, done: done(self.subscriptions[number].begin, None))


#: What is broken, the rule that must notice, and the first seed.
BROKEN = [
    (the_client_does_not_drop_duplicates, "in order, and once", 0),
    (the_broker_resumes_one_execution_too_late, "nothing is lost", 0),
    (the_client_breaks_before_it_makes, "nothing is lost", 5),
    (the_broker_does_not_look_again_at_what_it_may_have_missed, "nothing is lost", 40),
    (the_broker_lets_go_of_what_somebody_still_has, "nothing crashes", 10),
    (the_broker_does_not_say_who_has_left, "the coordinator is right", 10),
    (a_post_whose_answer_was_lost_is_another_post, "published, and once", 0),
    (the_broker_confirms_records_before_they_are_stored, "published, and once", 0),
    (the_data_cluster_does_not_say_what_was_too_late_for_an_execution, "nothing is lost", 310),
    (the_coordinator_forgets_moves_that_are_under_way, "a plan lowers the maximum", 20),
]


@pytest.mark.parametrize(("broken", "rule", "first"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_the_campaign_catches_it(monkeypatch: pytest.MonkeyPatch, broken: Patch, rule: str, first: int) -> None:
    broken(monkeypatch)
    found = (violation.invariant for seed in range(first, first + MOST) for violation in attempt(seed).violations)
    assert rule in found


def test_a_script_is_shrunk_to_the_faults_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    the_broker_does_not_look_again_at_what_it_may_have_missed(monkeypatch)
    outcome = next(each for each in map(attempt, range(40, 40 + MOST)) if each.violations)
    rule = outcome.violations[0].invariant
    kept = shrink(outcome.seed, rule)
    assert len(kept) < len(outcome.script)
    assert rule in {each.invariant for each in attempt(outcome.seed, kept).violations}
    for place in kept:
        fewer = [each for each in kept if each != place]
        assert rule not in {each.invariant for each in attempt(outcome.seed, fewer).violations}
    assert command(7, [0, 2]) == "tocsin simulate faults --seed 7 --only 0,2 --trace"
