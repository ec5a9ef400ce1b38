"""Brokers die, join, are drained and restarted while notifications flow; NATS for comparison."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.fanout import processes
from benchmarks.fanout.server import ROOT
from benchmarks.harness import Table, p99, percentile
from benchmarks.nats_cluster import SERVERS, NatsCluster
from benchmarks.subscribers import EACH, KINDS, PARTS, turn
from tocsin.balancing.strategies import registry

BROKERS, SUBSCRIBERS, MOST = 10, 300, 1_000
#: Executions a second.
RATE = 4.0
#: Processes that the subscribers are spread over.
CROWDS = 2
#: Seconds that the network has to stay balanced, and after which a phase counts as never balanced.
STEADY, TIMEOUT = 3.0, 60.0
#: Seconds until the first regrouping is over: it has to pay in several evaluations, after the load was measured.
REGROUPED = 120.0
#: Seconds that a late notification is waited for before it is lost.
LATE = 30.0
ALPHA = registry.parameters("multistage")["alpha"]
PHASES = ("start", "regroup", "quiet", "kill", "join", "drain", "undrain", "rolling restart")
HEARTBEAT = 2
#: Seconds in which a migrated subscriber is not migrated again, and that pass before the next phase.
COOL_DOWN = 15
SETTINGS = {"INTERVAL": 0.5, "BALANCE_EVERY": 1, "GONE_AFTER": 4, "LIMITS_COOL_DOWN": COOL_DOWN}

COLUMNS = (
    "phase",
    "s until balanced",
    "s until at rest",
    "migrated live",
    "reconnected after a disconnection",
    "notifications",
    "p50, ms",
    "p99, ms",
    "longest, ms",
    "lost",
    "duplicated",
    "max/mean subscribers",
    "cov of subscribers",
    "cov of load",
)

#: Seconds until balanced, and until at rest.
Took = tuple[float | None, float | None]


@dataclass
class Phase:
    """What one phase did to the subscribers."""

    name: str
    balanced: float | None
    rest: float | None
    migrations: int
    reconnects: int
    dropped: int
    lost: int
    duplicated: int
    delays: list[float] = field(repr=False)
    spread: list[int]
    cov: float | None = None

    def cells(self) -> list[Any]:
        delays = [percentile(self.delays, 50), p99(self.delays), max(self.delays)] if self.delays else [None] * 3
        mean = statistics.mean(self.spread)
        uneven = [max(self.spread) / mean, statistics.pstdev(self.spread) / mean, self.cov]
        counts = [self.migrations, self.reconnects, len(self.delays)]
        return [self.name, self.balanced, self.rest, *counts, *delays, self.lost, self.duplicated, *uneven]


def run(full: bool) -> list[Table]:
    processes.allow_files()
    subscribers = MOST if full else SUBSCRIBERS
    return [tocsin_table(BROKERS, subscribers), nats_table(subscribers)]


def tocsin_table(brokers: int, subscribers: int) -> Table:
    table = Table(f"Tocsin: {brokers} brokers, {subscribers:,} subscribers, {EACH} subscriptions each", COLUMNS)
    found = tocsin(brokers, subscribers, PHASES)
    for phase in found:
        table.add(*phase.cells())
    table.notes += [
        f"{RATE:g} executions a second, each with a row for {len(KINDS) // PARTS} of the {len(KINDS)} different "
        f"subscriptions in turn: {RATE / PARTS:g} notifications a second for each. A delay is from before the commit "
        "of the execution, which is in the row, to the application that uses the SDK.",
        f"Balanced: all are connected, cov of load is below alpha ({ALPHA:g}), and it stays so until the end. At "
        f"rest: no migration is pending either, for {STEADY:g} s, which do not count. A dash: not within "
        f"{TIMEOUT:g} s; in quiet there is nothing to wait for.",
        "start: from the first notification, by which load is measured. regroup: subscribers with the same interests "
        f"are brought together; until that was done once, {REGROUPED:g} s at most. kill: SIGKILL; join: one more, from "
        "the moment it is ready; drain: until it is empty. kill and drain take the broker with the most subscribers. "
        "Restart: drain, stop, start, undrain, one broker after the "
        f"other; the time is from the first drain. {COOL_DOWN} s after each have passed before the next.",
        f"Dropped by the SDK because it had them already: {sum(phase.dropped for phase in found):,}.",
        "Coordinator: " + ", ".join(f"{key.lower()} {value:g}" for key, value in SETTINGS.items()) + ", else defaults. "
        f"Brokers: heartbeat {HEARTBEAT} s. "
        f"The data cluster is without Spark; the {brokers} brokers, coordinator, data cluster and subscribers "
        f"({CROWDS} processes) share all cores.",
    ]
    return table


def nats_table(subscribers: int) -> Table:
    left_out = {"s until at rest", "migrated live", "cov of load"}
    places = [place for place, name in enumerate(COLUMNS) if name not in left_out]
    table = Table(
        f"NATS: {SERVERS} servers in a cluster, {subscribers:,} connections, {EACH} subscriptions each",
        ["s until connected" if COLUMNS[place] == "s until balanced" else COLUMNS[place] for place in places],
    )
    phases, version = nats(subscribers)
    for phase in phases:
        cells = phase.cells()
        table.add(*(cells[place] for place in places))
    table.notes += [
        f"nats-server {version}, core NATS over plain TCP; the same subscriptions, rows and rate, from the same client "
        "processes. Live connections are never migrated, so that there is no balance to wait for: until all clients "
        "are connected. Message loss is by design: at most once, nothing is kept for offline clients (JetStream does).",
        "Clients have a shuffled list of all servers, try the next one at once, and pause 2 s after all failed. "
        "kill: SIGKILL; join: the killed one is back; restart: SIGTERM (no lame duck mode) and start, one after the "
        f"other, continuing when all have been connected for {STEADY:g} s, which count. The publisher connects to "
        "another server before each.",
        "The loss depends on whether a message is sent while clients are offline: one run, "
        f"{RATE:g} messages a second. Delays are not those of the same work: Tocsin commits each execution to disk and "
        "brokers fetch it, NATS keeps nothing.",
    ]
    return table


# -- what both share ---------------------------------------------------------------------------------------------------


class Flow:
    """Messages all the time, numbered, from a thread of its own."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self.last, self._send, self._error = 0, send, None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        due = time.monotonic()
        try:
            while not self._end.wait(max(0.0, due - time.monotonic())):
                row = {"n": self.last + 1, "at": time.monotonic_ns(), "text": "x" * 200}
                self._send(row)
                self.last += 1
                due = max(due + 1 / RATE, time.monotonic() - 1)
        except Exception as error:  # shown by the thread that waits for the next one
            self._error = error

    def next(self) -> int:
        """The number of the last message, after one more was sent."""
        number, end = self.last + 1, time.monotonic() + 60
        while self.last < number:
            if self._error is not None or time.monotonic() > end:
                raise RuntimeError("nothing is sent any more") from self._error
            time.sleep(0.02)
        return self.last

    def close(self) -> None:
        self._end.set()
        self._thread.join(10)


