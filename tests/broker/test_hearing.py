"""What is told at once: as if one after the other, though the books are kept later."""

from __future__ import annotations

import msgspec
import pytest
from stand import Stand, executions, line

from tocsin.broker.core import events as ev
from tocsin.broker.core.delivery import UNBOOKED, UNBOOKED_BYTES
from tocsin.broker.transport.notify_endpoint import Tell


def stand_with(*numbers: int) -> Stand:
    stand = Stand(heartbeat=0.0)
    stand.open("p", "q")
    for number in numbers:
        stand.subscribed("p", number, kind=str(number))
    stand.subscribed("q", numbers[0], kind=str(numbers[0]))
    return stand


TELLS = [
    ev.Told("C", 1, [line(7, 1), line(8, 1)]),
    ev.Told("C", 2, [line(7, 2, b"[22]"), line(99, 2)]),
    ev.Told("C", 2, [line(7, 2)]),  # again
    ev.Told("C", 3, [line(8, 3, b"x" * (UNBOOKED_BYTES + 1))]),
    ev.Told("C", 4, [line(7, 4)]),
]


def test_it_is_as_if_they_came_one_after_the_other():
    together, apart = stand_with(7, 8), stand_with(7, 8)
    found = together.state.hear(TELLS, 5.0)
    expected = [it for tell in TELLS for it in apart.state.handle(tell, 5.0)]
    assert found == expected and found
    assert together.state.counters == apart.state.counters
    assert together.state.report(9.0) == apart.state.report(9.0)
    kept = [[back.recent.entries for back in each.state.backs.values()] for each in (together, apart)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("look", ["counters", "cache", "report", "tick", "changes"])
def test_whoever_looks_finds_the_books_kept(look):
    stand = stand_with(7)
    stand.state.hear([ev.Told("C", 1, [line(7, 1)])], 1.0)
    back = stand.state.backs[7]
    assert not back.recent.entries
    match look:
        case "report":
            assert stand.state.report(1.0).subscriptions[0].lam > 0
        case "changes":
            assert stand.state.changes(1, 1.0, full=True).rates[7] > 0
        case "tick":
            stand.tick()
        case _:
            getattr(stand.state, look)
    assert len(back.recent.entries) == 1


def test_who_comes_back_gets_what_was_told_a_moment_ago():
    stand = stand_with(7)
    stand.state.hear([ev.Told("C", 1, [line(7, 1)]), ev.Told("C", 2, [line(7, 2)])], 0.0)
    stand.open("r")
    stand.subscribe("r", "7", after=0)
    assert executions(stand.took("r")) == [1, 2]


def test_a_channel_made_anew_leaves_nothing_of_the_one_before():
    stand = stand_with(7)
    stand.state.hear([ev.Told("C", 5, [line(7, 5)], 1), ev.Told("C", 1, [line(9, 1)], 2)], 0.0)
    assert (stand.state.cache.bytes, stand.state.cache.frames, list(stand.state.backs)) == (0, 0, [])


def test_only_so_much_is_put_off():
    stand = stand_with(7)
    for execution in range(1, UNBOOKED):
        stand.state.hear([ev.Told("C", execution, [line(7, execution)])], 0.0)
    back = stand.state.backs[7]
    assert not back.recent.entries
    stand.state.hear([ev.Told("C", UNBOOKED, [line(7, UNBOOKED)])], 0.0)
    assert back.recent.entries


def test_what_the_data_cluster_writes_is_what_is_told():
    text = b'{"broker":"b","channel":"C","epoch":4,"execution":3,"results":[],"time":1.5,"subscriptions":[7]}'
    tell = msgspec.json.decode(text, type=Tell)
    assert (tell.broker, tell.channel, tell.execution, tell.lines, tell.epoch) == ("b", "C", 3, [], 4)
