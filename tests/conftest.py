"""Fixtures for all tests. Spark starts only when a test asks for it, and once per pytest session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Also without an installation, and for the helpers beside this file.
for folder in (Path(__file__).parent.parent / "src", Path(__file__).parent):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from tocsin.config import ClusterConfig  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tocsin.cluster.spark import SparkRuntime

#: Fixtures that take long to make and are made once a process: tests with the same one stay together.
SHARED = ("spark_runtime", "standalone_master", "documented", "url")
#: The longest go first, so that no process is left with one of them at the end. All other groups are files.
FIRST = ["spark_runtime", "documented", "url"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What ``make test`` gives to one of its processes: all tests with the same slow fixture, or else a file."""
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: FIRST.index(groups[item]) if groups[item] in FIRST else len(FIRST))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Packed bytes hold the time at which they were packed; the name of a test has to be the same in both processes."""
    return f"{argname}-gzip" if isinstance(val, bytes) and val.startswith(b"\x1f\x8b") else None


def _group(item: pytest.Item) -> str:
    used = set(getattr(item, "fixturenames", ()))
    return next((name for name in SHARED if name in used), item.path.stem)


@pytest.fixture(scope="session")
def spark_runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRuntime]:
    """One session for all tests of this pytest session, ``local[2]`` unless TOCSIN_TEST_MASTER says otherwise."""
    from tocsin.cluster.spark import SparkRuntime

    home = tmp_path_factory.mktemp("spark-home")
    # test_masters.py runs some tests again on other masters.
    master = os.environ.get("TOCSIN_TEST_MASTER") or "local[2]"
    runtime = SparkRuntime(ClusterConfig(home=str(home), master=master, driver_memory="1g"))
    runtime.start()
    yield runtime
    runtime.stop()


@pytest.fixture(scope="session")
def spark(spark_runtime: SparkRuntime) -> SparkSession:
    return spark_runtime.session


@pytest.fixture
def config(tmp_path: Path) -> ClusterConfig:
    """A configuration whose home is the test's own folder."""
    return ClusterConfig(home=str(tmp_path / "home"), master="local[2]", driver_memory="1g", port=0)


@pytest.fixture(scope="session")
def standalone_master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The ``spark://`` address of a real master with one worker. Use it from a child: ``sparkmaster.run_in_child``."""
    from sparkmaster import standalone

    with standalone(tmp_path_factory.mktemp("standalone")) as address:
        yield address
