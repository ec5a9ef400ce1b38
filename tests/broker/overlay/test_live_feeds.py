"""Live feeds between the broker's commands and its router: what is refused, numbered, delivered and announced."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tocsin.broker.core import events as core
from tocsin.broker.core import instructions as do
from tocsin.broker.overlay.live_feeds import EPOCH, FIRST_ID, READER, WRITER, LiveFeeds, advertised, live_feeds
from tocsin.errors import ParseError
from tocsin.overlay.content import instructions as routed
from tocsin.overlay.content.messages import Role
from tocsin.overlay.content.router import Router
from tocsin.wire.position import Position

FEEDS = [
    {
        "name": "Alarms",
        "type": "live",
        "columns": [{"name": "kind", "type": "string", "nullable": False}, {"name": "severity", "type": "int"}],
    },
    {"name": "Stored", "type": "http", "columns": []},
]


class Shell:
    """One broker alone. ``answers``: events for its state machine; ``notified``: those that are notifications."""

    def __init__(self, pin: Role | None = None) -> None:
        self.router = Router("b", epoch=1, rng=Random(1), pin=pin)
        self.answers: list[core.Event] = []
        self.notified: list[core.Notified] = []
        self.now = 1.0
        self.live: LiveFeeds | None = None
        self.live = LiveFeeds(self.router, self)
        self.live.define(live_feeds(FEEDS))

    def later(self, event: core.Event) -> None:
        self.answers.append(event)

    def notify(self, notifications: list[core.Notified]) -> None:
        self.notified += notifications

    def route(self, event: Any) -> None:
        for instruction in self.router.handle(event, 0.0):
            if self.live is not None and getattr(instruction, "client", None) in (READER, WRITER):
                self.live.routed(instruction)

    def delivered(self, subscription: int) -> int:
        return 77

    def clock(self) -> float:
        return self.now

    def do(self, command: do.Upstream) -> Any:
        assert self.live is not None and self.live.carry_out(command)
        return self.answers.pop()

    def subscribe(self, where: str) -> Any:
        return self.do(do.Subscribe("feed:Alarms", [[where]])).outcomes[0]

    def publish(self, *records: Any) -> Any:
        raw = [Raw(each if isinstance(each, bytes) else msgspec.json.encode(each)) for each in records]
        return self.do(do.Publish("alarms", raw)).refused


def test_equal_conditions_are_one_subscription_everywhere():
    one, other = Shell(), Shell()
    ids = [one.subscribe("severity >= 3"), one.subscribe("severity >=  3"), other.subscribe("severity >= 3")]
    assert len(set(ids)) == 1 and ids[0] >= FIRST_ID and ids[0] < 1 << 53
    assert one.subscribe("severity >= 4") != ids[0]


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("place = 'x'", "syntax"),
        ("severity = 'high'", "type_mismatch"),
        ("severity >", "syntax"),
        (" OR ".join(["severity = 1"] * 5_000), "limit_exceeded"),
    ],
    ids=["unknown attribute", "wrong type", "unfinished", "too many terms"],
)
def test_a_wrong_condition_is_a_problem_of_its_subscriber_only(where, code):
    shell = Shell()
    good = shell.subscribe("TRUE")
    assert shell.subscribe(where).code == code
    assert shell.publish({"kind": "fire"}) == [] and shell.notified[0].lines[0].subscription == good


@pytest.mark.parametrize(
    "args",
    [[], {}, ["TRUE", "TRUE"], {"where": "TRUE", "limit": "TRUE"}, {"limit": "TRUE"}, [7], {"where": None}, [["TRUE"]]],
    ids=str,
)
def test_arguments_that_are_not_one_condition_are_a_problem_of_their_subscriber_only(args):
    shell = Shell()
    wrong, good = shell.do(do.Subscribe("feed:Alarms", [args, {"WHERE": "TRUE"}])).outcomes
    assert (wrong.code, "takes one argument" in wrong.message) == ("type_mismatch", True)
    assert shell.publish({"kind": "fire"}) == [] and shell.notified[0].lines[0].subscription == good


def test_a_failure_of_the_router_is_answered_and_leaves_the_feed_usable(monkeypatch):
    shell = Shell()

    def fails(event: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(shell, "route", fails)
        assert shell.subscribe("TRUE").code == "internal"
        answer = shell.do(do.Publish("alarms", [Raw(b'{"kind":"fire"}')]))
        assert (answer.feed, answer.problem.code) == ("alarms", "internal")
    id = shell.subscribe("TRUE")
    assert shell.publish({"kind": "fire"}) == [] and shell.notified[0].lines[0].subscription == id


def test_a_condition_that_is_never_true_is_accepted_with_a_warning():
    answer = Shell().do(do.Subscribe("feed:Alarms", [["severity > 3 AND severity < 2"], ["severity > 3"]]))
    never, sometimes = answer.outcomes
    assert "never true" in answer.warnings[never][0] and sometimes not in answer.warnings


def test_a_publication_is_delivered_as_its_publisher_wrote_it():
    shell = Shell()
    fire, every = shell.subscribe("kind = 'fire'"), shell.subscribe("")
    assert shell.publish(b'{"kind":  "fire"}', {"kind": "flood"}) == []
    first, second = shell.notified
    assert (first.channel, first.epoch) == ("feed:Alarms", EPOCH) and first.execution < second.execution
    assert {line.subscription for line in first.lines} == {fire, every}
    assert {bytes(line.results) for line in first.lines} == {b'[{"kind":  "fire"}]'}
    assert [line.source for line in second.lines] == [b'["b",1,2]'] and second.lines[0].subscription == every


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ({"severity": 1}, "type_mismatch"),
        ({"kind": None}, "type_mismatch"),
        ({"kind": "fire", "severity": 1 << 40}, "type_mismatch"),
        ({"kind": "fire", "place": "x"}, "bad_request"),
        (b"[1]", "malformed"),
        (b'{"kind":', "malformed"),
        (b"[" * 50_000, "malformed"),
        (b'{"kind": "\xff"}', "malformed"),
    ],
    ids=range(8),
)
def test_a_wrong_publication_is_refused_alone(record, code):
    shell = Shell()
    shell.subscribe("TRUE")
    refused = shell.publish({"kind": "a"}, record, {"kind": "b"})
    assert [(place, found) for place, found, _ in refused] == [(1, code)]
    assert [bytes(each.lines[0].results) for each in shell.notified] == [b'[{"kind":"a"}]', b'[{"kind":"b"}]']


def test_what_was_missed_is_a_gap():
    shell = Shell()
    id = shell.subscribe("TRUE")
    answer = shell.do(do.Fetch(5, "feed:Alarms", id, Position(EPOCH, 3)))
    assert answer == core.FetchGap(5, Position(EPOCH, 78))
    shell.live.routed(routed.Gap(READER, (str(id), "12345"), "restarted"))
    (line,) = shell.notified[0].lines
    assert (line.subscription, line.gap, line.rows) == (id, "restarted", 0)


def test_numbers_grow_also_when_the_clock_goes_back():
    shell = Shell()
    shell.subscribe("TRUE")
    for shell.now in (5.0, 5.0, 2.0, 9.0):
        shell.publish({"kind": "a"})
    numbers = [each.execution for each in shell.notified]
    assert numbers == sorted(set(numbers)) and numbers[0] == 5_000_000 and numbers[-1] == 9_000_000


def test_a_feed_that_is_dropped_or_changes_ends_its_subscriptions():
    shell = Shell()
    shell.subscribe("TRUE")
    shell.live.define(live_feeds(FEEDS))
    assert shell.answers == []
    wider = [FEEDS[0] | {"columns": [{"name": "kind", "type": "string"}]}]
    shell.live.define(live_feeds(wider))
    assert shell.answers.pop() == core.Dropped("feed:Alarms")
    assert shell.publish({"kind": "a"}) == [] and shell.notified == []
    shell.live.define([])
    assert shell.answers.pop() == core.Dropped("feed:Alarms") and not shell.router.routing.spaces
    assert not shell.live.carry_out(do.Publish("Alarms", [])) and not shell.live.carry_out(do.Unsubscribe("C", [1]))


def test_an_unsubscription_leaves_nothing():
    shell = Shell()
    id = shell.subscribe("severity = 1")
    assert shell.do(do.Unsubscribe("feed:ALARMS", [id, 999])) == core.Unsubscribed("feed:ALARMS")
    assert shell.router.clients.find(READER).announced == {}


def test_an_edge_advertises_only_when_a_client_publishes_there():
    assert list(Shell("head").router.clients.find(WRITER).announced)
    shell = Shell("edge")
    assert not shell.router.clients.find(WRITER).announced
    assert shell.publish({"kind": "a"}) == [] and list(shell.router.clients.find(WRITER).announced)


def test_an_advertisement_gives_the_attributes_without_a_data_cluster():
    (feed,) = advertised({"Quotes": "[class,eq,'STOCK'],[volume,>,100]"})
    shell = Shell()
    shell.live.define([feed])
    refused = shell.do(
        do.Publish("Quotes", [Raw(b'{"class":"STOCK","volume":200}'), Raw(b'{"class":"X","volume":200}')])
    )
    assert [place for place, _, _ in refused.refused] == [1]
    with pytest.raises(ParseError):
        advertised({"Quotes": "[class"})
