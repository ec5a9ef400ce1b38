"""The clock of a data cluster jumps: no result and no idempotency key expires by it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import httpx
import pytest

from sparkless import Sparkless, sparkless
from tocsin.cluster.model import Post
from tocsin.steady_clock import SteadyClock

DAYS = 8 * 86_400.0


def post(cluster: Sparkless) -> bool:
    """Whether the same post was stored before."""
    body = json.dumps([{"user": "ann", "lat": 1.0, "lon": 2.0}]).encode()
    return cluster.publish(Post("LocationFeed", body, idempotency_key="once")).result(60).repeated


@pytest.mark.parametrize("jump", [DAYS, -DAYS])
def test_a_jump_expires_nothing_and_a_repeated_post_is_stored_once(tmp_path: Path, jump: float) -> None:
    ahead = 0.0
    with sparkless(tmp_path / "data") as (cluster, url):
        cluster.context.clock = SteadyClock(3_600.0, wall=lambda: time.time() + ahead)
        cluster.register_broker("b", "http://127.0.0.1:9/notify")
        cluster.subscribe("Above", "b", [[5]]).result()
        cluster.found("Above", ([5], [{"n": 7}]))
        assert not post(cluster)
        ahead = jump
        cluster.maintenance.expire()
        assert post(cluster)
        assert len(cluster.executions("Above")) == 1
        assert f"{jump:+.0f} s" in httpx.get(f"{url}/healthz").json()["clock"]
        ahead = 0.0
        cluster.maintenance.expire()
        assert post(cluster)
        assert httpx.get(f"{url}/healthz").json()["clock"] == ""


def test_results_and_keys_survive_a_jump_while_the_data_cluster_was_stopped(tmp_path: Path) -> None:
    with sparkless(tmp_path / "data") as (cluster, _):
        cluster.register_broker("b", "http://127.0.0.1:9/notify")
        cluster.subscribe("Above", "b", [[5]]).result()
        assert not post(cluster)
        cluster.maintenance.expire()
        cluster.context.catalog.keep_time(time.time() - DAYS)  # as if the clock were ahead from now on
    with sparkless(tmp_path / "data") as (cluster, url):
        cluster.maintenance.expire()
        assert post(cluster)
        assert "jumped" in httpx.get(f"{url}/healthz").json()["clock"]
        assert "tocsin_clock_jump_seconds 6912" in httpx.get(f"{url}/metrics").text
    with sparkless(tmp_path / "data", clock_grace=0.0) as (cluster, url):  # the operator accepts the time
        cluster.maintenance.expire()
        assert httpx.get(f"{url}/healthz").json()["clock"] == ""
