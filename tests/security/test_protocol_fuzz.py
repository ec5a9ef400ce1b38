"""Random messages on the WebSocket, with and without a token: no internal error, no growth, and others are served."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from broker_lab import Broker, Speaker, broker
from websockets.exceptions import ConnectionClosed

from sparkless import Sparkless, sparkless

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

CONNECTIONS, FRAMES = 2_000, 50
#: Bytes that a broker may hold more after the second half of the connections than after the first half.
GROWTH = 16 * 1024 * 1024
#: One valid message of each type; the fuzzer changes them.
VALID: list[dict[str, Any]] = [
    {"type": "hello", "id": 1, "agent": "fuzz"},
    {"type": "subscribe", "id": 2, "channel": "OfKind", "args": ["fire"]},
    {"type": "subscribe", "id": 3, "channel": "Above", "args": {"least": 3}, "after": 0, "subscription": 1},
    {"type": "unsubscribe", "id": 4, "subscription": 1},
    {"type": "publish", "id": 5, "feed": "LocationFeed", "records": [{"user": "a", "lat": 1.0, "lon": 2.0}]},
    {"type": "ack", "subscription": 1, "execution": 1},
    {"type": "migration_failed", "id": 6, "reason": "x"},
    {"type": "ping"},
    {"type": "pong"},
]
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**53,
    2**63,
    2**64,
    1e308,
    -0.5,
    "",
    "x",
    "OfKind",
    "\x00",
    "é" * 300,
]
VALUES += [[], {}, [[]], {"a": {"a": {}}}, ["x"] * 50, {"kind": "fire"}, "1" * 5000, "$" * 70_000]


def mutate(rng: random.Random) -> bytes:
    message = dict(rng.choice(VALID))
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        match rng.randrange(4):
            case 0:
                message[rng.choice(sorted(message))] = rng.choice(VALUES)
            case 1:
                message.pop(rng.choice(sorted(message)), None)
                message = message or {"type": "ping"}
            case 2:
                message[rng.choice(["id", "after", "token", "ticket", "subscriber", "previous_ids", "epoch", "x"])] = (
                    rng.choice(VALUES)
                )
            case _:
                message["type"] = rng.choice(VALID)["type"]
    text = json.dumps(rng.choice([message, message, message, [message] * rng.randrange(1, 5)])).encode()
    if rng.random() < 0.1:  # damaged bytes
        at = rng.randrange(len(text))
        text = text[:at] + bytes([rng.randrange(256)]) + text[at + rng.randrange(3) :]
    return text


def memory(process: int) -> int:
    fields = Path(f"/proc/{process}/statm").read_text().split()
    return int(fields[1]) * 4096


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sparkless, Broker]]:
    folder = tmp_path_factory.mktemp("fuzz")
    with sparkless(folder / "data") as (cluster, url), broker(folder / "b", url) as running:
        yield cluster, running


def token(url: str) -> str:
    who = {"user": "fuzz", "password": "correct horse battery"}
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
        http.post("/registeruser", json=who)
        return str(http.post("/login", json=who).raise_for_status().json()["token"])


def fuzz(url: str, rng: random.Random, hello: dict[str, str]) -> None:
    """One connection: it ends with the broker's close code, or after its frames."""
    speaker = Speaker(url, **hello)
    try:
        for _ in range(FRAMES):
            frame = mutate(rng)
            with suppress(UnicodeDecodeError):
                speaker.socket.send(frame.decode())
        with suppress(TimeoutError):
            while True:
                found = json.loads(speaker.socket.recv(0.05))
                for message in found if isinstance(found, list) else [found]:
                    assert message.get("code") not in ("internal", "failure"), message
    except ConnectionClosed as closed:
        # The close code is lost if frames of this client arrive after it.
        assert closed.rcvd is None or closed.rcvd.code != 1011, f"an internal error: {closed}"
    finally:
        speaker.close()


@pytest.mark.parametrize("known", [False, True], ids=["anonymous", "user"])
def test_random_messages_disturb_no_other_client(
    network: tuple[Sparkless, Broker], exploration_seed: int, known: bool
) -> None:
    cluster, running = network
    rng = random.Random(f"{exploration_seed} {known}")
    kind = f"witness {known}"
    witness = Speaker(running.url)
    witness.ask("subscribe", channel="OfKind", args=[kind])
    hello = {"token": token(running.url)} if known else {}
    half = 0
    for number in range(CONNECTIONS):
        fuzz(running.url, rng, hello)
        if number % 20 == 0:
            cluster.found("OfKind", ([kind], [{"n": number}]))
            assert witness.next("notify", timeout=30)["results"] == [{"n": number}]
        if number == CONNECTIONS // 2:
            half = memory(running.process.pid)
    assert memory(running.process.pid) - half < GROWTH
    witness.close()
