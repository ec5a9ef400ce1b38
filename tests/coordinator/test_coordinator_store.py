"""The coordinator's store survives a restart and stays within its bounds: SQLite, PostgreSQL."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tocsin.coordinator import store as module
from tocsin.coordinator.core.events import BrokerRow, Choice, Note, Sample
from tocsin.coordinator.store import Changes, Store, open_store
from tocsin.errors import LeaseHeld, StorageError, UserError

CHOICE = Choice("gsh", {"alpha": 0.2}, "random", ("peal", {}, "two-choices"))
NORTH = BrokerRow("north", "http://north", 2.0, 10, 1.0, 2.0, True, "key")

Open = Callable[..., Store]


@pytest.fixture
def opened(database_address: str, tmp_path: Path) -> Iterator[Open]:
    """Opens the same store at each call."""
    found: list[Store] = []

    def open_it(history: int = 10) -> Store:
        found.append(open_store(str(tmp_path), database_address, history))
        return found[-1]

    yield open_it
    for each in found:
        each.close()


@pytest.fixture
def store(opened: Open) -> Store:
    return opened()


def brokers(*rows: BrokerRow) -> Changes:
    return Changes(brokers={row.name: row for row in rows})


def notes(*texts: str) -> Changes:
    return Changes(notes=[(0.0, Note("placed", text)) for text in texts])


def sample(pending: int) -> Changes:
    return Changes(samples=[(float(pending), Sample(1.0, 2.0, 0.5, 1.0, {"a": (1.0, 2.0, 3)}, pending))])


def test_brokers_the_choice_and_the_secret_survive_a_restart(opened: Open) -> None:
    store = opened()
    store.write(Changes({"north": NORTH}, (CHOICE,)))
    store.close()
    again = opened()
    assert again.brokers() == [NORTH] and again.choice() == CHOICE
    assert again.secret == store.secret and len(store.secret) == 32


def test_a_newer_row_of_a_broker_replaces_the_older_one(store: Store) -> None:
    store.write(brokers(NORTH))
    store.write(brokers(BrokerRow("north", "http://moved", 1.0, 5)))
    assert [row.url for row in store.brokers()] == ["http://moved"]


def test_a_deleted_broker_is_gone(store: Store) -> None:
    store.write(brokers(NORTH, BrokerRow("south", "http://south", 1.0, 5)))
    store.write(Changes(brokers={"north": None, "unknown": None}))
    assert [row.name for row in store.brokers()] == ["south"]


def test_a_choice_can_be_deleted(store: Store) -> None:
    store.write(Changes(choice=(CHOICE,)))
    store.write(brokers(NORTH))
    assert store.choice() is not None
    store.write(Changes(choice=(None,)))
    assert store.choice() is None


def test_a_store_has_one_coordinator_at_a_time(opened: Open) -> None:
    first = opened()
    with pytest.raises(LeaseHeld, match="another coordinator serves this store") as refused:
        opened()
    assert refused.value.hint == "stop that process, or choose another --home or --store"
    first.close()
    opened()


def test_the_log_survives_a_restart(opened: Open) -> None:
    store = opened()
    store.write(Changes(notes=[(5.0, Note("migration", "done", "subscriber-1", "a", "b"))]))
    store.close()
    (found,) = opened().log(0, 10)
    whole = {"kind": "migration", "subscriber": "subscriber-1", "source": "a", "target": "b", "text": "done"}
    assert found == {"number": 1, "time": 5.0, **whole}


def test_the_log_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOG", 5)
    for number in range(12):
        store.write(notes(str(number)))
    assert [each["text"] for each in store.log(0, 100)] == ["7", "8", "9", "10", "11"]


def test_the_log_returns_the_newest_entries_after_a_number(store: Store) -> None:
    store.write(notes(*map(str, range(6))))
    assert [each["text"] for each in store.log(2, 2)] == ["4", "5"]


def test_the_history_is_bounded(opened: Open) -> None:
    store = opened(history=3)
    for pending in range(8):
        store.write(sample(pending))
    assert [each["pending"] for each in store.samples(100)] == [5, 6, 7]
    assert [each["pending"] for each in store.samples(1)] == [7]


def test_notes_and_samples_are_ordered_by_time(store: Store) -> None:
    store.write(Changes(notes=[(1.5, Note("placed", "between"))]))
    store.write(sample(1))
    store.write(sample(2))
    assert [kind for kind, _ in store.newest(10)] == ["sample", "note", "sample"]


def test_a_failed_write_leaves_no_partial_change(store: Store) -> None:
    wrong = Changes({"north": NORTH}, notes=[(0.0, Note("placed", "a lone \ud800"))])
    with pytest.raises(UserError, match="the store cannot store this value"):
        store.write(wrong)
    assert store.brokers() == [] and store.log(0, 10) == []


def test_a_damaged_broker_row_is_reported(store: Store, database_address: str, tmp_path: Path) -> None:
    if database_address:
        with psycopg.connect(database_address) as server:
            server.execute("INSERT INTO tocsin_coordinator.brokers VALUES ('a', '{')")
    else:
        with closing(sqlite3.connect(tmp_path / "coordinator.db")) as file, file:
            file.execute("INSERT INTO brokers VALUES ('a', x'7b')")
    with pytest.raises(StorageError, match="damaged"):
        store.brokers()


@pytest.mark.parametrize("wrong", ["mysql://localhost/x", "coordinator.db", " "])
def test_an_address_of_another_kind_of_store_is_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(UserError, match="the store must be '' or a postgresql:// address"):
        open_store(str(tmp_path), wrong, 10)


# -- the file ----------------------------------------------------------------------------------------------------------


def in_home(home: Path) -> Store:
    return open_store(str(home), "", 10)


def test_only_the_owner_can_read_the_secret(tmp_path: Path) -> None:
    with closing(in_home(tmp_path)):
        assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_two_homes_have_two_secrets(tmp_path: Path) -> None:
    with closing(in_home(tmp_path / "a")) as one, closing(in_home(tmp_path / "b")) as other:
        assert one.secret != other.secret


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_secret_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(StorageError, match="damaged"):
        in_home(tmp_path)


def test_a_half_written_secret_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "secret.new").write_bytes(b"half")
    with closing(in_home(tmp_path)) as store:
        assert len(store.secret) == 32


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "coordinator.db").write_bytes(b"this is not a database, " * 100)
    with pytest.raises(StorageError, match="not a database"):
        in_home(tmp_path)


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError) as refused:
        in_home(tmp_path / "file" / "home")
    assert refused.value.hint == "choose another --home"


def test_a_file_of_a_newer_schema_version_is_refused(tmp_path: Path) -> None:
    open_store(str(tmp_path), "", 10).close()
    with closing(sqlite3.connect(tmp_path / "coordinator.db")) as file, file:
        file.execute("UPDATE meta SET value = 99 WHERE name = 'version'")
    with pytest.raises(StorageError, match="the store has schema version 99, this release needs version 1") as refused:
        open_store(str(tmp_path), "", 10)
    assert "use the release of Tocsin that wrote it" in refused.value.hint
