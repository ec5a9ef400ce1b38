"""A data cluster without Spark, a coordinator and a broker as real processes, shared by tests that do not stop them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

for folder in ("broker", "coordinator"):
    sys.path.append(str(Path(__file__).parent.parent / folder))

from address_limits import CONNECTIONS, PLACEMENTS  # noqa: E402
from broker_lab import Broker, broker  # noqa: E402
from coordinator_lab import Coordinator, coordinator  # noqa: E402

from sparkless import Sparkless, sparkless  # noqa: E402

APP = "https://app.example.org"
#: A proxy on this machine may name the address of a client.
PROXIES = ["127.0.0.1"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sparkless, str]]:
    with sparkless(tmp_path_factory.mktemp("data")) as found:
        yield found


@pytest.fixture(scope="module")
def network_coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    settings = {"origins": [APP], "trusted_proxies": PROXIES, "limits": {"placements": PLACEMENTS}}
    with coordinator(tmp_path_factory.mktemp("coordinator"), **settings) as found:
        yield found


@pytest.fixture(scope="module")
def network_broker(
    data: tuple[Sparkless, str], network_coordinator: Coordinator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    options = ("--coordinator", network_coordinator.url)
    settings = {"origins": [APP], "trusted_proxies": PROXIES, "limits_connections_per_address": CONNECTIONS}
    with broker(tmp_path_factory.mktemp("broker"), data[1], "b", *options, **settings) as found:
        yield found


@pytest.fixture(scope="module")
def servers(data: tuple[Sparkless, str], network_coordinator: Coordinator, network_broker: Broker) -> dict[str, str]:
    """Addresses by name."""
    return {
        "data cluster": data[1],
        "coordinator": network_coordinator.url,
        "broker": network_broker.url,
        "inner port": network_broker.facts["inside"],
    }
