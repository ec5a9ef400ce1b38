"""A broker that was unreachable until results expired is still notified of them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from sparkless import Sparkless, sparkless
from tocsin.cluster.model import Broker, Channel, OutboxEntry
from tocsin.errors import NotFound


@pytest.fixture
def cluster(tmp_path: Path) -> Sparkless:
    with sparkless(tmp_path / "data", retention=60.0) as (running, _):
        running.register_broker("b", "http://127.0.0.1:9/notify")  # no server listens there
        yield running


@pytest.mark.parametrize("channel", ["Above", "PushedAbove"])
def test_a_broker_is_notified_of_an_expired_execution_and_gets_an_error_when_it_pulls(
    cluster: Sparkless, channel: str
) -> None:
    cluster.subscribe(channel, "b", [[5]]).result()
    number = cluster.found(channel, ([5], [{"n": 7}]))
    cluster.maintenance.expire(now=time.time() + 1_000.0)
    definition, broker = cluster.context.definitions.get(Channel, channel), cluster.context.definitions.get(Broker, "b")
    (entry,) = cluster.context.catalog.outbox(broker.id)
    assert entry == OutboxEntry(broker.id, definition.id, number)
    notified = json.loads(cluster.channel_manager.message(broker, entry) or b"null")
    assert (notified["channel"], notified["execution"], "results" in notified) == (channel, number, False)
    with pytest.raises(NotFound):
        list(cluster.pull(channel, number, "b"))
