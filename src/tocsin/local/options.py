"""What a local deployment consists of."""

from __future__ import annotations

import sys

from msgspec import Struct

from tocsin.config import Anonymous, CoordinatorConfig

CLUSTER = (sys.executable, "-m", "tocsin.cli", "cluster")


class Options(Struct, frozen=True, kw_only=True):
    """``home`` '': a temporary folder, removed at the end. ``port``: of the data cluster; the next ones are those of
    the first broker, the coordinator, the page and the further brokers; 0 takes free ones.

    ``settings`` are the coordinator's; ``placement`` and ``strategy`` override them unless they are None.
    ``cluster``: the command that starts a data cluster; ``config``: a file with its settings.
    ``anonymous``: what clients without a token may do; '' leaves it to the parts. ``brief``: the
    deployment will run for minutes only, so Spark's JVM compiles quickly instead of well.
    ``overlay``: brokers connect to the first one, which is the head.
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
    anonymous: Anonymous = ""
    brief: bool = False
    overlay: bool = False
