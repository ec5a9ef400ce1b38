"""Live feeds in the data cluster: only their definition is there, and all that needs a dataset is refused."""

from __future__ import annotations

import httpx
import pytest

from sparkless import sparkless
from tocsin.errors import Conflict, LimitExceeded, ParseError, TocsinError, TypeMismatch

ALARMS = "CREATE FEED Alarms (kind string NOT NULL, severity int) LIVE"


def test_the_definition_is_kept_and_shown(tmp_path):
    with sparkless(tmp_path) as (cluster, url):
        cluster.execute(ALARMS)
        (found,) = [
            each for each in httpx.get(f"{url}/feeds", trust_env=False).json()["feeds"] if each["type"] == "live"
        ]
        assert found["name"] == "Alarms" and found["dataset"] is None and not found["running"]
        assert [(each["name"], each["type"], each["nullable"]) for each in found["columns"]] == [
            ("kind", "string", False),
            ("severity", "int", True),
        ]
    with sparkless(tmp_path) as (cluster, url):
        assert "Alarms" in [each["name"] for each in cluster.feeds_described()]
        cluster.execute("DROP FEED Alarms")
        assert "Alarms" not in [each["name"] for each in cluster.feeds_described()]


@pytest.mark.parametrize("statement", ["CONNECT FEED Alarms TO DATASET Reports", "START FEED Alarms"])
def test_what_needs_a_dataset_is_refused(tmp_path, statement):
    with sparkless(tmp_path) as (cluster, url):
        cluster.execute(ALARMS)
        with pytest.raises(Conflict, match="live"):
            cluster.execute(statement)
        posted = httpx.post(f"{url}/feeds/Alarms", json={"kind": "fire"}, trust_env=False)
        assert posted.status_code == 409 and "at a broker" in posted.json()["error"]["hint"]


@pytest.mark.parametrize(
    ("statement", "error", "says"),
    [
        ("CREATE FEED f LIVE", ParseError, "needs its columns"),
        ("CREATE FEED f () LIVE", ParseError, "at least one column"),
        ("CREATE FEED f (a int)", ParseError, "LIVE"),
        ("CREATE FEED f (a int, A string) LIVE", ParseError, "twice"),
        ("CREATE FEED f (a nonsense) LIVE", (ParseError, TypeMismatch), "nonsense"),
        ('CREATE FEED f WITH {"type": "live"}', TocsinError, "http or file"),
        (f"CREATE FEED f ({', '.join(f'c{n} int' for n in range(20_000))}) LIVE", LimitExceeded, "columns"),
        (f"CREATE FEED f (s struct<{', '.join(f'c{n}:int' for n in range(9_000))}>) LIVE", LimitExceeded, "type of"),
    ],
)
def test_a_wrong_definition_is_refused(tmp_path, statement, error, says):
    with sparkless(tmp_path) as (cluster, _):
        with pytest.raises(error, match=says):
            cluster.execute(statement)
        assert "f" not in [each["name"] for each in cluster.feeds_described()]
