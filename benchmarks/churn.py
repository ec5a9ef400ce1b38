"""Subscribing and unsubscribing all the time, and all subscribers reconnecting at once."""

from __future__ import annotations

import itertools
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import harness
from benchmarks.fanout import processes, servers, wire
from benchmarks.fanout.broker import Tocsin
from benchmarks.fanout.counter import Counter, Opening
from benchmarks.fanout.server import ROOT, Server
from benchmarks.harness import Table, median
from benchmarks.holder import handshake, masked

#: Connections that churn, and pairs of subscribe and unsubscribe that each sends at once.
CONNECTIONS, PAIRS = 50, 1_000
#: Topics that the pairs go through.
TOPICS = 100
#: New subscriptions that one connection requests at once.
AT_ONCE = 100
#: Executions that the reconnecting subscribers missed.
MISSED = 5
#: CPU seconds of the server in a round.
CPU = 1.0
#: Seconds after which the benchmark fails.
TIMEOUT = 60.0


def run(full: bool) -> list[Table]:
    processes.allow_files()
    os.sched_setaffinity(0, {processes.COUNTER_CORE})
    rounds, subscribers = (9, 18_000) if full else (3, 10_000)
    return [pairs(rounds), new(20.0 if full else 8.0), storm(rounds, subscribers)]


# -- existing subscriptions --------------------------------------------------------------------------------------------


def pairs(rounds: int) -> Table:
    table = Table(
        f"Subscribe and unsubscribe, {CONNECTIONS} connections, to {TOPICS} topics that others are subscribed to",
        ["server", "thousand/s", "thousand a CPU second of the server", "answers"],
    )
    kinds: list[type[Server]] = [Tocsin, servers.Redis, servers.Nats, servers.NatsTcp]
    for kind in kinds:
        harness.progress(f"subscribe and unsubscribe: {kind.name}")
        with kind() as server, keeping(server):
            openings = churning(server)
            figures = [churned(server, openings) for _ in range(rounds)]
        one = openings[0].answers > PAIRS
        table.add(kind.name, *(median(column) for column in zip(*figures, strict=True)), "to each" if one else "none")
    table.notes += [
        f"A subscription or its end counts as one. {PAIRS:,} pairs a connection are on their way at once, over a "
        "WebSocket each in a frame of its own; connecting and the handshake are included. Until the last answer: NATS "
        f"answers only the PING after all of them. Medians of {rounds} rounds of {CPU:g} CPU seconds of the server.",
    ]
    return table


@contextmanager
def keeping(server: Server) -> Iterator[None]:
    """One subscriber of every topic stays connected."""
    with Counter(server.endpoint, [server.opening(0, list(range(TOPICS)))], processes.COUNTER_CORE):
        yield


def churning(server: Server) -> list[Opening]:
    topics = list(itertools.islice(itertools.cycle(range(TOPICS)), PAIRS))
    names = [b"t%d" % topic for topic in topics]
    if isinstance(server, Tocsin):
        messages = [b'{"type":"hello","id":0}']
        for place, topic in enumerate(topics):
            messages.append(
                b'{"type":"subscribe","id":%d,"channel":"%b","args":[%d]}' % (place, server.channel.encode(), topic)
            )
            messages.append(b'{"type":"unsubscribe","id":%d,"subscription":%d}' % (place, server.subscription(topic)))
        return [Opening(messages, len(messages))] * CONNECTIONS
    if isinstance(server, servers.Redis):
        words = [wire.redis_command(word, name) for name in names for word in (b"SUBSCRIBE", b"UNSUBSCRIBE")]
        return [Opening(words, len(words))] * CONNECTIONS
    lines = [line % (name, n) for n, name in enumerate(names, 1) for line in (b"SUB %b %d\r\n", b"UNSUB %.0b%d\r\n")]
    return [Opening([wire.NATS_CONNECT, *lines, b"PING\r\n"], 1)] * CONNECTIONS


def churned(server: Server, openings: Sequence[Opening]) -> tuple[float, float]:
    """Thousand a second, and a CPU second of the server."""
    endpoint = server.endpoint
    if isinstance(server, servers.Redis):
        # What both answers end their first line with.
        endpoint = type(endpoint)(endpoint.port, endpoint.marker, b"subscribe\r\n")
    took, done, before = 0.0, 0.0, server.cpu()
    while server.cpu() - before < CPU:
        began = time.monotonic()
        with Counter(endpoint, openings, processes.COUNTER_CORE):
            took += time.monotonic() - began
        done += 2 * PAIRS * len(openings) / 1e3
    return done / took, done / (server.cpu() - before)


