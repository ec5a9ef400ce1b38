from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tocsin.cluster.statements.durations import format_duration, parse_duration
from tocsin.errors import ParseError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT10S", 10),
        ("PT0.5S", 0.5),
        ("PT0,5S", 0.5),
        ("PT1M30S", 90),
        ("PT1.5M", 90),
        ("P1D", 86_400),
        ("P1DT2H", 93_600),
        ("P2W", 1_209_600),
        ("PT36H", 129_600),
        ("pt10s", 10),
        (" PT10S ", 10),
        ("PT0S", 0),
        ("-PT10S", -10),
        ("P36525D", 36_525 * 86_400),
    ],
)
def test_a_duration_is_read_as_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not an ISO-8601 duration"),
        ("10", "not an ISO-8601 duration"),
        ("10s", "not an ISO-8601 duration"),
        ("P", "no part"),
        ("PT", "not an ISO-8601 duration"),
        ("P1DT", "not an ISO-8601 duration"),
        ("P10S", "not an ISO-8601 duration"),
        ("PT1S1M", "not an ISO-8601 duration"),
        ("P1W2D", "not an ISO-8601 duration"),
        ("PT1.5M3S", "only its last part"),
        ("PT.5S", "not an ISO-8601 duration"),
        ("PT-5S", "not an ISO-8601 duration"),
        ("PT1e3S", "not an ISO-8601 duration"),
        ("PT٣S", "not an ISO-8601 duration"),
        ("P1Y", "years"),
        ("P1M", "months"),
        ("P1MT1M", "months"),
        ("P36526D", "longer than a hundred years"),
        ("PT" + "9" * 5000 + "S", "longer than a hundred years"),
    ],
)
def test_what_is_not_a_duration_of_fixed_length_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse_duration(text)
    assert caught.value.hint
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "PT0S"),
        (10, "PT10S"),
        (0.5, "PT0.5S"),
        (90, "PT1M30S"),
        (86_400, "P1D"),
        (93_600, "P1DT2H"),
        (604_800, "P7D"),
        (600.0, "PT10M"),
        (1e-07, "PT0.0000001S"),
        (-10, "-PT10S"),
    ],
)
def test_seconds_are_written_in_the_shortest_way(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize("seconds", [float("nan"), float("inf")])
def test_what_is_no_number_of_seconds_is_not_written(seconds: float) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        format_duration(seconds)


@given(some.floats(min_value=-3e9, max_value=3e9) | some.integers(min_value=0, max_value=3_000_000_000))
def test_what_is_written_is_read_back_as_the_same_number(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds
