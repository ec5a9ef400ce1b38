"""``tocsin broker``: runs a broker until it receives a signal to stop."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from functools import partial
from typing import Annotated

import typer

from tocsin import config as settings
from tocsin.cli.cluster import Anonymous, Level, announcer, start_logging
from tocsin.cli.output import Json
from tocsin.cli.starter import STARTED, end_with_starter
from tocsin.errors import SystemFailure, UserError


def broker(
    name: Annotated[str | None, typer.Option(help="Unique among the brokers of a data cluster.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Address of the data cluster.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port for subscribers; 0 takes a free one.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    home: Annotated[str | None, typer.Option(help="Folder of its identity, and of users without coordinator.")] = None,
    inside_host: Annotated[str | None, typer.Option(help="Address to listen on for the data cluster.")] = None,
    inside_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port for the data cluster; 0 takes a free one.")
    ] = None,
    inside_url: Annotated[str | None, typer.Option(help="Address of that port for the data cluster.")] = None,
    coordinator: Annotated[str | None, typer.Option(help="Address of the coordinator, if there is one.")] = None,
    neighbours: Annotated[
        str | None, typer.Option(help="Inner ports of brokers to connect to, separated by commas, for an overlay.")
    ] = None,
    role: Annotated[
        str | None, typer.Option(help="In the overlay: auto, head (publishers), edge (subscribers) or both.")
    ] = None,
    anonymous: Anonymous = None,
    processes: Annotated[int | None, typer.Option(min=1, max=256, help="Processes that share the port.")] = None,
    config: Annotated[str | None, typer.Option(help="A TOML file; see `tocsin config --broker`.")] = None,
    log: Annotated[Level, typer.Option(help="How much to log, to standard error.")] = Level.warning,
    json: Json = False,
) -> None:
    """Run a broker: it holds subscribers' connections and delivers the data cluster's results to them.

    It starts without the data cluster and registers as soon as that answers. With several processes on one port, each
    process is a separate broker: NAME-1, NAME-2 and so on. Options override TOCSIN_BROKER_* variables, and those
    override the file.

    \b
    Example:
      tocsin broker --name north --cluster http://127.0.0.1:8480 --port 8481
    """
    start_logging(log)
    for noisy in ("httpx", "httpcore"):
        logging.getLogger(noisy).setLevel("WARNING")
    read = partial(
        settings.load_broker,
        config,
        name=name,
        cluster=cluster,
        port=port,
        host=host,
        home=home,
        inside_host=inside_host,
        inside_port=inside_port,
        inside_url=inside_url,
        coordinator=coordinator,
        neighbours=None if neighbours is None else [each.strip() for each in neighbours.split(",") if each.strip()],
        role=role,
        processes=processes,
        anonymous=anonymous,
    )
    options = read()
    from tocsin.http.server import address, bind, raise_file_limit
    from tocsin.identity.part_keys import require_join_secret

    raise_file_limit()
    member = "TOCSIN_BROKER_MEMBER" in os.environ
    end_with_starter()
    if options.processes > 1:
        # Bound but not listening: a connection to this socket would never be accepted.
        with bind(options.host, options.port, shared=True, listen=False) as held:
            run_several(options, held.getsockname()[1], config, json)
        return
    public = bind(options.host, options.port, shared=member)
    url = address(public, tls=bool(options.tls_certificate))
    inside = bind(options.inside_host, options.inside_port)
    inner = address(inside, tls=bool(options.tls_certificate))
    variable = "TOCSIN_BROKER_JOIN_SECRET"
    require_join_secret(options.join_secret, variable, "broker", public, inside, anonymous=options.anonymous)
    from tocsin.broker.server import Server

    texts = {"listening": f"{options.name} listens on {url}", "ready": f"{options.name} is ready"}
    announce = announcer(json, texts, name=options.name, url=url, inside=inner)
    try:
        Server(options, public, inside, announce, read).serve_until_stopped()
    finally:
        public.close()
        inside.close()
    announce("stopped")


def run_several(options: settings.BrokerConfig, port: int, config: str | None, json: bool) -> None:
    """Starts the members and passes signals on; when one ends by itself, the others end too."""
    if options.balancing.mode == "peers":
        hint = "start each broker on another port"
        raise UserError("brokers that balance among themselves cannot share a port", hint=hint)
    if options.neighbours:
        raise UserError("brokers of an overlay cannot share a port", hint="start each broker on another port")
    if options.coordinator:
        # The coordinator names one broker, but on a shared port the kernel may choose another.
        hint = "start each broker on another port, or leave out the coordinator"
        raise UserError("a coordinator cannot place subscribers on processes that share a port", hint=hint)
    if options.inside_port or options.inside_url:
        raise UserError(
            "each of several processes has another inner port", hint="leave out --inside-port and --inside-url"
        )
    members: list[subprocess.Popen[bytes]] = []
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True
        for member in members:
            if member.poll() is None:
                member.terminate()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    for place in range(1, options.processes + 1):
        command = [sys.executable, "-m", "tocsin.cli", "broker", "--name", f"{options.name}-{place}"]
        command += ["--port", str(port), "--host", options.host, "--cluster", options.cluster, "--home", options.home]
        command += ["--anonymous", options.anonymous] if options.anonymous else []
        command += ["--inside-host", options.inside_host, "--processes", "1"]
        command += [*(["--config", config] if config else []), *(["--json"] if json else [])]
        # In another process group: Ctrl-C reaches only this process, which passes it on once.
        members.append(
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                env=os.environ | {"TOCSIN_BROKER_MEMBER": "1", STARTED: "1"},
                start_new_session=True,
            )
        )
    try:
        while True:
            pid, status = os.wait()
            ended = next((member for member in members if member.pid == pid), None)
            if ended is not None:
                ended.returncode = os.waitstatus_to_exitcode(status)
                if not stopping:  # a second signal would kill those that are about to end in good order
                    stop()
            if all(member.returncode is not None for member in members):
                break
    except ChildProcessError:
        pass
    failed = [member.returncode for member in members if member.returncode]
    if failed:
        raise SystemFailure(f"a process of the broker ended with code {failed[0]}")
