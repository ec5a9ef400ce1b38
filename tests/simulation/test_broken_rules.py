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
from tocsin.client.core.session import Session, SubscribeRequest
from tocsin.client.core.subscription_state import SubscriptionState
from tocsin.client.notification import Notification
from tocsin.cluster.model import Broker
from tocsin.cluster.notify.dispatch import Answered, Delete, Disconnected, Dispatch, Instruction, OutboxRead, Post
from tocsin.cluster.notify.retry_policy import RetryPolicy
from tocsin.simulation.campaign import attempt, command, shrink
from tocsin.simulation.nodes import cluster
from tocsin.simulation.nodes.cluster import DataCluster
from tocsin.simulation.reference_cluster import Channel, ReferenceCluster, Result
from tocsin.wire import messages as wire

#: Seeds within which each must be caught.
MOST = 80

Patch = Callable[[pytest.MonkeyPatch], None]


def the_client_does_not_drop_duplicates(patch: pytest.MonkeyPatch) -> None:
    def accept(self: SubscriptionState, message: wire.Notify) -> Notification:
        self.position = self.at(message.execution)
        self.pending += 1
        return Notification(message.channel, message.subscription, message.execution, message.results)

    patch.setattr(SubscriptionState, "accept", accept)


def the_broker_resumes_one_execution_too_late(patch: pytest.MonkeyPatch) -> None:
    resume = Replay.resume

    def too_late(self: Replay, it: Any, session: Any, execution: int, out: Any, *, quiet: bool = False) -> None:
        resume(self, it, session, execution if quiet else execution + 1, out, quiet=quiet)

    patch.setattr(Replay, "resume", too_late)


def the_client_breaks_before_it_makes(patch: pytest.MonkeyPatch) -> None:
    """It goes to the other broker at once, and begins there with what comes next."""
    request = Session._request

    def begin_now(self: Session, entries: list[SubscriptionState]) -> None:
        if self.role.value != "joining":
            request(self, entries)
            return
        id = next(self._ids)
        self.requests[id] = SubscribeRequest(list(entries), None, None)
        for entry in entries:
            entry.position = None
        self._send(wire.Subscribe(id, entries[0].channel, entries[0].args))

    patch.setattr(Session, "_request", begin_now)
    patch.setattr(Session, "complete", lambda self, live: True)


def the_broker_does_not_look_again_at_what_it_may_have_missed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delivery, "missed", lambda self, event, out: None)


def the_broker_lets_go_of_what_somebody_still_has(patch: pytest.MonkeyPatch) -> None:
    def idle(self: BESubscriptions, it: Any) -> None:
        if it.id and not it.live and it not in self._idle:
            self._idle[it] = self.context.now + self.context.config.grace

    patch.setattr(BESubscriptions, "idle_if_unused", idle)
    patch.setattr(
        "tocsin.broker.core.model.be_subscription.BESubscription.unused", property(lambda self: not self.live)
    )


def the_broker_does_not_say_who_has_left(patch: pytest.MonkeyPatch) -> None:
    changes = LoadReports.changes

    def silent(self: LoadReports, number: int, now: float, *, full: bool) -> Any:
        report = changes(self, number, now, full=full)
        report.left.clear()
        return report

    patch.setattr(LoadReports, "changes", silent)


def the_coordinator_forgets_migrations_in_flight(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Balancer, "projected", lambda self, only=None: WhatIf(self.load))


def a_post_whose_answer_was_lost_is_another_post(patch: pytest.MonkeyPatch) -> None:
    post = DataCluster.post

    def forgetful(self: DataCluster, request: Any) -> Any:
        self.data._posts.clear()
        return post(self, request)

    patch.setattr(DataCluster, "post", forgetful)


def the_broker_confirms_records_before_they_are_stored(patch: pytest.MonkeyPatch) -> None:
    def publish(self: UpstreamProtocol, command: Any) -> Any:
        self.handle(Published(command.feed))
        yield from retry(msgspec.structs.replace(command, key=str(self.rng.random())), self.rng)

    patch.setattr(UpstreamProtocol, "_publish", publish)


def the_data_cluster_does_not_say_what_was_too_late_for_an_execution(patch: pytest.MonkeyPatch) -> None:
    def begins_after(self: ReferenceCluster, channel: str, id: int) -> int | None:
        return self.channel(channel).subscriptions[id].begins_after

    patch.setattr(ReferenceCluster, "begins_after", begins_after)
    # Slow executions and BE subscriptions that expire at once, so that many come back too late for one.
    patch.setattr(cluster, "DURATION", (0.5, 2.0))
    idle_if_unused = BESubscriptions.idle_if_unused

    def expire_soon(self: BESubscriptions, it: Any) -> None:
        idle_if_unused(self, it)
        if it in self._idle:
            self._idle[it] = min(self._idle[it], self.context.now + 0.5)

    patch.setattr(BESubscriptions, "idle_if_unused", expire_soon)


