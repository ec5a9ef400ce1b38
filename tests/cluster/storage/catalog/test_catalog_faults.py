"""What the catalog does when processes are killed, servers restart, connections are cut and disks are full."""

from __future__ import annotations

import json
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from catalogs import a_broker, a_channel, a_dataset, append, execution, subscriptions_of
from postgres import Server
from sparkmaster import child_env
from tocsin.cluster.model import Channel, Dataset
from tocsin.cluster.storage.catalog import Catalog, Commit, open_catalog
from tocsin.errors import LeaseHeld, StorageError

# Commits until it is killed, and prints each commit after its acknowledgement.
CHILD = """
import os, sys
from tocsin.cluster.storage.catalog import Append, Commit, open_catalog
from tocsin.cluster.model import Broker, Channel, Dataset, Execution
catalog = open_catalog(sys.argv[1], sys.argv[2])
catalog.acquire_lease()
dataset, channel, broker = catalog.get(Dataset, "Reports"), catalog.get(Channel, "Near"), catalog.get(Broker, "b1")
number = catalog.last_execution(channel.id)
while True:
    number += 1
    path = f"s{os.getpid()}-{number}"
    ordinal = catalog.commit(Commit(appends=[Append(dataset.id, path, 1, 1)]))[0]
    os.write(1, f"commit {ordinal} {path}\\n".encode())
    run = Execution(channel.id, number, 1.0, 2.0, ordinal, 0, 0, f"r{number}")
    catalog.record(run, {dataset.id: ordinal}, [broker.id])
    os.write(1, f"record {number} {ordinal}\\n".encode())
"""


def check(catalog: Catalog, acknowledged: list[list[str]]) -> None:
    dataset, channel = catalog.get(Dataset, "Reports"), catalog.get(Channel, "Near")
    assert dataset is not None
    assert channel is not None
    segments = catalog.segments(dataset.id)
    assert [segment.first for segment in segments] == list(range(1, catalog.head(dataset.id) + 1))
    executions = catalog.executions(channel.id, limit=1_000_000)
    assert [item.number for item in executions] == list(range(1, catalog.last_execution(channel.id) + 1))
    # Here, rows is the ordinal at which the execution ended.
    assert catalog.positions(channel.id)[dataset.id] == (executions[-1].rows if executions else 0)
    for kind, number, what in acknowledged:
        if kind == "commit":
            assert segments[int(number) - 1].path == what
        else:
            assert executions[int(number) - 1].rows == int(what)


@pytest.mark.parametrize("seed", [1, pytest.param(None, marks=pytest.mark.slow, id="explore")])
def test_kill_9_loses_nothing_acknowledged(
    seed: int | None, exploration_seed: int, database_address: str, tmp_path: Path
) -> None:
    home, choose = str(tmp_path), random.Random(exploration_seed if seed is None else seed)
    catalog = open_catalog(database_address, home)
    dataset = a_dataset(catalog)
    a_channel(catalog, positions={dataset.id: 0})
    a_broker(catalog)
    catalog.close()
    acknowledged: list[list[str]] = []
    for _ in range(12):
        command = [sys.executable, "-c", CHILD, database_address, home]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=child_env(), text=True) as child:
            assert child.stdout is not None
            lines = [child.stdout.readline() for _ in range(choose.randrange(1, 40))]
            child.send_signal(signal.SIGKILL)
            lines += child.stdout.readlines()
        acknowledged += [line.split() for line in lines if line.endswith("\n")]
        catalog = open_catalog(database_address, home)
        catalog.acquire_lease()
        check(catalog, acknowledged)
        catalog.close()
    assert len(acknowledged) >= 12


