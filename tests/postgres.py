"""A private PostgreSQL server from Debian's packages, for tests and benchmarks: real, durable, gone at the end."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

import psycopg


class PortTaken(Exception):
    """Another process has taken the port."""


READY = "database system is ready to accept connections"


def binaries() -> Path:
    """The folder with ``initdb`` and ``postgres``, installing Debian's package where there is none and root runs."""
    if found := _installed():
        return found
    if os.geteuid() != 0:
        raise RuntimeError("PostgreSQL is not installed: run `apt-get install postgresql` as root")
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "postgresql"]):
        subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
    if found := _installed():
        return found
    raise RuntimeError("the package postgresql is installed, and /usr/lib/postgresql has no server")


def _installed() -> Path | None:
    versions = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()]
    return max(versions, key=lambda path: float(path.parent.name), default=None)


def _account() -> str | None:
    """The account of the server: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


class Server:
    """``with Server() as server: server.fresh()``; it can be stopped and started again in between. ``folder`` is for
    its data, and its account must reach it."""

    def __init__(self, settings: dict[str, str] | None = None, folder: Path | None = None) -> None:
        self._settings = {"fsync": "on", "max_connections": "50", "shared_buffers": "64MB"} | (settings or {})
        self._bin = binaries()
        self._account = _account()
        self._folder = folder or Path(tempfile.mkdtemp(prefix="tocsin-pg-"))
        self._password = secrets.token_hex(16)
        self._names = count(1)
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self._log: list[str] = []
        try:
            self._initialise()
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return f"postgresql://tocsin:{self._password}@127.0.0.1:{self._port}/postgres"

    def fresh(self) -> str:
        """The address of a new, empty database."""
        name = f"test_{next(self._names)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return urlsplit(self.url)._replace(path=f"/{name}").geturl()

    def empty(self, url: str) -> str:
        """Removes all our tables from a database, which is faster than a new database."""
        with psycopg.connect(url, autocommit=True) as connection:
            drop = "DROP SCHEMA IF EXISTS tocsin, tocsin_coordinator, tocsin_users CASCADE"
            connection.execute(f"SET client_min_messages = warning; {drop}")
        return url

    def _initialise(self) -> None:
        words = self._folder / "password"
        words.write_text(self._password)
        if self._account:
            for path in (self._folder, words):
                shutil.chown(path, self._account)
        command = [str(self._bin / "initdb"), "-D", str(self._folder / "data"), "-U", "tocsin", "-A", "scram-sha-256"]
        command += ["--pwfile", str(words), "-E", "UTF8", "--locale", "C"]
        done = subprocess.run(command, user=self._account, cwd=self._folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr}")

    def start(self) -> None:
        """Returns when the server accepts connections; the port stays the same over restarts."""
        if self._port:
            self._launch()
            return
        for _ in range(10):  # another process may take the free port first
            self._port = _free_port()
            with suppress(PortTaken):
                self._launch()
                return
        raise RuntimeError("PostgreSQL found no free port")

    def _launch(self) -> None:
        settings = self._settings | {"unix_socket_directories": str(self._folder), "listen_addresses": "127.0.0.1"}
        command = [str(self._bin / "postgres"), "-D", str(self._folder / "data"), "-p", str(self._port)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        self._process = subprocess.Popen(
            command, user=self._account, cwd=self._folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        self._log.clear()
        ready = threading.Event()
        threading.Thread(target=self._read_log, args=(self._process, ready), daemon=True).start()
        if ready.wait(120) and self._process.poll() is None:
            return
        output = "\n".join(self._log[-20:])
        raise PortTaken if "already in use" in output else RuntimeError(f"PostgreSQL did not start:\n{output}")

    def _read_log(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                self._log.append(line.rstrip())
                del self._log[:-200]
                if READY in line:
                    ready.set()
        process.wait()
        ready.set()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends all sessions and shuts down cleanly; SIGQUIT is a crash, and the next start recovers."""
        if self._process is not None and self.running:
            self._process.send_signal(how)
            self._process.wait(120)
        self._process = None

    def close(self) -> None:
        # The data is deleted, so a clean shutdown would waste time.
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
