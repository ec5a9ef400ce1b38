"""What a town is to be like."""

from __future__ import annotations

import sys

from msgspec import Struct

from tocsin.config import CoordinatorConfig

CLUSTER = (sys.executable, "-m", "tocsin.cli", "cluster")


class CityOptions(Struct, frozen=True, kw_only=True):
    """A city with people in it; by default the papers' set-up D-proto.

    ``speed``: seconds of the city in a second; the periods of the channels are divided by it. ``clients``: processes
    that hold the people's clients; 0 for as many as there should be. ``least_move``: metres that somebody must have
    gone before the location is published again; -1 for every second where there are few people, and where there are
    many for every 50 m, times ``speed`` and for each ten thousand of them.
    """

    seed: int = 1
    subscribers: int = 400
    speed: float = 5.0
    clients: int = 0
    least_move: float = -1.0


class Options(Struct, frozen=True, kw_only=True):
    """``home`` '': a temporary one, which is gone at the end. ``port``: of the data cluster; the first broker has the
    next one, the coordinator the one after it, further brokers those behind; 0 takes free ones.

    ``settings`` are the coordinator's; ``placement`` and ``strategy``, too: None leaves them as they are there.
    ``cluster``: the words that start a data cluster; ``config``: a file with its settings. ``brief``: it will be gone
    in minutes. ``city``: None for none.
    """

    home: str = ""
    brokers: int = 2
    port: int = 0
    host: str = "127.0.0.1"
    placement: str | None = None
    strategy: str | None = None
    settings: CoordinatorConfig = CoordinatorConfig()
    cluster: tuple[str, ...] = CLUSTER
    config: str | None = None
    brief: bool = False
    city: CityOptions | None = None
