"""``tocsin coordinator``: runs the coordinator until it receives a signal to stop."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tocsin import config as settings
from tocsin.cli.cluster import Level, announcer, start_logging
from tocsin.cli.output import Json
from tocsin.cli.starter import end_with_starter


def coordinator(
    home: Annotated[str | None, typer.Option(help="Folder of its store.")] = None,
    store: Annotated[str | None, typer.Option(help="A postgresql:// address instead of SQLite.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    placement: Annotated[
        str | None, typer.Option(help="nearest, round-robin, random, least-loaded or two-choices.")
    ] = None,
    strategy: Annotated[str | None, typer.Option(help="How load is balanced; '' for not at all.")] = None,
    admin_token: Annotated[
        str | None,
        typer.Option(
            help="Token of operators, who watch and change the network; better set in TOCSIN_COORDINATOR_ADMIN_TOKEN."
        ),
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Address of the data cluster, for the page.")] = None,
    config: Annotated[str | None, typer.Option(help="A TOML file; see `tocsin config --coordinator`.")] = None,
    log: Annotated[Level, typer.Option(help="How much to log, to standard error.")] = Level.warning,
    json: Json = False,
) -> None:
    """Run the coordinator: it places subscribers on brokers, measures their load and migrates subscribers between them.

    Its page at /ui/ shows the network and its events, and has buttons to operate it.

    While it is down, brokers and subscribers continue. Options override TOCSIN_COORDINATOR_* variables, and those
    override the file.

    \b
    Example:
      tocsin coordinator --port 8482 & tocsin broker --name north --coordinator http://127.0.0.1:8482
    """
    start_logging(log)
    given: dict[str, Any] = {"home": home, "port": port, "host": host, "placement": placement, "strategy": strategy}
    given |= {"store": store, "cluster": cluster, "admin_token": admin_token}
    options = settings.load_coordinator(config, None, **given)
    from tocsin.coordinator.server import Server
    from tocsin.http.server import address, bind, raise_file_limit
    from tocsin.identity.part_keys import require_join_secret

    raise_file_limit()
    end_with_starter()
    sock = bind(options.host, options.port)
    require_join_secret(options.join_secret, "TOCSIN_COORDINATOR_JOIN_SECRET", "coordinator", sock)
    url = address(sock, tls=bool(options.tls_certificate))
    announce = announcer(json, {"listening": f"the coordinator listens on {url}"}, url=url)
    try:
        Server(options, sock, announce).serve_until_stopped()
    finally:
        sock.close()
    announce("stopped")
