"""Everything fails at once, under load: no subscriber loses or repeats a result, and all is well a minute after."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
from chaos_load import KINDS, PASSWORD, Load
from chaos_network import REPAIR, ChaosNetwork, chaos_network, faults

SECONDS = float(os.environ.get("TOCSIN_CHAOS_SECONDS", "1800"))
#: Seconds after which everything must be healthy again; on a machine that does other work too, Spark starts slowly.
HEALTHY = float(os.environ.get("TOCSIN_CHAOS_HEALTHY", "60"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 1200)]


def register(network: ChaosNetwork, *names: str) -> None:
    for name in names:
        body = {"user": name, "password": PASSWORD}
        answer = httpx.post(f"{network.coordinator.url}/registeruser", json=body, timeout=60, trust_env=False)
        assert answer.status_code in (200, 201), answer.text


async def campaign(network: ChaosNetwork, rng: random.Random) -> Load:
    """Breaks parts, one or several at a time, until the time is over; then waits until all of them are healthy."""
    load = Load(network, rng)
    tasks = [asyncio.create_task(load.subscribe(f"anonymous {kind}", kind)) for kind in KINDS]
    for name, kind in zip(("ann", "bob", "cleo"), KINDS, strict=True):
        tasks.append(asyncio.create_task(load.subscribe(name, kind, user=name, password=PASSWORD)))
    tasks.append(asyncio.create_task(load.poll("rest", KINDS[0])))
    tasks.append(asyncio.create_task(load.stream("events", KINDS[2])))
    tasks.append(asyncio.create_task(load.subscribe("damaged", KINDS[1], "Damaged")))
    for _ in tasks:
        await load.ready.acquire()
    publisher, attacker = asyncio.create_task(load.publish()), asyncio.create_task(load.attack())
    tasks.append(asyncio.create_task(load.publish_to_victims()))
    known, begin = faults(network), time.monotonic()
    counted: Counter[str] = Counter()
    try:
        while (spent := time.monotonic() - begin) < SECONDS:
            names = rng.sample(sorted(known), rng.choice([1, 1, 1, 2, 2, 3]))
            lasting = rng.uniform(1, 15)
            print(f"{spent:6.0f} s  {', '.join(names)}, for {lasting:.0f} s", flush=True)
            counted.update(names)
            for name in names:
                await asyncio.to_thread(known[name].begin)
            await asyncio.sleep(lasting)
            for name in names:
                await asyncio.to_thread(known[name].end)
            await asyncio.sleep(rng.uniform(0, 12))
            await asyncio.to_thread(network.restart_ended)
            for task in [*tasks, publisher, attacker]:
                assert not task.done() or task.exception() is None, task.exception()
        seconds = await asyncio.to_thread(network.ready, HEALTHY)
        print(f"{sum(counted.values())} faults: {dict(sorted(counted.items()))}; healthy after {seconds:.0f} s")
        load.stopped.set()
        await publisher
        await attacker
        await settle(load)
        answer = await asyncio.to_thread(network.run, REPAIR)
        assert answer.status_code == 200, answer.text
    finally:
        for task in [*tasks, publisher, attacker]:
            task.cancel()
        await asyncio.gather(*tasks, publisher, attacker, return_exceptions=True)
    return load


async def settle(load: Load) -> None:
    """Returns when every subscriber has the last record of its kind, or after two minutes."""
    for _ in range(240):
        lagging = [
            name
            for name, kind in load.kinds.items()
            if name != "damaged" and load.published[kind][-1] not in load.received[name][-50:]
        ]
        if not lagging:
            return
        await asyncio.sleep(0.5)


def test_nothing_is_lost_or_repeated_while_everything_fails(tmp_path: Path, exploration_seed: int) -> None:
    rng = random.Random(exploration_seed)
    with chaos_network(tmp_path, sqlite=exploration_seed % 2 == 0) as network:
        network.ready(900)
        network.define()
        register(network, "ann", "bob", "cleo", "rest")
        load = asyncio.run(campaign(network, rng))
    problems = []
    for name, kind in load.kinds.items():
        got, expected = load.received[name], load.published[kind]
        lost, repeated = sorted(set(expected) - set(got)), len(got) - len(set(got))
        print(f"{name}: {len(got)} of {len(expected)} received, {repeated} repeated, {load.gaps[name]} gaps announced")
        # What a damaged file loses is announced as a gap.
        announced = name == "damaged" and load.gaps[name] > 0
        if repeated or (lost and not announced) or (load.gaps[name] and name != "damaged"):
            problems.append(f"{name}: lost {lost[:20]}, {repeated} repeated, {load.gaps[name]} gaps")
    assert not problems, problems
