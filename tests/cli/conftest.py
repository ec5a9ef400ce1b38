from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from served import served

SCRIPT = """
CREATE ACTIVE DATASET Reports (id string, kind string, n int) PRIMARY KEY id;
CREATE FEED ReportFeed; CONNECT FEED ReportFeed TO DATASET Reports; START FEED ReportFeed;
CREATE BROKER east AT "http://127.0.0.1:9/notify";
CREATE CONTINUOUS CHANNEL Alarms(kind string) { SELECT r.id, r.n FROM Reports r WHERE is_new(r) AND r.kind = kind };
SUBSCRIBE TO Alarms("fire") ON east;
"""


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A data cluster with one dataset, one feed and one channel."""
    with served(tmp_path_factory.mktemp("cluster")) as address:
        httpx.post(address + "/sql", content=SCRIPT, timeout=120).raise_for_status()
        yield address
