"""For tests of the overlay: brokers as real processes, on ports that stay theirs when they restart."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from brokers import Broker
from eventually import eventually


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Overlay:
    """``links``: by broker, those that it connects to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.brokers: dict[str, Broker] = {}
        self.inside: dict[str, int] = {}

    def start(self, name: str, *neighbours: str, **settings: Any) -> Broker:
        """``neighbours`` are names, or addresses."""
        self.inside.setdefault(name, free_port())
        urls = ",".join(self.url(each) if each in self.inside else each for each in neighbours)
        options = ["--inside-port", str(self.inside[name]), *(["--neighbours", urls] if urls else [])]
        home = self.folder / settings.pop("home", name)
        broker = Broker(home, "", name, *options, **settings)
        self.brokers.setdefault(name, broker)
        broker.event("ready")
        return broker

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.inside[name]}"

    def view(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{self.brokers[name].url}/overlay", trust_env=False, timeout=60).json()
        return found

    def until(self, name: str, holds: Any) -> dict[str, Any]:
        """Waits until the view of a broker is like this."""
        return eventually(lambda: (lambda view: view if holds(view) else None)(self.view(name)))

    def until_known(self, *names: str) -> None:
        """All of them know each other."""
        for name in names:
            self.until(name, lambda view: {each["name"] for each in view["brokers"]} >= set(names))

    def stop(self) -> None:
        for broker in self.brokers.values():
            if not broker.killed:
                broker.process.kill()
                broker.process.wait()
                broker._close()


@contextmanager
def overlay(folder: Path) -> Iterator[Overlay]:
    found = Overlay(folder)
    try:
        yield found
    finally:
        found.stop()


def up(view: dict[str, Any]) -> set[str]:
    return {link["neighbour"] for link in view["links"] if link["state"] == "up"}


def roles(view: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("role", "both") for each in view["brokers"]}
