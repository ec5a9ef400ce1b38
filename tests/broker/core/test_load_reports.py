"""What the broker reports to the coordinator between two full reports."""

from __future__ import annotations

from broker_harness import BrokerHarness

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.load_reports import ROUND
from tocsin.broker.core.model.rate import LEAST
from tocsin.broker.core.user_sessions import MIGRATION_SECONDS, REST_IDLE
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.reports import MigrationOrder, ReportReply


def test_an_unchanged_rate_is_reported_again_within_a_round():
    """The coordinator may have used the rate of another broker that no longer has the subscription."""
    harness = BrokerHarness(heartbeat=0.0)
    harness.open("p")
    harness.subscribed("p", id=7)
    assert harness.state.load_reports.changes(1, harness.now, full=True).rates == {7: 0.0}
    reported = [
        report
        for report in range(2, 2 + ROUND)
        if harness.state.load_reports.changes(report, harness.now, full=False).rates
    ]
    assert reported == [7]


def test_a_new_rate_is_reported_as_fresh():
    harness = BrokerHarness(heartbeat=0.0)
    harness.open("p")
    harness.subscribed("p", id=7)
    assert harness.state.load_reports.changes(1, harness.now, full=True).fresh == [7]
    assert harness.state.load_reports.changes(2, harness.now + LEAST, full=True).fresh == []


# -- users over REST ---------------------------------------------------------------------------------------------------


def polling() -> BrokerHarness:
    """A user over REST with one durable subscription."""
    harness = BrokerHarness(heartbeat=0.0, grace=10.0)
    harness.handle(ev.OpenedForUser("call", "ann"))
    harness.subscribed("call", 7)
    harness.close("call")
    return harness


def subscribers(harness: BrokerHarness, *, full: bool = False) -> tuple[dict[str, list[int]], list[str]]:
    report = harness.state.load_reports.changes(1, harness.now, full=full)
    return report.subscribers, report.left


def order(name: str) -> ev.Ordered:
    return ev.Ordered(ReportReply(1, migrations=[MigrationOrder(name, "c", "http://c", "ticket")]))


def test_a_user_over_rest_is_reported_as_a_subscriber():
    harness = polling()
    assert subscribers(harness) == ({"ann": [7]}, [])
    assert subscribers(harness) == ({}, [])
    assert subscribers(harness, full=True) == ({"ann": [7]}, [])
    (load,) = harness.state.load_reports.report(harness.now).subscriptions
    assert load.subscribers == 1


def test_a_user_that_stops_polling_has_left():
    harness = polling()
    subscribers(harness)
    harness.tick(REST_IDLE + 1)
    assert subscribers(harness) == ({}, ["ann"])
    harness.handle(ev.OpenedForUser("call", "ann"))
    assert subscribers(harness) == ({"ann": [7]}, [])


def test_a_long_poll_keeps_its_user_connected():
    harness = polling()
    harness.handle(ev.OpenedForUser("long", "ann"))
    for _ in range(3):
        harness.tick(REST_IDLE)
    assert subscribers(harness) == ({"ann": [7]}, [])


def test_a_user_with_a_websocket_is_reported_once():
    harness = polling()
    subscribers(harness)
    harness.log_in("p", "ann", wire.DurableSubscription(7, "C", ["fire"], 0))
    harness.subscribed("p", 7)
    assert subscribers(harness) == ({"b:1": [7]}, ["ann"])


def test_after_a_lost_report_the_next_one_is_full():
    harness = polling()
    reports = harness.state.load_reports
    reports.put_back(reports.changes(1, harness.now, full=False))
    assert subscribers(harness) == ({"ann": [7]}, [])
    harness.handle(ev.UserEnded("ann"))
    reports.put_back(reports.changes(2, harness.now, full=False))
    report = reports.changes(3, harness.now, full=False)
    assert report.full and report.subscribers == {}


def test_a_user_over_rest_migrates_with_its_next_request():
    harness = polling()
    harness.handle(order("ann"))
    harness.handle(ev.OpenedForUser("next", "ann"))
    assert harness.took("next") == [wire.Migrate("c", "http://c", "ticket")]


def test_an_open_request_receives_the_migration_at_once():
    harness = polling()
    harness.handle(ev.OpenedForUser("long", "ann"))
    harness.handle(order("ann"))
    assert harness.took("long") == [wire.Migrate("c", "http://c", "ticket")]


def test_a_migration_that_timed_out_is_not_repeated():
    harness = polling()
    harness.handle(order("ann"))
    harness.tick(MIGRATION_SECONDS)
    harness.handle(ev.OpenedForUser("next", "ann"))
    assert harness.took("next") == []


def test_a_user_that_arrived_at_another_broker_is_not_served_here():
    harness = polling()
    subscribers(harness)
    harness.handle(ev.OpenedForUser("long", "ann"))
    harness.handle(ev.Ordered(ReportReply(1, drop=["ann"])))
    assert [it.close for it in harness.did(do.Close)] == [close_codes.MIGRATED]
    assert subscribers(harness) == ({}, ["ann"])
    harness.tick(11)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7])]


def test_the_migration_of_an_unknown_user_fails():
    harness = polling()
    harness.handle(order("bob"))
    (failed,) = harness.state.load_reports.changes(1, harness.now, full=False).outcomes
    assert failed.ticket == "ticket"


def test_without_a_coordinator_nothing_is_kept_of_past_connections():
    harness = BrokerHarness()
    for n in range(100):
        harness.open(n)
        harness.close(n)
        harness.log_in(n, f"user-{n}")
        harness.handle(ev.UserEnded(f"user-{n}"))
    assert harness.state.context.changed == harness.state.context.changed_users == {}


def test_while_the_coordinator_is_away_nothing_is_kept_of_past_connections():
    harness = BrokerHarness()
    reports = harness.state.load_reports
    reports.changes(1, harness.now, full=True)
    harness.open("p")
    reports.put_back(reports.changes(2, harness.now, full=False))
    for n in range(100):
        harness.open(n)
        harness.close(n)
    assert harness.state.context.changed == {}
    assert list(reports.changes(3, harness.now, full=False).subscribers) == ["b:1"]
