"""What tokens and grants cost when clients connect and subscribe: the same churn without and with them, and before.

The broker of the last revision without them is part of the run, and takes its turns.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks import before_after, harness
from benchmarks.churn import AT_ONCE, CONNECTIONS, Churner, churn
from benchmarks.fanout import processes
from benchmarks.fanout.broker import Tocsin
from benchmarks.fanout.counter import Counter, Opening
from benchmarks.harness import Table, median

#: Of the person and a number, so that a grant can ask for the person's own name.
CHANNEL = "Mine"
DEFINITION = f"""
CREATE CONTINUOUS CHANNEL {CHANNEL}(person string, least bigint) {{
  SELECT r.n FROM Reports r WHERE is_new(r) AND r.kind = person AND r.n > least
}};
"""
PASSWORD = "correct horse battery"
NAMES = [f"person{number}" for number in range(CONNECTIONS)]
#: CPU seconds of the broker in a round.
CPU = 0.5
#: The last revision without grants, and whose brokers have users of their own.
BEFORE = "38c0308"
#: The data cluster gives no rights but those that it grants.
CLOSED = MappingProxyType({"anonymous": "none"})


class Network:
    """A broker with its data cluster, and the clients that churn."""

    name = "anonymous, all is allowed"
    data: Mapping[str, Any] = MappingProxyType({})
    grant = ""
    #: The counter connects again and again from one address.
    settings: Mapping[str, Any] = MappingProxyType({"identity_registrations": 100_000})

    def __init__(self) -> None:
        self.server = Tocsin(channel=CHANNEL, data=dict(self.data), **self.settings)
        self.subscribed: list[float] = []
        self.connected: list[float] = []

    def __enter__(self) -> Network:
        self.server.__enter__()
        self.server.cluster.execute(DEFINITION + self.grant)
        self.tokens = [self.token(name) for name in NAMES]
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()

    def token(self, name: str) -> str:
        return ""

    def hello(self, token: str) -> bytes:
        return json.dumps({"type": "hello", "id": 0} | ({"token": token} if token else {})).encode()

    def churn(self) -> None:
        """One round of subscribing and unsubscribing; the data cluster knows the subscriptions after the first."""
        churners = [
            Churner(self.server, arguments(name), self.hello(token))
            for name, token in zip(NAMES, self.tokens, strict=True)
        ]
        before = self.server.cpu()
        churn(churners, lambda: self.server.cpu() - before < CPU)
        self.subscribed.append(sum(each.done for each in churners) / (self.server.cpu() - before) / 1e3)
        for each in churners:
            each.socket.close()

    def connect(self) -> None:
        """One round of connections that subscribe once each."""
        message = b'{"type":"subscribe","id":1,"channel":"%b","args":%b}'
        openings = [
            Opening([self.hello(token), message % (CHANNEL.encode(), next(arguments(name)))], 2)
            for name, token in zip(NAMES, self.tokens, strict=True)
        ]
        done, before = 0, self.server.cpu()
        while self.server.cpu() - before < CPU:
            with Counter(self.server.endpoint, openings, processes.COUNTER_CORE):
                done += len(openings)
        self.connected.append(done / (self.server.cpu() - before) / 1e3)


class Granted(Network):
    name = "anonymous, granted"
    data = CLOSED
    grant = f"GRANT SUBSCRIBE ON CHANNEL {CHANNEL} TO anonymous;"


class Users(Network):
    name = "users, all is allowed"

    def token(self, name: str) -> str:
        who = {"user": name, "password": PASSWORD}
        self._post("/registeruser", who)
        return str(self._post("/login", who)["token"])

    def _post(self, path: str, body: dict[str, str]) -> Any:
        url = self.server.facts[0]["url"] + path
        request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


class GrantedUsers(Users):
    name = "users, granted with a condition on their token"
    data = CLOSED
    grant = f"GRANT SUBSCRIBE ON CHANNEL {CHANNEL} WITH (person = claim('sub')) TO user;"


#: What each is compared with.
BASES: dict[type[Network], type[Network]] = {Network: Network, Granted: Network, Users: Users, GrantedUsers: Users}


def earlier(source: Path, kind: type[Network]) -> Network:
    """The same clients at the broker of an earlier revision, whose code is in ``source``."""
    found = kind()
    found.server = Tocsin(channel=CHANNEL)
    found.server.source = source  # type: ignore[misc]
    return found


def arguments(name: str) -> Iterator[bytes]:
    return itertools.cycle([json.dumps([name, number]).encode() for number in range(AT_ONCE)])


def run(full: bool) -> list[Table]:
    processes.allow_files()
    os.sched_setaffinity(0, {processes.COUNTER_CORE})
    return [measured(9 if full else 5)]


def measured(rounds: int) -> Table:
    order = random.Random(7)
    with ExitStack() as stack:
        folder = stack.enter_context(before_after.tree(BEFORE))
        before = {kind: earlier(folder / "src", kind) for kind in dict.fromkeys(BASES.values())}
        now = {kind: kind() for kind in BASES}
        networks = [*before.values(), *now.values()]
        for each in networks:
            harness.progress(f"{each.name} starts")
            stack.enter_context(each)
        for each in networks:  # the data cluster learns all subscriptions
            each.churn()
            each.subscribed.clear()
        for number in range(rounds):
            harness.progress(f"round {number + 1} of {rounds}")
            for each in order.sample(networks, len(networks)):
                each.churn()
                each.connect()
    table = Table(
        f"Tokens and grants, {CONNECTIONS} connections: thousand per CPU second of the broker",
        ["clients", "subscribe and unsubscribe", "of before", "connect and subscribe", "of before"],
    )
    rows = [(f"{each.name}, before", each, each) for each in before.values()]
    rows += [(each.name, each, before[BASES[kind]]) for kind, each in now.items()]
    for name, each, base in rows:
        cells: list[object] = []
        for own, other in ((each.subscribed, base.subscribed), (each.connected, base.connected)):
            # The ratio of each round, not that of the medians: what slows the machine down slows both.
            cells += [median(own), f"{median(a / b for a, b in zip(own, other, strict=True)):.2f}×"]
        table.add(name, *cells)
    table.notes += [
        f"Each connection asks for {AT_ONCE} subscriptions at once that the data cluster knows, and unsubscribes when "
        "all are there; a subscription or its end counts as one. Then connections that say hello and subscribe once. "
        f"Medians of {rounds} rounds of {CPU:g} CPU seconds of the broker, in which all take turns.",
        f"Before is revision {BEFORE}: no grants, and tokens that each broker has a list of. The data cluster of "
        "all is that of this revision.",
        "What users subscribe to is durable: this broker, which has no coordinator, stores it on disk and confirms it "
        "then; before, it confirmed first. The difference of the last two rows is the price of the grants; the "
        "signature of a token is verified once, and remembered.",
    ]
    return table


if __name__ == "__main__":
    harness.main("access", run)
