"""What the coordinator remembers is there after a restart, and no more of it than was asked for."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing

import pytest

from tocsin.coordinator import store as module
from tocsin.coordinator.events import BrokerRow, Note, Sample
from tocsin.coordinator.store import Store
from tocsin.errors import AlreadyExists, StorageError

NORTH = BrokerRow("north", "http://north", 2.0, 10, 1.0, 2.0, True, "identity")


def sample(pending):
    return Sample(1.0, 2.0, 0.5, 1.0, {"a": (1.0, 2.0, 3)}, pending)


def test_brokers_and_the_secret_are_there_after_a_restart(tmp_path):
    with closing(Store(tmp_path, 10)) as store:
        store.keep_broker(NORTH)
        secret = store.secret
    with closing(Store(tmp_path, 10)) as store:
        assert store.brokers() == [NORTH] and store.secret == secret


def test_the_newest_word_on_a_broker_counts(tmp_path):
    with closing(Store(tmp_path, 10)) as store:
        store.keep_broker(NORTH)
        store.keep_broker(BrokerRow("north", "http://moved", 1.0, 5))
        assert [row.url for row in store.brokers()] == ["http://moved"]


def test_a_dropped_broker_is_gone(tmp_path):
    with closing(Store(tmp_path, 10)) as store:
        store.keep_broker(NORTH)
        store.drop_broker("north")
        assert store.brokers() == []


def test_the_secret_is_nobody_elses_to_read(tmp_path):
    with closing(Store(tmp_path, 10)):
        assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_two_homes_have_two_secrets(tmp_path):
    with closing(Store(tmp_path / "a", 10)) as one, closing(Store(tmp_path / "b", 10)) as other:
        assert one.secret != other.secret and len(one.secret) == 32


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_secret_is_not_used(tmp_path, content):
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(StorageError, match="damaged"):
        Store(tmp_path, 10)


def test_a_secret_that_was_half_written_is_made_again(tmp_path):
    (tmp_path / "secret.new").write_bytes(b"half")
    with closing(Store(tmp_path, 10)) as store:
        assert len(store.secret) == 32


def test_a_damaged_database_is_not_used(tmp_path):
    (tmp_path / "coordinator.db").write_bytes(b"this is no database at all, " * 100)
    with pytest.raises(StorageError, match="not a database"):
        Store(tmp_path, 10)


def test_a_damaged_broker_is_told_of(tmp_path):
    with closing(Store(tmp_path, 10)) as store:
        store._db.execute("INSERT INTO brokers VALUES ('a', '{')")
        with pytest.raises(StorageError, match="damaged"):
            store.brokers()


def test_a_folder_that_cannot_be_made_is_told_of(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError) as refused:
        Store(tmp_path / "file" / "home", 10)
    assert refused.value.hint == "choose another --home"


def test_a_home_has_one_coordinator_at_a_time(tmp_path):
    with closing(Store(tmp_path, 10)), pytest.raises(StorageError, match="another coordinator uses it"):
        Store(tmp_path, 10)


def test_the_log_is_there_after_a_restart(tmp_path):
    with closing(Store(tmp_path, 10)) as store:
        store.write([(5.0, Note("move", "done", "somebody", "a", "b"))], [])
    with closing(Store(tmp_path, 10)) as store:
        (found,) = store.log(0, 10)
    assert found == {
        "number": 1,
        "time": 5.0,
        "kind": "move",
        "subscriber": "somebody",
        "source": "a",
        "target": "b",
        "text": "done",
    }


def test_the_log_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LOG", 5)
    with closing(Store(tmp_path, 10)) as store:
        for number in range(12):
            store.write([(float(number), Note("placed", str(number)))], [])
        assert [each["text"] for each in store.log(0, 100)] == ["7", "8", "9", "10", "11"]


def test_the_log_gives_the_newest_after_a_number(tmp_path):
    with closing(Store(tmp_path, 10)) as store:
        store.write([(0.0, Note("placed", str(number))) for number in range(6)], [])
        assert [each["text"] for each in store.log(2, 2)] == ["4", "5"]


def test_the_history_is_bounded(tmp_path):
    with closing(Store(tmp_path, 3)) as store:
        for pending in range(8):
            store.write([], [(float(pending), sample(pending))])
        assert [each["pending"] for each in store.samples(100)] == [5, 6, 7]
        assert [each["pending"] for each in store.samples(1)] == [7]


def test_what_cannot_be_written_leaves_nothing_half_done(tmp_path):
    with closing(Store(tmp_path, 10)) as store:
        store._db.execute("DROP TABLE history")
        with pytest.raises(sqlite3.Error):
            store.write([(0.0, Note("placed", "one"))], [(0.0, sample(1))])
        assert store.log(0, 10) == []


def test_a_user_keeps_its_subscriber(tmp_path):
    with closing(Store(tmp_path, 10)) as store:
        salt, known, subscriber = store.user("ann")
        assert known is None
        store.add_user("ann", salt, b"hash", subscriber)
    with closing(Store(tmp_path, 10)) as store:
        assert store.user("ann") == (salt, b"hash", subscriber)


def test_of_two_who_register_a_name_at_the_same_moment_one_gets_it(tmp_path):
    with closing(Store(tmp_path, 10)) as store:
        store.add_user("ann", b"salt", b"hash", "first-subscriber")
        with pytest.raises(AlreadyExists):
            store.add_user("ann", b"other", b"other hash", "second-subscriber")
