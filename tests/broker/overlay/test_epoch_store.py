"""The epoch of a broker grows with every start."""

from __future__ import annotations

import pytest

from tocsin.broker.overlay.epoch_store import next_epoch
from tocsin.errors import StorageError


def test_it_grows_with_every_start_whatever_the_clock_says(tmp_path):
    file = tmp_path / "b.epoch"
    assert [next_epoch(file, clock) for clock in (1_000.0, 1_000.5, 10.0, 5_000.0)] == [1_000, 1_001, 1_002, 5_000]


def test_a_broker_that_has_lost_its_home_grows_on(tmp_path):
    before = next_epoch(tmp_path / "b.epoch", 1_000.0)
    (tmp_path / "b.epoch").unlink()
    assert next_epoch(tmp_path / "b.epoch", 1_001.0) > before


@pytest.mark.parametrize("damage", ["x", "1.5", "1 2"])
def test_a_damaged_file_is_refused_with_what_to_do(tmp_path, damage):
    (tmp_path / "b.epoch").write_text(damage)
    with pytest.raises(StorageError, match="delete the file"):
        next_epoch(tmp_path / "b.epoch", 1_000.0)
    assert (tmp_path / "b.epoch").read_text() == damage


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(StorageError):
        next_epoch(tmp_path / "missing" / "b.epoch", 1_000.0)
