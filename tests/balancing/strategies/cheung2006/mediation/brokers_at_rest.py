"""Brokers whose load is stated, and a network that delivers what their machines send."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from random import Random

from tocsin.balancing.strategies.cheung2006.composition import Composition
from tocsin.balancing.strategies.cheung2006.detection.indices import Indices
from tocsin.balancing.strategies.cheung2006.estimation.resources import Resources
from tocsin.balancing.strategies.cheung2006.mediation import events as ev
from tocsin.balancing.strategies.cheung2006.mediation import outputs as out
from tocsin.balancing.strategies.cheung2006.mediation.edge import Edge
from tocsin.balancing.strategies.cheung2006.mediation.head import Head
from tocsin.balancing.strategies.cheung2006.offload.covering import Covering
from tocsin.balancing.strategies.cheung2006.parameters import Parameters

SUBSCRIPTIONS = 40


class StatedBroker:
    """Every subscription gets one publication a second of its own; 1 / 100 s of matching for each."""

    def __init__(self, name: str, held: Sequence[int] = (), capacity: float = 1.0) -> None:
        self.name, self.capacity = name, capacity
        self.held = {number: [f"{name}-{number}"] for number in held}
        self.leaving: set[str] = set()

    def names(self) -> list[str]:
        return [each for names in self.held.values() for each in names]

    def indices(self) -> Indices:
        used = self.resources()
        return Indices(used.input_ratio, used.output_ratio, used.matching_delay)

    def resources(self) -> Resources:
        count = len(self.names())
        slope = 0.001 / self.capacity
        rate = float(count)
        return Resources(rate * slope * count, 0.0, 0.0, rate, slope, 1e9, 1e6, count, 10.0 * count, 0.0, 1.0)

    def css(self) -> tuple[str, ...]:
        return tuple(str(number) for number in self.held)

    def subscribe_locally(self, css: Sequence[str]) -> Sequence[int]:
        return [int(each) for each in css]

    def subscribers(self) -> Mapping[int, Sequence[str]]:
        return {number: [each for each in names if each not in self.leaving] for number, names in self.held.items()}

    def covering(self) -> Covering:
        return Covering(dict.fromkeys(range(SUBSCRIPTIONS), 0))

    def queue_delay(self) -> float:
        return 3.0


class Network:
    """``lost``: brokers that receive nothing any more."""

    def __init__(self, brokers: Sequence[StatedBroker], head: Head | None = None, **parameters: float) -> None:
        self.now = 0.0
        self.brokers = {each.name: each for each in brokers}
        settings = Parameters(**{"press_samples": SUBSCRIPTIONS, **parameters})
        self.machines: dict[str, Edge | Head] = {
            each.name: Edge(each.name, "C", "B0", each, Composition(), settings, Random(each.name)) for each in brokers
        }
        if head is not None:
            self.machines[head.broker] = head
        self.lost: set[str] = set()
        self.held_back: set[str] = set()
        self.sent: list[tuple[str, out.Output]] = []
        self.releases: list[tuple[float, str, tuple[str, ...]]] = []
        self._mail: deque[tuple[str, ev.Event]] = deque()

    def edge(self, name: str) -> Edge:
        found = self.machines[name]
        assert isinstance(found, Edge)
        return found

    def post(self, to: str, event: ev.Event) -> None:
        self._mail.append((to, event))
        while self._mail:
            name, each = self._mail.popleft()
            if name in self.machines and name not in self.lost:
                for output in self.machines[name].handle(each, self.now):
                    self.sent.append((name, output))
                    self._do(name, output)

    def _do(self, name: str, output: out.Output) -> None:
        match output:
            case out.Publish(pie):
                self._mail.extend((each, ev.Received(name, pie)) for each in self.machines if each != name)
            case out.Send(to, message):
                self._mail.append((to, ev.Received(name, message)))
            case out.Order(subscriber, to, session, total):
                if to in self.lost or subscriber in self.held_back:
                    return
                number = next(n for n, names in self.brokers[name].held.items() if subscriber in names)
                self.brokers[to].held.setdefault(number, []).append(subscriber)
                self.brokers[name].leaving.add(subscriber)
                self._mail.append((to, ev.Arrived(subscriber, session, total)))
            case out.Release(names, seconds):
                self.releases.append((self.now + seconds, name, names))

    def sample(self, name: str) -> None:
        """One publication of each subscription, while the broker samples."""
        press = self.edge(name).press
        assert press is not None
        for number in range(SUBSCRIPTIONS):
            press.enqueue(10)
            press.observe([number])

    def run(self, seconds: float, step: float = 1.0) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += step
            for at, name, names in list(self.releases):
                if at <= self.now:
                    self.releases.remove((at, name, names))
                    held = self.brokers[name].held
                    for number in list(held):
                        held[number] = [each for each in held[number] if each not in names]
                        if not held[number]:
                            del held[number]
                    self.brokers[name].leaving.difference_update(names)
            for name, machine in self.machines.items():
                if isinstance(machine, Edge) and machine.press is not None and not machine.press.complete:
                    self.sample(name)
                self.post(name, ev.Tick())

    def messages(self, kind: type) -> list[tuple[str, object]]:
        return [
            (name, each.message)
            for name, each in self.sent
            if isinstance(each, out.Send) and isinstance(each.message, kind)
        ]

    def of(self, kind: type) -> list[out.Output]:
        return [each for _, each in self.sent if isinstance(each, kind)]
