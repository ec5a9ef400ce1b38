"""T21, T31, T32, T38: clusters."""

from __future__ import annotations

from random import Random

import pytest

from tocsin.balancing.strategies.cheung2006.detection.indices import Indices
from tocsin.balancing.strategies.cheung2006.detection.pie import Pie
from tocsin.balancing.strategies.cheung2006.detection.status import Status
from tocsin.balancing.strategies.cheung2006.mediation import events as ev
from tocsin.balancing.strategies.cheung2006.mediation import messages as ms
from tocsin.balancing.strategies.cheung2006.mediation import outputs as out
from tocsin.balancing.strategies.cheung2006.mediation.head import Head
from tocsin.balancing.strategies.cheung2006.parameters import Parameters

HEAVY, LIGHT = Indices(0.6, 0.4, 0.03), Indices(0.1, 0.1, 0.01)
OK, NA = Status.OK, Status.UNAVAILABLE


def head(load: Indices = HEAVY, status: Status = OK, **more) -> Head:
    found = Head("B10", "B10", ["B11", "B12"], Parameters(), Random(1), **more)
    for edge in ("B11", "B12"):
        found.handle(ev.Received(edge, Pie(edge, "B10", status, load)), 0.0)
    return found


def informed(found: Head, name: str = "B20", load: Indices = LIGHT, status: Status = OK) -> list[out.Output]:
    return found.handle(ev.Received(name, Pie(name, name, status, load, whole=True)), 1.0)


def opened() -> Head:
    found = head()
    (request,) = informed(found)
    assert request == out.Send("B20", ms.Request("B10/0/1"))
    found.handle(ev.Received("B20", ms.Reply("B10/0/1", OK)), 1.0)
    assert found.partner == "B20"
    return found


def sent(outputs: list[out.Output], kind: type) -> list[str]:
    return [each.to for each in outputs if isinstance(each, out.Send) and isinstance(each.message, kind)]


def test_a_cluster_publishes_the_mean_of_its_edges():
    found = head()
    found.handle(ev.Received("B12", Pie("B12", "B10", OK, LIGHT)), 0.0)
    (published,) = [each for each in found.handle(ev.Tick(), 61.0) if isinstance(each, out.Publish)]
    assert published.pie.indices.input == pytest.approx(0.35) and published.pie.status is OK


def test_one_overloaded_edge_makes_the_cluster_unavailable():
    found = head()
    found.handle(ev.Received("B12", Pie("B12", "B10", NA, HEAVY)), 0.0)
    assert found.status is NA
    found.handle(ev.Received("B12", Pie("B12", "B10", OK, HEAVY)), 1.0)
    assert found.status is OK


def test_an_unavailable_cluster_passes_others_on():
    assert informed(head(LIGHT, NA), load=HEAVY) == [out.Forward(Pie("B20", "B20", OK, HEAVY, whole=True), "B20")]
    assert informed(head(LIGHT, OK), load=HEAVY) == []
    assert informed(head(LIGHT, NA, silent=True), load=HEAVY) == []


def test_a_difference_beyond_the_global_threshold_is_needed():
    near = Indices(0.46, 0.3, 0.02)
    assert informed(head(), load=near) == []
    assert sent(informed(head(), load=Indices(0.44, 0.3, 0.02)), ms.Request) == ["B20"]


def test_an_ok_cluster_gives_precedence_to_an_unavailable_one():
    found = head()
    informed(found, "B30", HEAVY, NA)
    assert informed(found) == []


def test_both_clusters_watch_each_other():
    found = head(LIGHT)
    informed(found, load=HEAVY)
    outputs = found.handle(ev.Received("B20", ms.Request("B20/0/7")), 2.0)
    assert out.Send("B20", ms.Reply("B20/0/7", OK)) in outputs and out.Watch("B20", True) in outputs
    assert sent(outputs, ms.Join) == ["B11", "B12"] and found.status is Status.BUSY