# -- subscriptions new to the data cluster -----------------------------------------------------------------------------


class Churner:
    """A connection that subscribes with these arguments, JSON arrays, and unsubscribes again, without end."""

    def __init__(self, server: Tocsin, arguments: Iterator[bytes], hello: bytes = b'{"type":"hello","id":0}') -> None:
        self._channel, self._arguments = server.channel.encode(), arguments
        self.socket = handshake(server.endpoint)
        self.socket.sendall(masked(hello))
        self._received = b""
        while b'"welcome"' not in self._received:
            self._received += self.socket.recv(65_536)
        self._received, self._answer = b"", b'"type":"subscribed"'
        self.done = 0

    def subscribe(self) -> None:
        message = b'{"type":"subscribe","id":1,"channel":"%b","args":%b}'
        self.socket.sendall(b"".join(masked(message % (self._channel, next(self._arguments))) for _ in range(AT_ONCE)))
        self._answer = b'"type":"subscribed"'

    def step(self) -> bool:
        """Reads; once all answers are there, sends the opposite requests. True at the end of a pair."""
        piece = self.socket.recv(1 << 20)
        if not piece or b'"type":"error"' in piece:
            raise RuntimeError(f"the broker ended it: {(self._received + piece)[-500:]!r}")
        self._received += piece
        if self._received.count(self._answer) < AT_ONCE:
            return False
        received, self._received = self._received, b""
        self.done += AT_ONCE
        if self._answer == b'"type":"unsubscribed"':
            return True
        numbers = re.findall(rb'"subscription":(\d+)', received)
        message = b'{"type":"unsubscribe","id":1,"subscription":%b}'
        self.socket.sendall(b"".join(masked(message % number) for number in numbers))
        self._answer = b'"type":"unsubscribed"'
        return False


def churn(all_of: Sequence[Churner], more: Callable[[], bool]) -> None:
    """Each begins another pair as long as there are to be ``more``."""
    by_number = {each.socket.fileno(): each for each in all_of}
    poll = select.epoll()
    for number, each in by_number.items():
        poll.register(number, select.EPOLLIN)
        each.subscribe()
    busy = len(all_of)
    while busy:
        ready = poll.poll(TIMEOUT)
        if not ready:
            raise RuntimeError(f"{busy} connections wait for answers in vain")
        for number, _ in ready:
            if by_number[number].step():
                if more():
                    by_number[number].subscribe()
                else:
                    busy -= 1


def new(seconds: float) -> Table:
    table = Table(
        f"Subscribe and unsubscribe, {CONNECTIONS} connections, each subscription new to the data cluster",
        ["thousand/s", "CPU, broker", "CPU, data cluster", "commits/s", "subscriptions a commit", "removed after, s"],
    )
    harness.progress("subscribe and unsubscribe: each new")
    with data_cluster() as (url, pid), Tocsin(cluster=url, grace=0) as server:
        fresh = (b"[%d]" % number for number in itertools.count())
        all_of = [Churner(server, fresh) for _ in range(CONNECTIONS)]
        commits, spent = committed(url), (server.cpu(), harness.cpu_seconds(pid))
        began = time.monotonic()
        churn(all_of, lambda: time.monotonic() - began < seconds)
        took = time.monotonic() - began
        used = [
            (after - before) / took
            for before, after in zip(spent, (server.cpu(), harness.cpu_seconds(pid)), strict=True)
        ]
        made = committed(url) - commits
        while left := held(url):
            if time.monotonic() - began - took > TIMEOUT:
                raise RuntimeError(f"{left:,} subscriptions were never removed")
            time.sleep(0.01)
        after = time.monotonic() - began - took
        done = sum(each.done for each in all_of)
        for each in all_of:
            each.socket.close()
    table.add(done / took / 1e3, *(f"{each:.0%}" for each in used), made / took, done / 2 / made, after)
    table.notes += [
        f"Each connection asks for {AT_ONCE} at once, and unsubscribes when all are there. The broker asks the data "
        "cluster once for all that arrived during its last request, and removes unused subscriptions once a second.",
        "The data cluster and the client share a core. Removed: from the last answer until the data cluster has none.",
    ]
    return table


