"""PADRES workload files: what their lines mean, errors that point at the line, and runs of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tocsin.errors import LimitExceeded, ParseError
from tocsin.simulation.content.workload import commands
from tocsin.simulation.content.workload.commands import AddBroker, AddPublisher, AddSubscriber, ChangeRate, Remove, read
from tocsin.simulation.content.workload.run import run

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "stock.workload"
PAGE = ROOT / "docs" / "explanation" / "content.md"


def test_the_three_lines_of_the_thesis_are_read():
    text = "1.0 broker add B0 500 16 10\npublisher add P1 YHOO 10 B0\n60.0 publisher chrate P1 20\n"
    assert read(text) == [
        AddBroker(1.0, "B0", 500.0, 16.0, 10.0),
        AddPublisher(1.0, "P1", "YHOO", 10.0, "B0"),
        ChangeRate(60.0, "P1", 20.0),
    ]


def test_the_lines_on_the_page_are_a_workload():
    (block,) = re.findall(r"^```text\n(# CPU.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    result = run(read(block), seconds=10.0)
    assert result.subscribers[0].deliveries == 20
    assert [each.published for each in result.publishers] == [23]


def test_comments_empty_lines_neighbours_and_subscribers_are_read():
    text = """
# two brokers
0 broker add B0 500 16 10
  broker add B1 500 16 10
  broker add B2 500 16 10 B1