class Crowds:
    """The processes of the subscribers."""

    def __init__(self, held: ExitStack, kind: str, address: str, subscribers: int, count: int) -> None:
        self._all, share = [], -(-subscribers // count)
        for first in range(0, subscribers, share):
            words = [kind, address, str(first), str(min(share, subscribers - first))]
            command = processes.bound([sys.executable, "-m", "benchmarks.subscribers", *words], None)
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            process = subprocess.Popen(command, **pipes, env=environment(), cwd=ROOT)
            held.callback(processes.end, process)
            self._all.append(process)
        self._answers()

    def ask(self, **command: Any) -> list[dict[str, Any]]:
        for process in self._all:
            process.stdin.write(json.dumps(command).encode() + b"\n")
            process.stdin.flush()
        return self._answers()

    def status(self) -> dict[str, int]:
        answers = self.ask(status=True)
        return {key: sum(answer[key] for answer in answers) for key in answers[0]}

    def _answers(self) -> list[dict[str, Any]]:
        lines = [process.stdout.readline() for process in self._all]
        if not all(lines):
            raise RuntimeError("the subscribers have ended")
        return [json.loads(line) for line in lines]


class Measuring:
    """Cuts the flow into phases."""

    def __init__(self, crowds: Crowds, flow: Flow, late: float) -> None:
        self._crowds, self._flow, self._late = crowds, flow, late
        self._reported, self._before = 0, crowds.status()

    def phase(self, name: str, took: Took, spread: list[int], cov: float | None = None) -> Phase:
        last = self._flow.next()
        answers = self._crowds.ask(report=[self._reported + 1, last], timeout=self._late)
        status, before = self._crowds.status(), self._before
        self._reported, self._before = last, status
        since = {key: status[key] - before[key] for key in ("migrations", "reconnects", "dropped")}
        lost, duplicated = (sum(answer[key] for answer in answers) for key in ("lost", "duplicated"))
        delays = [delay for answer in answers for each, count in answer["delays"] for delay in [each] * count]
        found = Phase(name, *took, **since, lost=lost, duplicated=duplicated, delays=delays, spread=spread, cov=cov)
        harness.progress(" | ".join(harness.text(cell) for cell in found.cells()))
        return found


def environment(**more: str) -> dict[str, str]:
    """The settings of the machine don't reach what is measured."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    return kept | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}:{ROOT}"} | more


def until(condition: Callable[[], bool], began: float, steady: float, timeout: float) -> float | None:
    """Seconds until the condition holds and continues to hold; None if that takes too long."""
    since = None
    while (now := time.monotonic()) - began < timeout + steady:
        if not condition():
            since = None
        elif since is None:
            since = now
        elif now - since >= steady:
            return since - began
        time.sleep(0.1)
    return None


# -- Tocsin ------------------------------------------------------------------------------------------------------------


class Network:
    """A data cluster, a coordinator and brokers by name, all of them processes."""

    def __init__(self, folder: Path, held: ExitStack) -> None:
        self.folder, self._held = folder, held
        self._read, self._rests = 0, False
        self.brokers: dict[str, tuple[subprocess.Popen[bytes], int]] = {}
        words = [str(ROOT / "tests" / "sparkless.py"), str(folder / "data"), "0"]
        self._cluster = self._launch("data", words, stdin=subprocess.PIPE)
        self._cluster_url = self._line(self._cluster, "data")["url"]
        words = ["-m", "tocsin.cli", "coordinator", "--json", "--home", str(folder / "coordinator"), "--port", "0"]
        settings = {f"TOCSIN_COORDINATOR_{key}": str(value) for key, value in SETTINGS.items()}
        self.url = self._line(self._launch("coordinator", words, settings), "coordinator")["url"]

    def _launch(self, name: str, words: Sequence[str], env: dict[str, str] | None = None, **pipes: Any) -> Any:
        command = processes.bound([sys.executable, *words], None)
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env=environment(**env or {}), **pipes
            )
        self._held.callback(processes.end, process)
        return process

    def _line(self, process: Any, name: str) -> dict[str, Any]:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} has ended: {(self.folder / f'{name}.log').read_text()[-2000:]}")
        return json.loads(line)

    def start(self, *names: str, state: str = "up") -> None:
        started = {}
        for name in names:
            port = self.brokers[name][1] if name in self.brokers else 0
            words = ["-m", "tocsin.cli", "broker", "--json", "--name", name, "--cluster", self._cluster_url]
            words += ["--home", str(self.folder / name), "--coordinator", self.url, "--port", str(port)]
            started[name] = self._launch(name, words, {"TOCSIN_BROKER_HEARTBEAT": str(HEARTBEAT)})
        for name, process in started.items():
            while (said := self._line(process, name))["event"] != "ready":
                pass
            self.brokers[name] = process, int(said["url"].rpartition(":")[2])
        if until(lambda: all(self.states().get(name) == state for name in names), time.monotonic(), 0.0, 60.0) is None:
            raise RuntimeError(f"the coordinator does not know of {', '.join(names)}")

    def kill(self, name: str) -> None:
        self.brokers[name][0].kill()
        self.brokers[name][0].wait()

    def stop(self, name: str) -> None:
        process = self.brokers[name][0]
        process.terminate()
        if process.wait(60):
            raise RuntimeError(f"{name} has complained: {(self.folder / f'{name}.log').read_text()[-2000:]}")

    def execute(self, row: dict[str, Any]) -> None:
        command = {"execute": "OfKind", "found": [[[kind], [row]] for kind in turn(row["n"])]}
        self._cluster.stdin.write(json.dumps(command).encode() + b"\n")
        self._cluster.stdin.flush()
        self._line(self._cluster, "data")

    def post(self, path: str) -> None:
        with urllib.request.urlopen(urllib.request.Request(self.url + path, method="POST"), timeout=30):
            pass

    def topology(self) -> dict[str, Any]:
        with urllib.request.urlopen(self.url + "/topology", timeout=30) as answer:
            return json.load(answer)

    def regrouped(self) -> bool:
        """Whether the migrations of the regrouping are made, so that it rests."""
        with urllib.request.urlopen(f"{self.url}/balance/log?limit=100000&after={self._read}", timeout=30) as answer:
            notes = json.load(answer)["log"]
        self._read = notes[-1]["number"] if notes else self._read
        self._rests |= any(each["kind"] == "deferred" and "; resting" in each["text"] for each in notes)
        return self._rests

    def states(self) -> dict[str, str]:
        return {each["name"]: each["state"] for each in self.topology()["brokers"]}


def counts(top: dict[str, Any], *states: str) -> dict[str, int]:
    """Subscribers of the brokers in these states."""
    return {each["name"]: each["subscribers"] for each in top["brokers"] if each["state"] in (states or ("up",))}


@contextmanager
def everything() -> Iterator[tuple[Path, ExitStack]]:
    """A folder, and what is started in it; all of it ends with the block."""
    kept = tempfile.TemporaryDirectory(prefix="tocsin-network-", ignore_cleanup_errors=True)
    with kept as folder, ExitStack() as held:
        yield Path(folder), held


def tocsin(
    brokers: int, subscribers: int, phases: Sequence[str], crowds: int = CROWDS, steady: float = STEADY
) -> list[Phase]:
    with everything() as (folder, held):
        harness.progress(f"Tocsin: {brokers} brokers, {subscribers:,} subscribers")
        net = Network(folder, held)
        net.start(*[f"b{number}" for number in range(1, brokers + 1)])
        crowd = Crowds(held, "tocsin", net.url, subscribers, crowds)
        return Acts(net, crowd, subscribers, steady, held).play(phases)


class Acts:
    """The phases."""

    def __init__(self, net: Network, crowd: Crowds, subscribers: int, steady: float, held: ExitStack) -> None:
        self.net, self.subscribers, self.steady = net, subscribers, steady
        flow = Flow(net.execute)
        held.callback(flow.close)
        self._measuring = Measuring(crowd, flow, LATE)
        self._drained = ""

    def play(self, phases: Sequence[str]) -> list[Phase]:
        acts = {
            "start": self._balanced,
            "regroup": lambda: self._balanced(lambda top: self.net.regrouped(), REGROUPED),
            "quiet": self.quiet,
            "kill": self.kill,
            "join": self.join,
            "drain": self.drain,
            "undrain": self.undrain,
            "rolling restart": self.rolling,
        }
        found = []
        for name in phases:
            harness.progress(f"Tocsin: {name}")
            self._began = time.monotonic()
            took = acts[name]()
            time.sleep(COOL_DOWN)
            top = self.net.topology()
            found.append(self._measuring.phase(name, took, list(counts(top).values()), top["cov"]))
        return found

    def quiet(self) -> Took:
        """No change, for comparison."""
        time.sleep(2 * self.steady)
        return None, None

    def kill(self) -> Took:
        name = self._fullest()
        self.net.kill(name)
        return self._balanced(lambda top: counts(top, "gone").get(name) is not None)

    def join(self) -> Took:
        name = f"b{len(self.net.brokers) + 1}"
        self.net.start(name)
        self._began = time.monotonic()
        return self._balanced(lambda top: counts(top).get(name, 0) > 0)

    def drain(self) -> Took:
        self._drained = self._fullest()
        self.net.post(f"/brokers/{self._drained}/drain")
        return self._balanced(lambda top: counts(top, "draining").get(self._drained) == 0)

    def undrain(self) -> Took:
        self.net.post(f"/brokers/{self._drained}/undrain")
        return self._balanced(lambda top: counts(top).get(self._drained, 0) > 0)

    def rolling(self) -> Took:
        names = list(counts(self.net.topology()))
        for name in names:
            began = time.monotonic()
            self.net.post(f"/brokers/{name}/drain")
            if until(lambda name=name: self._empty(name), began, 0.0, TIMEOUT) is None:  # type: ignore[misc]
                raise RuntimeError(f"{name} was drained and is not empty")
            emptied = time.monotonic()
            self.net.stop(name)
            self.net.start(name, state="draining")
            self.net.post(f"/brokers/{name}/undrain")
            harness.progress(
                f"{name}: empty after {emptied - began:.1f} s, back {time.monotonic() - emptied:.1f} s later"
            )
        return self._balanced(timeout=time.monotonic() - self._began + TIMEOUT)

    def _empty(self, name: str) -> bool:
        top = self.net.topology()
        return counts(top, "draining").get(name) == 0 and top["pending"] == 0

    def _fullest(self) -> str:
        here = counts(self.net.topology())
        return max(here, key=lambda name: here[name])

    def _balanced(
        self, more: Callable[[dict[str, Any]], bool] = lambda top: True, timeout: float | None = None
    ) -> Took:
        since: float | None = None

        def resting() -> bool:
            nonlocal since
            top = self.net.topology()
            complete = sum(counts(top, "up", "draining").values()) == self.subscribers
            if not (complete and top["cov"] < ALPHA and more(top)):
                since = None
            elif since is None:
                since = time.monotonic()
            return since is not None and top["pending"] == 0

        rest = until(resting, self._began, self.steady, TIMEOUT if timeout is None else timeout)
        balanced = None if since is None else since - self._began
        # The two are of the same look if both came at once, and one is taken after it was made.
        return balanced if balanced is None or rest is None else min(balanced, rest), rest


# -- NATS --------------------------------------------------------------------------------------------------------------


def nats(subscribers: int, crowds: int = CROWDS, steady: float = STEADY) -> tuple[list[Phase], str]:
    with everything() as (folder, held):
        harness.progress(f"NATS: {SERVERS} servers, {subscribers:,} connections")
        servers = NatsCluster(folder, held)
        crowd = Crowds(held, "nats", ",".join(map(str, servers.ports)), subscribers, crowds)
        flow = Flow(lambda row: servers.publish(dict.fromkeys(turn(row["n"]), row)))
        held.callback(flow.close)
        measuring = Measuring(crowd, flow, 2.0)

        def connected(began: float, steady: float = steady) -> float | None:
            return until(lambda: crowd.status()["connected"] == subscribers, began, steady, TIMEOUT)

        def restart() -> None:
            for number in range(SERVERS):
                began = time.monotonic()
                servers.stop(number)
                servers.launch(number)
                servers.ready(number)
                connected(began)

        def start_again() -> None:
            servers.launch(0)
            servers.ready(0)

        acts = {
            "quiet": lambda: time.sleep(2 * steady),
            "kill": lambda: servers.stop(0, kill=True),
            "join": start_again,
            "rolling restart": restart,
        }
        found = []
        for name, act in acts.items():
            harness.progress(f"NATS: {name}")
            began = time.monotonic()
            act()
            took = None if name == "quiet" else connected(began)
            found.append(measuring.phase(name, (took, None), servers.connections()))
        return found, servers.version


if __name__ == "__main__":
    harness.main("network", run)
