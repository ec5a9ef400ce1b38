"""The channel and ingestion tests on other masters: nothing but the segment path is shared with the executors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sparkmaster import child_env

pytestmark = pytest.mark.timeout(900)
HERE = Path(__file__).parent
#: What an execution and a commit do with Spark; the rest of those files does not depend on the master.
CHOSEN = "each_subscription or near_me or executors or restart"


def run_on(master: str, catalog: str = "") -> None:
    """Runs the tests in a process of its own, as a process has one Spark session."""
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", CHOSEN),
            *(str(HERE / "channels" / "test_channels.py"), str(HERE / "ingest" / "test_gateway.py")),
        ],
        env=child_env(TOCSIN_TEST_MASTER=master, TOCSIN_TEST_CATALOG=catalog),
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
        cwd=HERE.parent.parent,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout


def test_channels_and_ingestion_work_on_a_standalone_master_with_postgresql_as_catalog(
    standalone_master: str, postgres_url: str
) -> None:
    run_on(standalone_master, postgres_url)


@pytest.mark.slow
def test_channels_and_ingestion_work_on_a_local_cluster() -> None:
    run_on("local-cluster[2,1,1024]")


@pytest.mark.slow
def test_channels_and_ingestion_work_on_a_standalone_master(standalone_master: str) -> None:
    run_on(standalone_master)


@pytest.mark.slow
def test_channels_and_ingestion_work_with_postgresql_as_catalog(postgres_url: str) -> None:
    run_on("local[2]", postgres_url)