def test_the_lease_of_another_process_names_it(database_address: str, tmp_path: Path) -> None:
    catalog = open_catalog(database_address, str(tmp_path))
    dataset = a_dataset(catalog)
    a_channel(catalog, positions={dataset.id: 0})
    a_broker(catalog)
    command = [sys.executable, "-c", CHILD, database_address, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=child_env(), text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(LeaseHeld) as caught:
            catalog.acquire_lease()
        child.kill()
    assert caught.value.fields == {"host": socket.gethostname(), "pid": child.pid}
    catalog.acquire_lease()
    catalog.close()


# -- SQLite ------------------------------------------------------------------------------------------------------------


@contextmanager
def full_disk(catalog: Catalog) -> Iterator[None]:
    """SQLite itself refuses to grow the file, with the error of a full disk."""
    writer = catalog._db._writer  # type: ignore[attr-defined]
    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count = {pages}")
    yield
    writer.execute("PRAGMA max_page_count = 1000000000")


@contextmanager
def read_only(catalog: Catalog) -> Iterator[None]:
    writer = catalog._db._writer  # type: ignore[attr-defined]
    writer.execute("PRAGMA query_only = ON")
    yield
    writer.execute("PRAGMA query_only = OFF")


@pytest.mark.parametrize(
    "fault, message", [(full_disk, "disk of the catalog is full"), (read_only, "cannot be written")]
)
def test_a_full_disk_is_a_clear_error_and_the_catalog_recovers(
    tmp_path: Path, fault: Callable[[Catalog], AbstractContextManager[None]], message: str
) -> None:
    catalog = open_catalog("", str(tmp_path))
    dataset = a_dataset(catalog)
    with fault(catalog), pytest.raises(StorageError, match=message):
        append(catalog, dataset, *(f"{'long' * 100}{number}" for number in range(1000)))
    assert catalog.head(dataset.id) == 0
    assert append(catalog, dataset, "a") == [1]
    catalog.close()


def test_a_file_that_is_not_a_catalog_is_refused(tmp_path: Path) -> None:
    (tmp_path / "catalog.sqlite3").write_bytes(b"something else altogether " * 400)
    with pytest.raises(StorageError, match="not a catalog"):
        open_catalog("", str(tmp_path))


def test_a_damaged_file_is_a_clear_error(tmp_path: Path) -> None:
    catalog = open_catalog("", str(tmp_path))
    dataset = a_dataset(catalog)
    append(catalog, dataset, *(f"segment-{number}" for number in range(2000)))
    catalog.close()
    file = tmp_path / "catalog.sqlite3"
    content = bytearray(file.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    file.write_bytes(content)
    with pytest.raises(StorageError, match="damaged"):
        open_catalog("", str(tmp_path)).segments(dataset.id)


def test_a_home_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="folder"):
        open_catalog("", str(tmp_path / "file" / "home"))


def test_a_commit_is_synced_and_foreign_keys_are_on(tmp_path: Path) -> None:
    catalog = open_catalog("", str(tmp_path))
    writer: sqlite3.Connection = catalog._db._writer  # type: ignore[attr-defined]
    found = [writer.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "foreign_keys")]
    assert found == ["wal", 2, 1]
    catalog.close()


# -- both --------------------------------------------------------------------------------------------------------------


def test_a_newer_schema_is_refused_with_a_hint(database_address: str, tmp_path: Path) -> None:
    open_catalog(database_address, str(tmp_path)).close()
    sql = "UPDATE meta SET value = 99 WHERE name = 'version'"
    if database_address:
        with psycopg.connect(database_address) as server:
            server.execute(sql.replace("meta", "tocsin.meta"))
    else:
        with sqlite3.connect(tmp_path / "catalog.sqlite3") as file:
            file.execute(sql)
        file.close()
    with pytest.raises(StorageError, match="version 99") as caught:
        open_catalog(database_address, str(tmp_path))
    assert "release of Tocsin that wrote it" in caught.value.hint


def transactions(database_address: str, folder: Path) -> int:
    """Those that are open on the server; of SQLite, the open files, since each reader opens some."""
    if not database_address:
        return sum(folder in file.resolve().parents for file in Path("/proc/self/fd").iterdir())
    with psycopg.connect(database_address, autocommit=True) as server:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND xact_start < now()"
        return int(server.execute(sql).fetchall()[0][0])


def test_a_reader_that_stops_early_leaves_nothing_open(database_address: str, tmp_path: Path) -> None:
    catalog = open_catalog(database_address, str(tmp_path))
    channel, broker = a_channel(catalog), a_broker(catalog)
    catalog.commit(Commit(subscribe=subscriptions_of(channel, broker, *range(100))))
    list(catalog.subscriptions(channel.id))  # SQLite keeps one descriptor of it for later
    before = transactions(database_address, tmp_path)
    stream = catalog.subscriptions(channel.id)
    next(stream)
    assert transactions(database_address, tmp_path) > before
    stream.close()  # type: ignore[attr-defined]
    assert transactions(database_address, tmp_path) == before
    catalog.close()


# -- PostgreSQL --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    """A server that tests may stop and crash."""
    with Server() as server:
        yield server


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_the_catalog_reconnects_after_a_restart_of_the_server(own_server: Server, how: signal.Signals) -> None:
    catalog = open_catalog(own_server.fresh(), "")
    catalog.acquire_lease()
    dataset = a_dataset(catalog)
    append(catalog, dataset, "a")
    own_server.stop(how)
    for call in (lambda: append(catalog, dataset, "x"), lambda: catalog.head(dataset.id)):
        with pytest.raises(StorageError, match="cannot be reached") as caught:
            call()
        assert "uncertain" not in caught.value.fields
    own_server.start()
    assert append(catalog, dataset, "b") == [2]
    assert catalog.head(dataset.id) == 2
    catalog.close()


