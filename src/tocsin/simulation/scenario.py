"""A network to be simulated: its parts, its load and its settings. Drawn by chance, and small, so that many can be."""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec import Struct, field, structs

from tocsin.config import BrokerConfig, BrokerLimits, CoordinatorConfig, CoordinatorLimits
from tocsin.simulation.identity.people import Rule

#: Strategies and placements that are drawn; "" is no balancing. Peal in its automatic mode is by far the slowest.
STRATEGIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("peal", {}),
    ("peal", {"mode": "repair"}),
    ("peal", {"mode": "repair", "trigger": 0.0}),
    ("multistage", {}),
    ("ldm", {"alpha": 0.03}),
    ("sdm", {"alpha": 0.03}),
    ("gsh", {}),
    ("", {}),
)
#: What every drawn network begins with: small buffers and short waits, so that much happens.
BROKER = BrokerConfig(
    heartbeat=3.0,
    silence=9.0,
    hello_timeout=5.0,
    grace=12.0,
    buffer_bytes=4_096,
    coordinator="http://coordinator",
    anonymous="all",
    fetches=2,
    limits=BrokerLimits(cache_bytes=4_096, cache_results=4),
)
COORDINATOR = CoordinatorConfig(
    interval=1.0,
    gone_after=5.0,
    balance_every=5.0,
    limits=CoordinatorLimits(cool_down=10.0, per_second=20.0, migration_timeout=15.0),
)
PLACEMENTS = ("two-choices", "least-loaded", "random", "round-robin")


class ChannelPlan(Struct, eq=False):
    """What a channel of this name finds, also when it is created again.

    ``chance``: of each kind to be found by an execution; ``size``: bytes of a result, by kind.
    """

    name: str
    period: float
    chance: float
    size: dict[str, int]
    push: bool
    retention: float
    feed: bool = False  # the content subscriptions of a feed: ``size`` is by condition


class ClientPlan(Struct, frozen=True):
    """``interests`` are (channel, kind). ``pace`` is what its application takes for a notification, in seconds.

    ``user``: it logs in, as this device; ``rest``: over REST. ``forgetful``: its application keeps no position.
    """

    interests: list[tuple[str, str]]
    pace: float = 0.0
    bandwidth: float = 1e6
    max_pending: int = 1_000
    urls: int = 0  # the number of brokers whose address it knows
    at: int | None = None  # the broker it connects to first, without a coordinator
    user: str = ""
    device: str = ""
    rest: bool = False
    forgetful: bool = False


class Scenario(Struct, frozen=True):
    """``spare`` brokers are not there at the beginning, and may join. ``rules``: who may subscribe to each channel;
    None: everyone."""

    brokers: int
    spare: int
    channels: list[ChannelPlan]
    clients: list[ClientPlan]
    broker: BrokerConfig = BROKER
    coordinator: CoordinatorConfig = COORDINATOR
    capacities: list[float] = field(default_factory=list)  # of each broker
    cluster_gone_after: float = 10.0
    masked: bool = False
    publishing: bool = False
    alone: bool = False  # the coordinator ends for good once everybody is placed
    rules: dict[str, Rule] | None = None

    @property
    def users(self) -> bool:
        return any(client.user for client in self.clients)


def draw(rng: Random) -> Scenario:
    brokers = rng.choice((2, 3, 3, 4))
    spare = rng.choice((0, 1, 1, 2))
    kinds = [chr(ord("p") + number) for number in range(rng.randint(2, 4))]
    channels = [
        ChannelPlan(
            "ABC"[number],
            rng.choice((0.4, 0.8, 1.5, 3.0)),
            rng.uniform(0.3, 1.0),
            {kind: rng.choice((60, 120, 400, 1_500)) for kind in kinds},
            rng.random() < 0.3,
            rng.choice((1e9, 1e9, 30.0, 12.0)),
        )
        for number in range(rng.randint(1, 3))
    ]
    interests = [(channel.name, kind) for channel in channels for kind in kinds]
    tight = rng.random() < 0.15
    clients = [_client(rng, interests, brokers) for _ in range(rng.randint(3, 9))]
    strategy, settings = rng.choice(STRATEGIES)
    placement, most = rng.choice(PLACEMENTS), len(clients) + 2 if tight else 100_000
    capacities = [rng.choice((1.0, 1.0, 1.0, 2.0)) for _ in range(brokers + spare)]
    broker = structs.replace(
        BROKER,
        heartbeat=(heartbeat := rng.choice((2.0, 3.0, 5.0))),
        silence=3 * heartbeat,
        grace=rng.choice((4.0, 12.0, 30.0)),
        buffer_bytes=rng.choice((2_048, 8_192)),
        limits=BrokerLimits(
            connections=most,
            connections_per_address=most,
            cache_results=rng.choice((1, 4, 16)),
            cache_bytes=rng.choice((1_000, 8_000, 100_000)),
        ),
    )
    coordinator = structs.replace(
        COORDINATOR,
        placement=placement,
        strategy=strategy,
        settings=settings,
        interval=rng.choice((0.5, 1.0, 2.0)),
        balance_every=rng.choice((3.0, 6.0)),
        limits=structs.replace(
            COORDINATOR.limits, cool_down=rng.choice((5.0, 15.0)), per_second=rng.choice((1.0, 50.0))
        ),
    )
    return Scenario(
        brokers,
        0 if tight else spare,
        channels,
        clients,
        broker,
        coordinator,
        capacities,
        rng.choice((4.0, 15.0)),
        masked=rng.random() < 0.25,
        publishing=True,
    )


def another_client(rng: Random, scenario: Scenario) -> ClientPlan:
    interests = [(channel.name, kind) for channel in scenario.channels for kind in channel.size]
    return _client(rng, interests, scenario.brokers)


def _client(rng: Random, interests: list[tuple[str, str]], brokers: int) -> ClientPlan:
    slow = rng.random() < 0.15
    return ClientPlan(
        rng.sample(interests, rng.randint(1, min(3, len(interests)))),
        rng.choice((0.1, 0.5)) if slow else 0.0,
        rng.choice((1e6, 1e6, 1e6, 3_000.0)),
        rng.choice((2, 5)) if slow else 1_000,
        rng.choice((0, 0, 0, 1, brokers)),
    )
