"""Brokers as real processes that balance among themselves: the coordinator places the clients, and is then killed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from process_network import Network, counts, looped, network
from rest_user import PASSWORD

FAST = {"balance_every": 0.5, "exchange_every": 0.3, "cool_down": 1.0}
PEERS: dict[str, Any] = {
    "balancing_mode": "peers",
    "of_brokers": {"balancing_mode": "peers", "balancing_settings": FAST},
}

ANN = {"user": "ann", "password": PASSWORD}

Views = dict[str, dict[str, Any]]


async def views(net: Network) -> Views:
    """What each running broker says about balancing."""
    async with httpx.AsyncClient(timeout=60) as http:
        running = [(name, each.url) for name, each in net.brokers.items() if not each.killed]
        return {name: (await http.get(url + "/balancing")).json() for name, url in running}


async def flow(net: Network, until: Callable[[Views], bool]) -> Views:
    """Runs executions until the brokers' views meet the condition."""
    found = await views(net)
    while not until(found):
        await asyncio.to_thread(net.execute, 2)
        found = await views(net)
    return found


def know_each_other(found: Views) -> bool:
    return all(len(each["peers"]) == len(found) - 1 for each in found.values())


def spread(found: Views) -> bool:
    return all(each["subscribers"] >= 2 for each in found.values()) and not any(map(busy, found.values()))


def busy(view: dict[str, Any]) -> bool:
    return bool(view["sessions"] or view["leaving"] or view["arriving"])


@looped
async def test_brokers_balance_without_a_coordinator(tmp_path: Path) -> None:
    async with network(tmp_path, "a", **PEERS) as net:
        await net.join(12)
        await net.start("b", "c")
        await flow(net, know_each_other)
        net.coordinator.kill()
        found = await flow(net, spread)
        assert sum(each["subscribers"] for each in found.values()) == 12
        assert sum(each["migrated"] for each in found.values()) >= 4
        await net.check_all_received()
        # No client was disconnected: each connected to its target before it left its source.
        assert all(client.status.connects == 1 + client.status.migrations for client in net.clients)


@looped
async def test_nothing_is_lost_when_a_broker_is_killed_in_the_middle_of_a_session(tmp_path: Path) -> None:
    async with network(tmp_path, "a", **PEERS) as net:
        await net.join(12)
        await net.start("b", "c")
        await flow(net, know_each_other)
        await net.know_alternatives()
        net.coordinator.kill()
        found = await flow(net, lambda found: any(each["leaving"] for each in found.values()))
        target = next(name for name, each in found.items() if each["arriving"] or name != "a")
        net.brokers[target].kill()
        await flow(net, spread)
        await net.check_all_received()


@pytest.mark.slow
@looped
async def test_a_restarted_broker_remembers_the_others_and_is_drained_by_its_operator(tmp_path: Path) -> None:
    async with network(tmp_path, "a", "b", **PEERS) as net:
        await net.join(8)
        await flow(net, know_each_other)
        await net.know_alternatives()
        net.coordinator.kill()
        net.brokers["b"].kill()
        await asyncio.to_thread(net.brokers["b"].start)
        found = await flow(net, lambda found: spread(found) and know_each_other(found))
        assert sum(each["subscribers"] for each in found.values()) == 8
        net.brokers["b"].process.send_signal(signal.SIGUSR1)
        await flow(net, lambda found: found["b"]["subscribers"] == 0 and not busy(found["b"]))
        await net.check_all_received()


@pytest.mark.slow
@looped
async def test_a_user_with_a_token_migrates_while_the_coordinator_is_up(tmp_path: Path) -> None:
    async with network(tmp_path, "a", **PEERS) as net:
        async with httpx.AsyncClient(timeout=60) as http:
            answer = await http.post(f"{net.coordinator.url}/registeruser", json=ANN)
            assert answer.status_code == 201, answer.text
        await net.join(6, **ANN)
        await net.start("b")
        found = await flow(net, lambda found: know_each_other(found) and spread(found))
        assert found["a"]["migrated"] >= 2
        await net.check_all_received()
        await net.until(lambda top: counts(top).get("b", 0) >= 2)