def the_notifier_deletes_an_entry_before_its_answer(patch: pytest.MonkeyPatch) -> None:
    def advance(self: Dispatch, now: float) -> list[Instruction]:
        out = list[Instruction]()
        for it in Dispatch_advance(self, now):
            out += [it, Delete(list(self.window.entries))] if isinstance(it, Post) else [it]
        return out

    Dispatch_advance = Dispatch._advance
    patch.setattr(Dispatch, "_advance", advance)


def the_notifier_sends_the_newest_first_after_a_connection_ended(patch: pytest.MonkeyPatch) -> None:
    failed, read = Dispatch._failed, Dispatch._read

    def fail(self: Dispatch, trouble: Disconnected, now: float) -> list[Instruction]:
        self.reverse = True
        return failed(self, trouble, now)

    def backwards(self: Dispatch, event: OutboxRead) -> None:
        read(self, event)
        if vars(self).pop("reverse", False):
            self._queue.reverse()

    patch.setattr(Dispatch, "_failed", fail)
    patch.setattr(Dispatch, "_read", backwards)


def the_notifier_forgets_the_request_that_waits_for_the_window(patch: pytest.MonkeyPatch) -> None:
    send = Dispatch._send

    def forget(self: Dispatch, now: float) -> list[Instruction]:
        out = send(self, now)
        if self._url is not None and not self.window.room:
            self._batch = None
        return out

    patch.setattr(Dispatch, "_send", forget)


def the_notifier_takes_a_refusal_for_an_answer(patch: pytest.MonkeyPatch) -> None:
    answered = Dispatch._answered
    patch.setattr(Dispatch, "_answered", lambda self, event: answered(self, Answered(204, event.allowed)))


def the_notifier_gives_up_at_the_first_failure_without_saying_so(patch: pytest.MonkeyPatch) -> None:
    def give_up(self: ReferenceCluster, broker: Broker) -> None:
        self.outbox = {entry: None for entry in self.outbox if entry.broker != broker.id}

    patch.setattr(RetryPolicy, "failed", lambda self, now: None)
    patch.setattr(ReferenceCluster, "give_up", give_up)


def a_channel_that_is_created_again_has_the_epoch_of_the_one_before(patch: pytest.MonkeyPatch) -> None:
    create = ReferenceCluster.create_channel

    def same_epoch(self: ReferenceCluster, name: str, parameters: Any, **options: Any) -> Channel:
        channel = create(self, name, parameters, **options)
        channel.epoch = next((each.epoch for each in self.dropped if each.name == name), channel.epoch)
        return channel

    patch.setattr(ReferenceCluster, "create_channel", same_epoch)


def a_channel_that_is_created_again_serves_the_results_of_the_one_before(patch: pytest.MonkeyPatch) -> None:
    results = ReferenceCluster.results

    def older(self: ReferenceCluster, channel: str, id: int, *more: Any, **options: Any) -> list[Result]:
        before = next((each for each in self.dropped if each.name == channel), self.channels[channel.lower()])
        stored = {key: text for execution in before.executions for key, text in execution.stored.items()}
        found = results(self, channel, id, *more, **options)
        return [Result(id, each.execution, next(iter(stored.values()), each.results)) for each in found]

    patch.setattr(ReferenceCluster, "results", older)


def a_client_goes_on_in_another_channel_of_the_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubscriptionState, "epoch", property(lambda self: 0))


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
    (the_data_cluster_does_not_say_what_was_too_late_for_an_execution, "nothing is lost", 80),
    (the_notifier_deletes_an_entry_before_its_answer, "nothing is lost", 0),
    (the_notifier_sends_the_newest_first_after_a_connection_ended, "nothing is lost", 35),
    (the_notifier_forgets_the_request_that_waits_for_the_window, "nothing is lost", 30),
    (the_notifier_takes_a_refusal_for_an_answer, "nothing is lost", 0),
    (the_notifier_gives_up_at_the_first_failure_without_saying_so, "nothing is lost", 0),
    (a_channel_that_is_created_again_has_the_epoch_of_the_one_before, "subscriptions agree", 0),
    (a_channel_that_is_created_again_serves_the_results_of_the_one_before, "its own", 0),
    (a_client_goes_on_in_another_channel_of_the_name, "epochs are announced", 20),
    (the_coordinator_forgets_migrations_in_flight, "a plan lowers the maximum", 20),
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