@contextmanager
def data_cluster() -> Iterator[tuple[str, int]]:
    """A data cluster in a process of its own: its address and process id."""
    folder = Path(tempfile.mkdtemp(prefix="tocsin-churn-"))
    (port,) = processes.free_ports(1)
    command = processes.bound(
        [sys.executable, str(ROOT / "tests" / "sparkless.py"), str(folder), str(port)], processes.COUNTER_CORE
    )
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}", "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"], process.pid
    finally:
        processes.end(process)
        shutil.rmtree(folder, ignore_errors=True)


def held(url: str) -> int:
    """BE subscriptions that the data cluster has."""
    with urllib.request.urlopen(f"{url}/channels/Above", timeout=60) as answer:
        return int(json.load(answer)["subscriptions"])


def committed(url: str) -> int:
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return round(float(next(line.split()[1] for line in lines if line.startswith("tocsin_commit_seconds_count"))))


# -- all subscribers at once -------------------------------------------------------------------------------------------


def storm(rounds: int, subscribers: int) -> Table:
    table = Table(
        f"{subscribers:,} subscribers reconnect at once",
        ["server", "gets", "s until the last has it", "thousand/s", "CPU of the server, ms each"],
    )
    for what, missed, kept in (
        ("subscribed", 0, 64),
        (f"{MISSED} missed, from recent results", MISSED, 64),
        (f"{MISSED} missed, from the data cluster", MISSED, MISSED - 1),
    ):
        harness.progress(f"all reconnect: Tocsin, {what}")
        with Tocsin(limits_cache_results=kept) as server:
            away(server, [server.opening(0, [0])] * subscribers)
            figures = [returned(server, resuming(server, subscribers, missed), missed) for _ in range(rounds)]
            add(table, server.name, what, subscribers, figures)
    for kind in (servers.Redis, servers.Nats):
        harness.progress(f"all reconnect: {kind.name}")
        with kind() as peer:
            openings = [peer.opening(number, [0]) for number in range(subscribers)]
            away(peer, openings)
            add(table, peer.name, "subscribed", subscribers, [returned(peer, openings, 0) for _ in range(rounds)])
    table.notes += [
        "All were connected and then disconnected; each connects (except for Redis with the WebSocket's handshake), "
        "says hello and subscribes, 256 at a time. Those of Tocsin name their last execution and get the later ones; "
        f"with Redis and NATS missed messages are lost. Medians of {rounds}.",
    ]
    return table


def add(table: Table, name: str, what: str, subscribers: int, figures: list[tuple[float, float]]) -> None:
    took, spent = (median(column) for column in zip(*figures, strict=True))
    table.add(name, what, took, subscribers / took / 1e3, spent / subscribers * 1e3)


def resuming(server: Tocsin, subscribers: int, missed: int) -> list[Opening]:
    """Openings of subscribers that have all but the last ``missed`` executions."""
    after = server.cluster.position(server.channel)
    if missed:
        # One connected subscriber shows when the broker has them.
        with Counter(server.endpoint, [server.opening(0, [0])], processes.COUNTER_CORE) as here:
            here.expect(missed)
            for _ in range(missed):
                server.cluster.found(server.channel, ([0], [{"payload": "x" * 200}]))
            here.met()
    message = b'{"type":"subscribe","id":1,"channel":"%b","args":[0],"after":%d,"subscription":%d}'
    words = [b'{"type":"hello","id":0}', message % (server.channel.encode(), after, server.subscription(0))]
    return [Opening(words, len(words))] * subscribers


def away(server: Server, openings: Sequence[Opening]) -> None:
    """Connects all subscribers and disconnects them."""
    with Counter(server.endpoint, openings, processes.COUNTER_CORE):
        pass


def returned(server: Server, openings: Sequence[Opening], missed: int) -> tuple[float, float]:
    """Seconds until the last has all, CPU seconds of the server."""
    spent, began = server.cpu(), time.monotonic()
    with Counter(server.endpoint, openings, processes.COUNTER_CORE) as counter:
        if missed:
            counter.expect(missed * len(openings))
            counter.met()
        return time.monotonic() - began, server.cpu() - spent


if __name__ == "__main__":
    harness.main("churn", run)
