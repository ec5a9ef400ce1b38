from __future__ import annotations

import pytest

from tocsin.cluster.statements.durations import parse_duration
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
def test_a_text_that_is_not_a_duration_of_fixed_length_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse_duration(text)
    assert caught.value.hint
    assert len(caught.value.message) < 200
