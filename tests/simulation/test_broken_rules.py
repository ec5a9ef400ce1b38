"""The campaign finds bugs: each test breaks a rule of the protocol, and the campaign must catch it in some seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tocsin.balancing.central_host import CentralHost
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
from tocsin.cluster.model import Broker, OutboxEntry
from tocsin.cluster.notify.dispatch import Answered, Delete, Disconnected, Dispatch, Instruction, OutboxRead, Post
from tocsin.cluster.notify.retry_policy import RetryPolicy
from tocsin.simulation.campaign import attempt, command, shrink
from tocsin.simulation.nodes import cluster
from tocsin.simulation.nodes.cluster import DataCluster
from tocsin.simulation.reference_cluster import Channel, ReferenceCluster, Result
from tocsin.wire import messages as wire

#: The campaign must catch each bug within this many seeds.
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


def the_client_leaves_before_it_has_joined(patch: pytest.MonkeyPatch) -> None:
    """The client changes to the other broker at once, and begins there with the next execution."""
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


def the_broker_does_not_fetch_missed_executions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delivery, "missed", lambda self, event, out: None)


def the_broker_expires_subscriptions_with_lagging_subscribers(patch: pytest.MonkeyPatch) -> None:
    def idle(self: BESubscriptions, it: Any) -> None:
        if it.id and not it.live and it not in self._idle:
            self._idle[it] = self.context.now + self.context.config.grace

    patch.setattr(BESubscriptions, "idle_if_unused", idle)
    patch.setattr(
        "tocsin.broker.core.model.be_subscription.BESubscription.unused", property(lambda self: not self.live)
    )


def the_broker_does_not_report_departed_subscribers(patch: pytest.MonkeyPatch) -> None:
    changes = LoadReports.changes

    def silent(self: LoadReports, number: int, now: float, *, full: bool) -> Any:
        report = changes(self, number, now, full=full)
        report.left.clear()
        return report

    patch.setattr(LoadReports, "changes", silent)


def the_coordinator_forgets_migrations_in_flight(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CentralHost, "projected", lambda self, only=None: WhatIf(self.load))


def a_retried_post_is_stored_twice(patch: pytest.MonkeyPatch) -> None:
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


def the_data_cluster_hides_that_an_execution_missed_a_subscription(patch: pytest.MonkeyPatch) -> None:
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


def the_notifier_treats_a_refusal_as_success(patch: pytest.MonkeyPatch) -> None:
    answered = Dispatch._answered
    patch.setattr(Dispatch, "_answered", lambda self, event: answered(self, Answered(204, event.allowed)))


def the_notifier_gives_up_silently_at_the_first_failure(patch: pytest.MonkeyPatch) -> None:
    def give_up(self: ReferenceCluster, broker: Broker) -> None:
        self.outbox = {entry: None for entry in self.outbox if entry.broker != broker.id}

    patch.setattr(RetryPolicy, "failed", lambda self, now: None)
    patch.setattr(ReferenceCluster, "give_up", give_up)


def the_broker_does_not_announce_damaged_results(patch: pytest.MonkeyPatch) -> None:
    pulled = Delivery.pulled

    def silent(self: Delivery, event: Any, out: Any) -> None:
        kept = [line for line in event.lines if not line.gap]
        pulled(self, msgspec.structs.replace(event, lines=kept), out)

    patch.setattr(Delivery, "pulled", silent)


def the_outbox_is_read_channel_by_channel(patch: pytest.MonkeyPatch) -> None:
    def entries(self: ReferenceCluster, broker: int, limit: int, known: Any = ()) -> list[OutboxEntry]:
        mine = [entry for entry in self.outbox if entry.broker == broker and entry not in known]
        return sorted(mine, key=lambda entry: (entry.channel, entry.execution))[:limit]

    patch.setattr(ReferenceCluster, "entries", entries)


def a_recreated_channel_has_the_epoch_of_the_previous_one(patch: pytest.MonkeyPatch) -> None:
    create = ReferenceCluster.create_channel

    def same_epoch(self: ReferenceCluster, name: str, parameters: Any, **options: Any) -> Channel:
        channel = create(self, name, parameters, **options)
        channel.epoch = next((each.epoch for each in self.dropped if each.name == name), channel.epoch)
        return channel

    patch.setattr(ReferenceCluster, "create_channel", same_epoch)


def a_recreated_channel_serves_the_results_of_the_previous_one(patch: pytest.MonkeyPatch) -> None:
    results = ReferenceCluster.results

    def older(self: ReferenceCluster, channel: str, id: int, *more: Any, **options: Any) -> list[Result]:
        before = next((each for each in self.dropped if each.name == channel), self.channels[channel.lower()])
        stored = {key: text for execution in before.executions for key, text in execution.stored.items()}
        found = results(self, channel, id, *more, **options)
        return [Result(id, each.execution, next(iter(stored.values()), each.results)) for each in found]

    patch.setattr(ReferenceCluster, "results", older)


def a_client_continues_in_a_recreated_channel(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubscriptionState, "epoch", property(lambda self: 0))


#: The bug, the invariant that must report it, and the first seed: one that finds it, so that few are run.
BROKEN = [
    (the_client_does_not_drop_duplicates, "in order, and once", 17),
    (the_broker_resumes_one_execution_too_late, "nothing is lost", 1),
    (the_client_leaves_before_it_has_joined, "nothing is lost", 13),
    (the_broker_does_not_fetch_missed_executions, "nothing is lost", 77),
    (the_broker_expires_subscriptions_with_lagging_subscribers, "nothing crashes", 14),
    (the_broker_does_not_report_departed_subscribers, "the coordinator is right", 13),
    (a_retried_post_is_stored_twice, "published, and once", 0),
    (the_broker_confirms_records_before_they_are_stored, "published, and once", 0),
    (the_data_cluster_hides_that_an_execution_missed_a_subscription, "nothing is lost", 108),
    (the_notifier_deletes_an_entry_before_its_answer, "nothing is lost", 0),
    (the_notifier_sends_the_newest_first_after_a_connection_ended, "nothing is lost", 39),
    (the_notifier_forgets_the_request_that_waits_for_the_window, "nothing is lost", 32),
    (the_notifier_treats_a_refusal_as_success, "nothing is lost", 0),
    (the_notifier_gives_up_silently_at_the_first_failure, "nothing is lost", 0),
    (the_broker_does_not_announce_damaged_results, "nothing is lost", 0),
    (the_outbox_is_read_channel_by_channel, "no channel waits for another", 11),
    (a_recreated_channel_has_the_epoch_of_the_previous_one, "subscriptions agree", 12),
    (a_recreated_channel_serves_the_results_of_the_previous_one, "its own", 1),
    (a_client_continues_in_a_recreated_channel, "epochs are announced", 31),
    (the_coordinator_forgets_migrations_in_flight, "a plan lowers the maximum", 39),
]


@pytest.mark.parametrize(("broken", "rule", "first"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_the_campaign_catches_the_bug(monkeypatch: pytest.MonkeyPatch, broken: Patch, rule: str, first: int) -> None:
    broken(monkeypatch)
    found = (violation.invariant for seed in range(first, first + MOST) for violation in attempt(seed).violations)
    assert rule in found


def test_a_script_is_shrunk_to_the_faults_that_cause_the_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    the_broker_does_not_fetch_missed_executions(monkeypatch)
    outcome = next(each for each in map(attempt, range(77, 77 + MOST)) if each.violations)
    rule = outcome.violations[0].invariant
    kept = shrink(outcome.seed, rule)
    assert len(kept) < len(outcome.script)
    assert rule in {each.invariant for each in attempt(outcome.seed, kept).violations}
    for place in kept:
        fewer = [each for each in kept if each != place]
        assert rule not in {each.invariant for each in attempt(outcome.seed, fewer).violations}
    assert command(7, [0, 2]) == "tocsin simulate faults --seed 7 --only 0,2 --trace"
