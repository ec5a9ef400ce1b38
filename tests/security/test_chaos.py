"""Everything fails at once, under load: no subscriber loses or repeats a result, and all is well a minute after."""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path

import httpx
import pytest
from chaos_load import KINDS, PASSWORD, Load
from chaos_network import ChaosNetwork, faults

from postgres import Server

SECONDS = float(os.environ.get("TOCSIN_CHAOS_SECONDS", "1800"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 1200)]


def register(network: ChaosNetwork, *names: str) -> None:
    for name in names:
        body = {"user": name, "password": PASSWORD}
        answer = httpx.post(f"{network.coordinator.url}/registeruser", json=body, timeout=60, trust_env=False)
        assert answer.status_code in (200, 201), answer.text


async def campaign(network: ChaosNetwork, rng: random.Random) -> Load:
    """Breaks one part after the other until the time is over, then waits until all parts are healthy."""
    load = Load(network, rng)
    tasks = [asyncio.create_task(load.subscribe(f"anonymous {kind}", kind)) for kind in KINDS]
    for name, kind in zip(("ann", "bob", "cleo"), KINDS, strict=True):
        tasks.append(asyncio.create_task(load.subscribe(name, kind, user=name, password=PASSWORD)))
    tasks.append(asyncio.create_task(load.poll("rest", KINDS[0])))
    tasks.append(asyncio.create_task(load.subscribe("damaged", KINDS[1], "Damaged")))
    for _ in tasks:
        await load.ready.acquire()
    publisher, attacker = asyncio.create_task(load.publish()), asyncio.create_task(load.attack())
    known, begin = faults(network), time.monotonic()
    try:
        while (spent := time.monotonic() - begin) < SECONDS:
            name = rng.choice(sorted(known))
            lasting = rng.uniform(1, 15)
            print(f"{spent:6.0f} s  {name}, for {lasting:.0f} s", flush=True)
            break_it, mend = known[name]
            await asyncio.to_thread(break_it)
            await asyncio.sleep(lasting)
            await asyncio.to_thread(mend)
            await asyncio.sleep(rng.uniform(0, 12))
            await asyncio.to_thread(network.restart_ended)
            for task in [*tasks, publisher, attacker]:
                assert not task.done() or task.exception() is None, task.exception()
        await asyncio.to_thread(network.ready, 60)
        load.stopped.set()
        await publisher
        await attacker
        await settle(load)
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
    with Server() as postgres:
        network = ChaosNetwork(tmp_path, postgres)
        try:
            network.ready(180)
            network.define()
            register(network, "ann", "bob", "cleo", "rest")
            load = asyncio.run(campaign(network, random.Random(exploration_seed)))
        finally:
            network.end()
    for name, kind in load.kinds.items():
        got, expected = load.received[name], load.published[kind]
        lost, repeated = sorted(set(expected) - set(got)), len(got) - len(set(got))
        print(f"{name}: {len(got)} of {len(expected)} received, {repeated} repeated, {load.gaps[name]} gaps announced")
        assert not repeated, name
        if name == "damaged":
            assert len(lost) == 0 or load.gaps[name], "what a damaged file lost is announced as a gap"
        else:
            assert (lost, load.gaps[name]) == ([], 0), name