5 subscriber add S1 B1 symbol = 'IBM' AND high > 3
6 subscriber remove S1
"""
    found = read(text)
    assert found[1].neighbours == ("B0",) and found[2].neighbours == ("B1",)
    assert isinstance(found[3], AddSubscriber) and found[3].condition.to_sql() == "symbol = 'IBM' AND high > 3"
    assert found[4] == Remove(6.0, "subscriber", "S1")


BROKER = "1.0 broker add B0 500 16 10"


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("nonsense", 1, "nonsense is not a command"),
        ("2.0", 1, "is not a command"),
        ("broker", 1, "broker is not a command"),
        ("broker move B0", 1, "broker move is not a command"),
        ("broker add B1 500", 1, "has 2 fields"),
        ("broker add B1 fast 16 10", 15, "'fast' is not MHz"),
        ("broker add B1 0 16 10", 15, "0 is not MHz above 0"),
        ("broker add B1 500 -1 10", 19, "-1 is not MB"),
        ("broker add B1 500 16 inf", 22, "inf is not Mbit/s"),
        ("broker add B0 500 16 10", 12, "a broker 'B0' already"),
        ("broker add B1 500 16 10 B9", 25, "no broker 'B9'"),
        ("broker add B1 500 16 10 B1", 25, "no broker 'B1'"),
        ("broker add B1 500 16 10 B0 B0", 25, "appears twice"),
        ("broker remove B0", 15, "the last broker"),
        ("0.5 publisher add P1 YHOO 10 B0", 1, "0.5 is before 1"),
        ("-1 publisher add P1 YHOO 10 B0", 1, "-1 is not a time"),
        ("1e9 publisher add P1 YHOO 10 B0", 1, "is not a time"),
        ("publisher add P1 YHOO 10", 1, "has 3 fields"),
        ("publisher add P1 YHOO 10 B0 more", 1, "has 5 fields"),
        ("publisher add P1 YHOO 10 B7", 26, "no broker 'B7'"),
        ("publisher add P1 YH'OO 10 B0", 18, "is not a symbol"),
        ("publisher add P1 YHOO often B0", 23, "'often' is not a rate"),
        ("publisher add P1 YHOO -5 B0", 23, "-5 is not a rate"),
        ("publisher chrate P9 10", 18, "no publisher 'P9'"),
        ("publisher remove P9", 18, "no publisher 'P9'"),
        ("subscriber add S1 B0 [class,eq,'STOCK'],[price,>,3]", 42, "no attribute 'price'"),
        ("subscriber add S1 B0 [class,eq,", 32, ""),
        ("subscriber add S1 B0 volume > 'many'", 31, ""),
        ("subscriber add S1 B0", 1, "has 2 fields"),
        ("subscriber remove S9", 19, "no subscriber 'S9'"),
    ],
)
def test_an_error_points_at_its_line_and_column(line, column, message):
    with pytest.raises(ParseError) as raised:
        read(f"{BROKER}\n\n{line}\n")
    error = raised.value
    assert (error.line, error.column) == (3, column)
    assert message in error.message and "line 3" in error.message
    assert error.hint or "subscriber add" in line


def test_brokers_that_are_connected_already_are_not_both_neighbours():
    text = f"{BROKER}\nbroker add B1 1 1 1\nbroker add B2 1 1 1 B0 B1"
    with pytest.raises(ParseError, match="a cycle"):
        read(text)


def test_a_broker_that_others_are_connected_over_stays():
    text = f"{BROKER}\nbroker add B1 1 1 1\nbroker add B2 1 1 1\nbroker remove B0"
    with pytest.raises(ParseError, match="connected over B0"):
        read(text)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
def test_an_empty_workload_is_refused(text):
    with pytest.raises(ParseError, match="no commands"):
        read(text)


def test_a_workload_with_too_many_lines_is_refused(monkeypatch):
    monkeypatch.setattr(commands, "MOST_LINES", 3)
    with pytest.raises(LimitExceeded):
        read("\n" * 4)


# -- runs


def test_rates_are_messages_a_minute_and_change_when_the_file_says():
    text = f"{BROKER}\n1 publisher add P1 YHOO 10 B0\nsubscriber add S1 B0 symbol = 'YHOO'\n61 publisher chrate P1 20"
    result = run(read(text), seconds=60.0)
    assert result.publishers[0].published == 10 + 20
    assert result.subscribers[0].deliveries == 30
    assert result.subscribers[0].hops == 0


def test_the_example_has_every_client_where_peer_puts_it_and_every_delivery():
    result = run(read(EXAMPLE.read_text()), seconds=60.0)
    roles = {each.name: each.role for each in result.brokers}
    assert [name for name, role in roles.items() if role == "head"] == ["B0", "B4"]
    assert all(roles[each.broker] == "head" for each in result.publishers)
    assert all(roles[each.broker] == "edge" for each in result.subscribers if each.broker)
    published = {each.symbol: each.published for each in result.publishers}
    assert abs(result.subscribers[0].deliveries - published["YHOO"]) <= 1
    assert sum(each.deliveries for each in result.publishers) == sum(each.deliveries for each in result.subscribers)
    assert all(1 <= each.hops / each.deliveries <= 2 for each in result.subscribers)
    assert result.refused == []


def test_a_slow_processor_and_a_narrow_link_delay_deliveries():
    def delay(cpu: int, bandwidth: float) -> float:
        text = f"""0 broker add B0 {cpu} 16 {bandwidth}
1 publisher add P1 YHOO 60 B0
subscriber add S1 B0 symbol = 'YHOO'
subscriber add S2 B0 class = 'STOCK'"""
        (first, _) = run(read(text), seconds=30.0).subscribers
        return first.delay / first.deliveries

    assert delay(1, 10) > delay(1000, 10) + 0.02
    assert delay(1000, 0.1) > delay(1000, 10) + 0.01


def test_clients_of_a_broker_that_leaves_go_elsewhere():
    text = f"""{BROKER}
1 broker add B1 500 16 10
1 broker add B2 500 16 10
2 publisher add P1 YHOO 60 B0
2 subscriber add S1 B2 symbol = 'YHOO'
20 broker remove B2"""
    result = run(read(text), seconds=40.0)
    assert [each.name for each in result.brokers] == ["B0", "B1"]
    assert result.subscribers[0].broker in ("B0", "B1")
    assert result.subscribers[0].deliveries > 50


def test_the_same_seed_gives_the_same_result():
    commands = read(EXAMPLE.read_text())
    assert run(commands, seconds=5.0, seed=3) == run(commands, seconds=5.0, seed=3)
