from __future__ import annotations

import pytest

from tocsin.balancing.brokers.strategies import STRATEGIES, make, settings_of
from tocsin.errors import NotFound, UserError
from tocsin.simulation.flow.debs import Size, debs_simulation
from tocsin.simulation.flow.flow import simulate
from tocsin.simulation.flow.peers import Peers, among_brokers
from tocsin.simulation.flow.settings import settings

SMALL = Size(brokers=4, subscribers=160, backs=40, channels=4, seconds=300.0, subscribed_by=60.0)


def test_an_unknown_strategy_is_refused_with_those_that_fit():
    with pytest.raises(NotFound) as refused:
        make("peal", {})
    assert "rao-one-to-one, rao-one-to-many, rao-many-to-many, bharambe, byers" in refused.value.hint


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("rao-one-to-one", {"alpha": 2.0}, "no setting 'alpha'"),
        ("rao-one-to-one", {"slack": "much"}, "a number, not 'much'"),
        ("rao-one-to-one", {"slack": True}, "a number, not True"),
        ("rao-one-to-one", {"slack": -1.0}, "slack -1"),
        ("rao-one-to-many", {"directories": 0}, "0 directories"),
        ("bharambe", {"alpha": 1.2}, "α is 1.2"),
        ("bharambe", {"balance_every": 0.0}, "balance_every of bharambe is 0"),
        ("bharambe", {"exchange_every": float("inf")}, "exchange_every of bharambe is inf"),
        ("byers", {"choices": 0}, "choices 0"),
        ("byers", {"sessions": 0}, "sessions 0"),
        ("byers", {"cool_down": -1}, "cool_down -1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(name, settings, why):
    with pytest.raises(UserError, match=why):
        make(name, settings)


def test_every_strategy_has_settings_with_defaults():
    for name in STRATEGIES:
        assert {"balance_every", "choices"} <= settings_of(name).keys()
        make(name, settings_of(name))


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "byers"])
def test_brokers_balance_a_skewed_load_and_their_messages_are_few(name):
    work, made = debs_simulation(1, SMALL), list[Peers]()
    alone = simulate(work, settings("", "nearest"))
    run = simulate(work, settings("", "nearest"), decide=among_brokers(name, made))
    last = -1
    assert run.samples.maximum[last] < 0.75 * alone.samples.maximum[last]
    assert run.deliveries.sum() == alone.deliveries.sum()
    assert made[0].bytes < 0.001 * (run.bytes_in.sum() + run.bytes_out.sum())
    # Sessions may be open when the run ends, but none past its deadline.
    assert all(session.deadline >= SMALL.seconds for host in made[0].hosts for session in host.sessions)
