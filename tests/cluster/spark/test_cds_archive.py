"""The archive of Spark's classes: which one is used, kept or deleted."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tocsin.cluster.spark.cds_archive import TRIES, CdsArchive
from tocsin.cluster.spark.java import Java


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    return tmp_path / "spark"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def archive(spark_home: Path, folder: Path, version: int = 17, *, brief: bool = False) -> CdsArchive:
    return CdsArchive(Java(spark_home.parent / "java", version, "PATH"), spark_home, folder, brief=brief)


def session(spark_home: Path, folder: Path, classes: int, version: int = 17, *, brief: bool = False) -> list[str]:
    """The options of a session that loads ``classes`` classes; its JVM writes the requested archive."""
    made = archive(spark_home, folder, version, brief=brief)
    options = made.options()
    for option in options:
        name, _, path = option.partition("=")
        if name == "-XX:ArchiveClassesAtExit":
            Path(path).write_text("classes")
    made.store(classes)
    return options


def test_the_first_session_writes_the_archive_that_the_second_uses(spark_home: Path, folder: Path) -> None:
    first, second = session(spark_home, folder, 100), session(spark_home, folder, 100)
    assert first[0].startswith("-XX:ArchiveClassesAtExit=")
    assert second == [f"-XX:SharedArchiveFile={archive(spark_home, folder).path}", "-Xshare:auto"]
    assert len(list(folder.iterdir())) == 1


USES, WRITES = "-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit"


def sessions(spark_home: Path, folder: Path, *classes: int) -> list[str]:
    """What each session does with the archive."""
    return [session(spark_home, folder, each)[0].partition("=")[0] for each in classes]


def test_after_a_session_with_many_more_classes_the_next_one_writes_an_archive(spark_home: Path, folder: Path) -> None:
    assert sessions(spark_home, folder, 100, 200, 200, 150, 210) == [WRITES, USES, WRITES, USES, USES]
    assert [each.name.rpartition("-")[2] for each in folder.iterdir()] == ["200.jsa"]


def test_a_brief_session_writes_an_archive_only_if_there_is_none(spark_home: Path, folder: Path) -> None:
    def brief(classes: int) -> str:
        return session(spark_home, folder, classes, brief=True)[0].partition("=")[0]

    assert [brief(100), brief(200), brief(200)] == [WRITES, USES, USES]
    assert sessions(spark_home, folder, 200) == [USES]  # which requests a better one
    assert brief(200) == USES
    assert sessions(spark_home, folder, 200) == [WRITES]


def test_a_smaller_archive_does_not_replace_a_larger_one(spark_home: Path, folder: Path) -> None:
    assert sessions(spark_home, folder, 100, 200, 50, 90, 200, 50) == [WRITES, USES, WRITES, WRITES, WRITES, USES]
    assert [each.name.rpartition("-")[2] for each in folder.iterdir()] == ["200.jsa"]


def test_after_three_small_sessions_the_archive_stays(spark_home: Path, folder: Path) -> None:
    found = sessions(spark_home, folder, 100, 200, *[50] * TRIES, 50)
    assert found == [WRITES, USES, *[WRITES] * TRIES, USES]
    assert [each.name.rpartition("-")[2] for each in folder.iterdir()] == ["100.jsa"]


def test_a_jvm_that_died_on_the_way_to_a_better_archive_leaves_the_old_one(spark_home: Path, folder: Path) -> None:
    sessions(spark_home, folder, 100, 200)
    made = archive(spark_home, folder)
    made.options()
    made.store(0)
    assert made.path is not None
    assert sessions(spark_home, folder, 200) == [WRITES]


@pytest.mark.parametrize("text", ["", "many", "-1", "0"])
def test_an_unreadable_request_for_a_better_archive_is_ignored(spark_home: Path, folder: Path, text: str) -> None:
    session(spark_home, folder, 100)
    path = archive(spark_home, folder).path
    assert path is not None
    path.with_name(path.name.rpartition("-")[0] + ".wanted").write_text(text)
    assert sessions(spark_home, folder, 100) == [USES]


def test_a_jvm_that_died_leaves_no_archive(spark_home: Path, folder: Path) -> None:
    made = archive(spark_home, folder)
    made.options()
    made.store(0)
    assert made.path is None


def test_another_java_has_its_own_archive(spark_home: Path, folder: Path) -> None:
    session(spark_home, folder, 100)
    assert session(spark_home, folder, 100, version=21)[0].startswith("-XX:ArchiveClassesAtExit=")


def test_without_a_writable_folder_there_is_no_archive(spark_home: Path, tmp_path: Path) -> None:
    assert archive(spark_home, tmp_path / "not there").options() == []


def test_an_unused_archive_is_deleted_after_a_month(spark_home: Path, folder: Path) -> None:
    session(spark_home, folder, 100)
    path = archive(spark_home, folder).path
    assert path is not None
    long_ago = time.time() - 31 * 86_400
    os.utime(path, (long_ago, long_ago))
    session(spark_home, folder, 100, version=21)
    assert not path.exists()