def test_a_busy_or_unavailable_cluster_declines():
    assert opened().handle(ev.Received("B30", ms.Request("B30/0/1")), 2.0) == [
        out.Send("B30", ms.Reply("B30/0/1", Status.BUSY))
    ]
    assert head(LIGHT, NA).handle(ev.Received("B30", ms.Request("B30/0/1")), 2.0) == [
        out.Send("B30", ms.Reply("B30/0/1", NA))
    ]


def test_a_cluster_that_declines_is_followed_by_the_next():
    found = head()
    found.known.register(Pie("B30", "B30", OK, Indices(0.3, 0.3, 0.02), whole=True), 0.0)
    assert sent(informed(found), ms.Request) == ["B20"]
    outputs = found.handle(ev.Received("B20", ms.Reply("B10/0/1", NA)), 2.0)
    assert sent(outputs, ms.Request) == ["B30"]


def test_no_reply_in_time_is_a_refusal():
    found = head()
    informed(found)
    assert sent(found.handle(ev.Tick(), 12.0), ms.Request) == []
    assert found.partner is None
    assert found.handle(ev.Received("B20", ms.Reply("B10/0/1", OK)), 13.0) == [out.Send("B20", ms.Done("B10/0/1"))]


def test_a_session_ends_when_all_are_balanced_with_all():
    found = opened()
    names = ("B11", "B12", "B21", "B22")

    def informs(broker: str, balanced: tuple[str, ...]) -> list[out.Output]:
        cluster = "B10" if broker in found.edges else "B20"
        return found.handle(ev.Received(broker, Pie(broker, cluster, OK, LIGHT, balanced)), 5.0)

    for name in names[:3]:
        assert informs(name, tuple(each for each in names if each != name)) == []
    assert informs("B22", ("B11", "B21")) == []
    outputs = informs("B22", ("B11", "B12", "B21"))
    assert sent(outputs, ms.Done) == ["B20"] and sent(outputs, ms.Leave) == ["B11", "B12"]
    assert out.Watch("B20", False) in outputs and found.partner is None and found.status is OK


def test_the_partners_done_ends_it_too():
    found = opened()
    assert found.handle(ev.Received("B30", ms.Done("B10/0/1")), 2.0) == []
    outputs = found.handle(ev.Received("B20", ms.Done("B10/0/1")), 2.0)
    assert sent(outputs, ms.Leave) == ["B11", "B12"] and found.partner is None


def test_a_partner_that_dies_ends_it():
    found = opened()
    assert sent(found.handle(ev.PeerLost("B20"), 2.0), ms.Leave) == ["B11", "B12"]
    assert found.status is OK


def test_the_request_of_an_overloaded_edge_starts_detection():
    found = head(LIGHT)
    informed(found)
    found.handle(ev.Received("B11", Pie("B11", "B10", NA, Indices(1.2, 0.5, 0.05))), 2.0)
    assert sent(found.handle(ev.Received("B11", ms.GlobalRequest("B11/0/1")), 3.0), ms.Request) == ["B20"]
    assert found.handle(ev.Received("B99", ms.GlobalRequest("B99/0/1")), 3.0) == []


def test_the_third_request_in_a_session_ends_it_for_another_cluster():
    found = opened()
    found.known.register(Pie("B30", "B30", OK, LIGHT, whole=True), 1.0)
    ask = ev.Received("B11", ms.GlobalRequest("B11/0/1"))
    assert found.handle(ask, 2.0) == found.handle(ask, 3.0) == []
    outputs = found.handle(ask, 4.0)
    assert sent(outputs, ms.Done) == ["B20"] and sent(outputs, ms.Request) == ["B30"]


def test_an_edge_of_a_cluster_without_a_session_is_ignored():
    found = head()
    assert found.handle(ev.Received("B21", Pie("B21", "B20", OK, LIGHT)), 1.0) == [] and len(found.known) == 0
