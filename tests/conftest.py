"""Fixtures for all tests. Spark starts only when a test asks for it, and once per pytest session."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# Makes ``tocsin`` importable without an installation, and the helpers beside this file.
for folder in (Path(__file__).parent.parent / "src", Path(__file__).parent):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from groups import Groups  # noqa: E402
from tocsin.config import ClusterConfig  # noqa: E402

# Every run tries the same examples, however slow the machine is; ``make test-slow`` explores with new ones.
settings.register_profile(
    "same",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", settings.get_profile("same"), derandomize=False, max_examples=100)
settings.load_profile("same")
# Otherwise Hypothesis also tries constants of all imported modules, which depend on the tests that ran before.
providers._get_local_constants = providers.Constants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from postgres import Server
    from tocsin.cluster.spark.session import SparkRuntime


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts the tests in the background ignores SIGINT, and so would every process that a test interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Groups(config))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Gzip data contains its time of compression; the name of a test has to be the same in both processes."""
    return f"{argname}-gzip" if isinstance(val, bytes) and val.startswith(b"\x1f\x8b") else None


@pytest.fixture(scope="session")
def exploration_seed(pytestconfig: pytest.Config) -> int:
    """The seed of random choices in slow tests: ``make test-slow`` draws a new one and prints how to repeat it."""
    return int(pytestconfig.getoption("hypothesis_seed") or 0)


@pytest.fixture(scope="session")
def spark_runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRuntime]:
    """One session for all tests of this pytest session, ``local[2]`` unless TOCSIN_TEST_MASTER says otherwise."""
    from sparkmaster import SHORT_LIVED
    from tocsin.cluster.spark.session import SparkRuntime

    home = tmp_path_factory.mktemp("spark-home")
    # test_masters.py runs some tests again on other masters.
    master = os.environ.get("TOCSIN_TEST_MASTER") or "local[2]"
    readable = (str(tmp_path_factory.getbasetemp()),)
    runtime = SparkRuntime(
        ClusterConfig(home=str(home), master=master, driver_memory="1g", load_paths=readable, **SHORT_LIVED)
    )
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


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """One PostgreSQL server for all tests of this pytest session."""
    from postgres import Server

    with Server() as server:
        yield server


@pytest.fixture
def fresh_postgres(postgres_server: Server) -> Callable[[], str]:
    """Makes a new, empty database and gives its postgresql:// address."""
    return postgres_server.fresh


@pytest.fixture(scope="session")
def shared_database(postgres_server: Server) -> str:
    return postgres_server.fresh()


@pytest.fixture(params=["sqlite", "postgres"])
def database_address(request: pytest.FixtureRequest) -> str:
    """The address of an empty database, SQLite and PostgreSQL in turn, for the setting ``catalog`` or ``store``."""
    if request.param == "sqlite":
        return ""
    server: Server = request.getfixturevalue("postgres_server")
    return server.empty(request.getfixturevalue("shared_database"))
