"""The campaign finds bugs in content subscriptions: each test breaks a rule, and some seeds must show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tocsin.broker.core import events as ev
from tocsin.broker.core.be_subscriptions import BESubscriptions
from tocsin.broker.core.delivery import Delivery
from tocsin.broker.core.model.be_subscription import Channel
from tocsin.broker.core.model.matcher import Matcher
from tocsin.simulation.campaign import attempt
from tocsin.simulation.reference_cluster import ReferenceCluster
from tocsin.simulation.run import scenario_of, script_of

#: The campaign must catch each bug within this many seeds.
MOST = 60

Patch = Callable[[pytest.MonkeyPatch], None]


def only_the_first_record_of_a_commit_is_matched(patch: pytest.MonkeyPatch) -> None:
    lines = Matcher.lines
    patch.setattr(Matcher, "lines", lambda self, execution, records: lines(self, execution, records[:1]))


def a_commit_that_comes_without_records_counts_as_delivered(patch: pytest.MonkeyPatch) -> None:
    notified = Delivery.notified

    def empty(self: Delivery, event: ev.Notified, out: Any) -> None:
        if event.channel.startswith("feed:") and event.records is None:
            event = ev.Notified(event.channel, event.execution, [], event.epoch)
        notified(self, event, out)

    patch.setattr(Delivery, "notified", empty)


def conditions_of_before_a_restart_are_not_matched(patch: pytest.MonkeyPatch) -> None:
    recovered, add = BESubscriptions.recovered, Channel.add

    def without(self: BESubscriptions, event: ev.Recovered, out: Any) -> None:
        patch.setattr(Channel, "add", lambda self, it: self.be_subscriptions.__setitem__(it.id, it))
        recovered(self, event, out)
        patch.setattr(Channel, "add", add)

    patch.setattr(BESubscriptions, "recovered", without)


def a_replay_begins_one_commit_too_late(patch: pytest.MonkeyPatch) -> None:
    results = ReferenceCluster.results

    def late(self: ReferenceCluster, channel: str, id: int, after: int, *rest: Any, **named: Any) -> Any:
        return results(self, channel, id, after + self.channel(channel).feed, *rest, **named)

    patch.setattr(ReferenceCluster, "results", late)


def one_broker_is_notified_of_a_commit(patch: pytest.MonkeyPatch) -> None:
    append = ReferenceCluster.append

    def first_only(self: ReferenceCluster, channel: Any, *rest: Any) -> Any:
        before = set(self.outbox)
        made = append(self, channel, *rest)
        for entry in [entry for entry in self.outbox if entry not in before][1:]:
            del self.outbox[entry]
        return made

    patch.setattr(ReferenceCluster, "append", first_only)


BROKEN = [
    (only_the_first_record_of_a_commit_is_matched, "its own", 0),
    (a_commit_that_comes_without_records_counts_as_delivered, "nothing is lost", 0),
    (conditions_of_before_a_restart_are_not_matched, "nothing is lost", 31),
    (a_replay_begins_one_commit_too_late, "nothing is lost", 0),
    (one_broker_is_notified_of_a_commit, "nothing is lost", 0),
]


@pytest.mark.parametrize(("broken", "rule", "first"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_the_campaign_catches_the_bug_in_content_subscriptions(
    monkeypatch: pytest.MonkeyPatch, broken: Patch, rule: str, first: int
) -> None:
    broken(monkeypatch)
    feeds = [seed for seed in range(first, first + MOST) if any(each.feed for each in scenario_of(seed).channels)]
    found = (violation.invariant for seed in feeds for violation in attempt(seed).violations)
    assert rule in found


def test_a_seed_has_a_feed_or_not_whatever_else_is_drawn() -> None:
    with_feed = [any(each.feed for each in scenario_of(seed).channels) for seed in range(200)]
    assert 70 < sum(with_feed) < 130
    assert script_of(3) == script_of(3)
