"""T60: Table 5.2, each of the 23 a setting."""

from __future__ import annotations

import pytest

from tocsin.balancing.strategies.cheung2006.parameters import Parameters, parameters
from tocsin.errors import UserError

TABLE = [
    0.025,
    0.025,
    30,
    60,
    50,
    30,
    0.9,
    0.95,
    0.1,
    0.1,
    0.15,
    0.15,
    30,
    0.05,
    0.1,
    20,
    40,
    50,
    70,
    0.005,
    0.75,
    3,
    10,
]


def test_the_table():
    found = Parameters()
    assert [getattr(found, name) for name in Parameters.__struct_fields__] == TABLE and len(TABLE) == 23


@pytest.mark.parametrize("name", Parameters.__struct_fields__)
def test_each_is_a_setting(name):
    value = getattr(Parameters(), name)
    assert getattr(parameters({name: value}), name) == value
    with pytest.raises(UserError, match=name):
        parameters({name: -1})


@pytest.mark.parametrize(
    "wrong",
    [
        {"speed": 3},
        {"local_pie_period": 0},
        {"press_samples": 0},
        {"press_samples": 2.5},
        {"lower_overload": 0.97},
        {"global_ratio_threshold": 0.05},
        {"smoothing": 0},
        {"smoothing": 1.5},
        {"local_detection_min": 50},
        {"balance_percentage": float("nan")},
        {"migration_timeout": float("inf")},
        {"press_timeout": True},
        {"press_timeout": "30"},
        {"local_detection_min": 0, "local_detection_max": 0},
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(UserError) as found:
        parameters(wrong)
    assert found.value.hint
