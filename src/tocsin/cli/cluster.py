"""``tocsin cluster``: runs a data cluster until it receives a signal to stop."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tocsin import config as settings
from tocsin.cli.output import Json, print_json, print_line, report, write_json
from tocsin.cli.starter import end_with_starter
from tocsin.errors import TocsinError


class Level(StrEnum):
    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


Anonymous = Annotated[
    Literal["all", "none"] | None,
    typer.Option(
        help="What clients without a token may do, beyond the grants of the role anonymous. "
        "Without this option: all if only this machine can connect, else none."
    ),
]


def start_logging(level: Level) -> None:
    text = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(stream=sys.stderr, level=level.value.upper(), format=text)


def announcer(json: bool, texts: dict[str, str], **facts: str) -> Callable[[str], None]:
    """Prints the events of a server: ``facts`` for programs, one of ``texts`` for people."""

    def announce(event: str) -> None:
        if json:
            print_json({"event": event, **facts, "pid": os.getpid()})
        else:
            print_line(texts.get(event, event))

    return announce


def cluster(
    home: Annotated[str | None, typer.Option(help="Folder of the catalog and the segments.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark master, such as spark://host:7077.")] = None,
    catalog: Annotated[str | None, typer.Option(help="A postgresql:// address instead of SQLite.")] = None,
    segments: Annotated[str | None, typer.Option(help="Any path or URL that Spark can read.")] = None,
    anonymous: Anonymous = None,
    config: Annotated[str | None, typer.Option(help="A TOML file; see `tocsin config`.")] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="Write the address here, as JSON, once queries can run.")
    ] = None,
    log: Annotated[Level, typer.Option(help="How much to log, to standard error.")] = Level.warning,
    json: Json = False,
) -> None:
    """Run a data cluster: datasets, feeds and channels on Spark.

    It accepts records at once; queries and channels run when Spark has started. SIGTERM and Ctrl-C stop it after the
    requests that run. Options override TOCSIN_* variables, and those override the file.

    \b
    Example:
      tocsin cluster --home /var/lib/tocsin --port 8480
    """
    start_logging(log)
    # These log a user's mistake with a stack trace; the command prints the error anyway.
    for name, least in (("SQLQueryContextLogger", "CRITICAL"), ("sqlglot", "ERROR"), ("py4j", "WARNING")):
        logging.getLogger(name).setLevel(least)
    given: dict[str, Any] = {"home": home, "port": port, "host": host, "master": master, "anonymous": anonymous}
    options = settings.load(config, None, catalog=catalog, segments=segments, **given)
    # Importing these takes a second; other commands shouldn't pay for it.
    from tocsin.cluster.http.server import serve
    from tocsin.http.server import address, bind
    from tocsin.identity.part_keys import require_join_secret

    end_with_starter()
    sock = bind(options.host, options.port)
    require_join_secret(options.join_secret, "TOCSIN_JOIN_SECRET", "data cluster", sock, anonymous=options.anonymous)
    url = address(sock, tls=bool(options.tls_certificate))
    texts = {"listening": f"listening on {url}", "ready": "ready: queries and channels run"}
    announce = announcer(json, texts, url=url)
    from tocsin.cluster.service import DataCluster

    data = DataCluster(options)

    def listening() -> None:
        announce("listening")
        threading.Thread(target=wait, name="tocsin-ready", daemon=True).start()

    def wait() -> None:
        try:
            data.wait_ready()
        except TocsinError as error:
            report(error, json=json)
            return
        if ready_file is not None:
            write_json(ready_file, {"url": url, "pid": os.getpid()})
        announce("ready")

    try:
        serve(data, options, sock, listening)
    finally:
        sock.close()
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)
    announce("stopped")
