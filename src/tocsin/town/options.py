"""What a town is to be like."""

from __future__ import annotations

import sys

from msgspec import Struct

CLUSTER = (sys.executable, "-m", "tocsin.cli", "cluster")


class Options(Struct, frozen=True, kw_only=True):
    """``home`` '': a temporary one, which is gone at the end. ``port``: of the data cluster; the first broker has the
    next one, the coordinator the one after it, further brokers those behind; 0 takes free ones.

    ``placement``, ``strategy``: the coordinator's; None leaves them as they are. ``balance_every`` and ``interval`` are
    its settings, in seconds. ``places``: latitude and longitude of each broker. ``cluster``: the words that start a
    data cluster. ``config``: a file with its settings.
    """

    home: str = ""
    brokers: int = 2
    port: int = 0
    host: str = "127.0.0.1"
    placement: str | None = None
    strategy: str | None = None
    balance_every: float | None = None
    interval: float | None = None
    places: tuple[tuple[float, float], ...] = ()
    cluster: tuple[str, ...] = CLUSTER
    config: str | None = None
