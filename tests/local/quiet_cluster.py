"""A data cluster without Spark that starts like ``tocsin cluster``, for tests of its supervisor.

QUIET_SPARK says when Spark starts: ``after 7``: with the seventh channel; ``never``; otherwise at once.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from sparkless import sparkless
from tocsin.cli.output import report
from tocsin.cli.starter import end_with_starter
from tocsin.cluster.model import Channel
from tocsin.errors import TocsinError


def say(event: str, url: str) -> None:
    os.write(1, json.dumps({"event": event, "url": url, "pid": os.getpid()}).encode() + b"\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("--home", "--host", "--port"):
        parser.add_argument(name)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    end_with_starter()
    settings = {name: os.environ.get(f"TOCSIN_{name.upper()}", "") for name in ("join_secret", "token_keys")}
    try:
        with sparkless(Path(given.home), port=int(given.port), **settings) as (cluster, url):
            say("listening", url)
            how, _, channels = os.environ.get("QUIET_SPARK", "").partition(" ")
            while (
                how == "after" and len(cluster.context.definitions.all(Channel)) < int(channels) and not stop.wait(0.02)
            ):
                pass
            if how == "never":
                cluster.context.runtime.state, cluster.context.runtime.reason = "dead", "no Spark today"
            else:
                say("ready", url)
            stop.wait()
    except TocsinError as error:
        report(error, json=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
