"""Coordinator, brokers and clients as real processes: brokers join, leave and die, and no notification is lost."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from process_network import counts, looped, network, states


@looped
async def test_subscribers_are_spread_and_a_joining_broker_takes_its_share(tmp_path: Path) -> None:
    async with network(tmp_path, "a", "b") as net:
        await net.join(12)
        top = await net.until(lambda top: sum(counts(top).values()) == 12)
        assert min(counts(top).values()) >= 2
        await net.start("c")
        top = await net.flow(lambda top: counts(top)["c"] >= 2 and top["pending"] == 0)
        assert sum(counts(top).values()) == 12
        await net.check_all_received()


@looped
async def test_subscribers_of_a_killed_broker_connect_to_other_brokers(tmp_path: Path) -> None:
    async with network(tmp_path, "a", "b", "c", gone_after=4.0) as net:
        await net.join(12)
        net.execute(5)
        net.brokers["a"].kill()
        top = await net.flow(lambda top: states(top)["a"] == "gone" and sum(counts(top).values()) == 12)
        assert set(counts(top)) == {"b", "c"}
        await net.check_all_received()


@looped
async def test_a_drained_broker_is_emptied_without_losing_a_connection(tmp_path: Path) -> None:
    async with network(tmp_path, "a", "b", "c") as net:
        await net.join(12)
        net.execute(5)
        await net.post("/brokers/a/drain")
        top = await net.flow(lambda top: counts(top)["a"] == 0 and top["pending"] == 0)
        assert states(top)["a"] == "draining" and sum(counts(top).values()) == 12
        await net.check_all_received()
        # No client was disconnected: each connected to its target before it left its source.
        assert all(client.status.connects == 1 + client.status.migrations for client in net.clients)
        await net.post("/brokers/a/undrain")
        assert states(await net.topology())["a"] == "up"


@looped
async def test_a_rolling_restart_loses_nothing_and_ends_balanced(tmp_path: Path) -> None:
    async with network(tmp_path, "a", "b", "c") as net:
        await net.join(12)
        net.execute(5)
        for name in ("a", "b", "c"):
            await net.post(f"/brokers/{name}/drain")
            await net.flow(lambda top, name=name: counts(top)[name] == 0 and top["pending"] == 0)
            await asyncio.to_thread(net.brokers[name].end)
            await net.start(name, draining=True)
            await net.post(f"/brokers/{name}/undrain")
        top = await net.flow(lambda top: min(counts(top).values()) >= 2 and top["pending"] == 0)
        assert sum(counts(top).values()) == 12
        await net.check_all_received()


@looped
async def test_subscribers_get_everything_while_the_coordinator_is_down(tmp_path: Path) -> None:
    async with network(tmp_path, "a", "b", gone_after=4.0) as net:
        await net.join(8)
        net.coordinator.kill()
        net.execute(5)
        net.brokers["a"].kill()  # its clients know the other broker
        await asyncio.to_thread(net.execute, 20)
        net.coordinator.start()
        await net.flow(lambda top: counts(top) == {"b": 8})
        await net.check_all_received()


@looped
async def test_clients_connect_to_another_broker_while_theirs_and_the_coordinator_are_dead(tmp_path: Path) -> None:
    async with network(tmp_path, "a", "b") as net:
        await net.join(6)
        await net.know_alternatives()
        net.coordinator.kill()
        net.brokers["a"].kill()
        await net.check_all_received()
        assert {client.status.broker for client in net.clients} == {"b"}


@looped
async def test_clients_leave_a_broker_that_hangs_within_seconds(tmp_path: Path) -> None:
    async with network(tmp_path, "a", "b") as net:
        await net.join(6)
        await net.know_alternatives()
        assert {client.status.broker for client in net.clients} == {"a", "b"}
        net.brokers["a"].process.send_signal(signal.SIGSTOP)
        try:
            async with asyncio.timeout(20):  # three heartbeats of a second, and the coordinator still calls it up
                await net.check_all_received()
        finally:
            net.brokers["a"].process.send_signal(signal.SIGCONT)
        assert {client.status.broker for client in net.clients} == {"b"}