def test_a_crash_of_the_server_loses_nothing_acknowledged(own_server: Server) -> None:
    catalog = open_catalog(own_server.fresh(), "")
    catalog.acquire_lease()
    dataset = a_dataset(catalog)
    acknowledged: dict[int, str] = {}
    for crash in range(4):
        enough = threading.Event()
        failed: list[StorageError] = []

        def work(crash: int = crash, enough: threading.Event = enough, failed: list[StorageError] = failed) -> None:
            for number in range(1_000_000):
                path = f"{crash}-{number}"
                try:
                    acknowledged[append(catalog, dataset, path)[0]] = path
                except StorageError as error:
                    failed.append(error)
                    return
                finally:
                    if number >= 5 + 7 * crash:
                        enough.set()

        writer = threading.Thread(target=work)
        writer.start()
        assert enough.wait(120)
        own_server.stop(signal.SIGQUIT)
        writer.join()
        own_server.start()
        paths = {segment.first: segment.path for segment in catalog.segments(dataset.id)}
        assert sorted(paths) == list(range(1, catalog.head(dataset.id) + 1))
        assert acknowledged.items() <= paths.items()
        # More commits than acknowledged exist only where the catalog reported an uncertain outcome.
        unexpected = len(paths) - len(acknowledged)
        assert unexpected == 0 or (unexpected == 1 and failed[0].fields.get("uncertain"))
        acknowledged.update(paths)
    catalog.close()


def test_the_lease_is_taken_again_after_a_restart(own_server: Server) -> None:
    url = own_server.fresh()
    first = open_catalog(url, "")
    first.acquire_lease()
    dataset = a_dataset(first)
    own_server.stop()
    own_server.start()
    append(first, dataset, "a")
    second = open_catalog(url, "")
    with pytest.raises(LeaseHeld):
        second.acquire_lease()
    first.close()
    second.close()


def test_a_catalog_that_lost_the_lease_cannot_write(fresh_postgres: Callable[[], str]) -> None:
    url = fresh_postgres()
    first, second = open_catalog(url, ""), open_catalog(url, "")
    first.acquire_lease()
    dataset = a_dataset(first)
    with psycopg.connect(url, autocommit=True) as server:
        sql = "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'"
        assert server.execute(sql).fetchall() == [(True,)]
    append(first, dataset, "a")
    second.acquire_lease()
    with pytest.raises(LeaseHeld):
        append(first, dataset, "b")
    assert append(second, dataset, "c") == [2]
    assert first.all_paths() == {"a", "c"}
    first.close()
    second.close()


class Cutter:
    """A proxy that cuts the connection when a COMMIT passes: before it reaches the server, or before the answer."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{port}").geturl()
        self.cut: str | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, requests: bool) -> None:
        try:
            while data := source.recv(65536):
                if requests and self.cut and b"COMMIT\0" in data:
                    if self.cut == "answer":
                        source.shutdown(socket.SHUT_RDWR)
                        target.sendall(data)
                    return
                target.sendall(data)
        except OSError:
            # The other direction has cut it.
            return
        finally:
            source.close()
            # Bytes already sent still arrive; then the other end sees the end of the connection.
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize("cut, done", [("request", False), ("answer", True)])
def test_a_connection_lost_during_a_commit_is_uncertain(
    fresh_postgres: Callable[[], str], cut: str, done: bool
) -> None:
    url = fresh_postgres()
    proxy = Cutter(url)
    catalog, direct = open_catalog(proxy.url, ""), open_catalog(url, "")
    dataset = a_dataset(catalog)
    channel = a_channel(catalog, positions={dataset.id: 0})
    proxy.cut = cut
    with pytest.raises(StorageError, match="uncertain") as caught:
        catalog.record(execution(channel, 1), {dataset.id: 0}, [])
    assert caught.value.fields["uncertain"] is True
    proxy.cut = None
    # A write to the same row waits until the server has committed or rolled back.
    direct.advance(channel.id, {dataset.id: 0})
    assert catalog.last_execution(channel.id) == (1 if done else 0)
    assert append(catalog, dataset, "a") == [1]
    catalog.close()
    direct.close()
    proxy.close()


@pytest.mark.parametrize("url", ["postgresql://127.0.0.1:1/x", "postgresql://u@localhost:99999/x", "postgresql://?a=b"])
def test_a_wrong_address_is_a_clear_error(url: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_catalog(url, "")
    json.dumps(caught.value.to_dict())


def test_a_wrong_password_is_not_shown(postgres_url: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_catalog(postgres_url.replace(":", ":hidden", 2).replace(":hidden//", "://"), "")
    assert "hidden" not in str(caught.value)
