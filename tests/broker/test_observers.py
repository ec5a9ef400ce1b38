"""From other machines a broker's load is seen with its observer token only."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from broker_lab import broker

from sparkless import Sparkless
from tocsin.broker.observers import Observers
from tocsin.errors import Unauthorized

VIEWS = ("/load", "/metrics", "/balancing", "/balancing/components")
OPEN = ("/", "/healthz", "/readyz", "/openapi.json", "/asyncapi.json")
PUBLIC, INSIDE = 8481, 9481


def bearer(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer " + token.encode())]


def test_a_broker_that_others_reach_shows_its_load_with_its_token_only(
    data: tuple[Sparkless, str], tmp_path: Path
) -> None:
    public = {"public_url": "http://broker.example", "hosts": ["127.0.0.1"], "observer_token": "seen"}
    with broker(tmp_path, data[1], "observed", **public) as found, httpx.Client(base_url=found.url) as http:
        for path in VIEWS:
            refused = http.get(path)
            assert refused.status_code == 401 and "observer_token" in refused.json()["error"]["hint"], path
            assert http.get(path, headers={"authorization": "Bearer other"}).status_code == 401
            assert http.get(path, headers={"authorization": "Bearer seen"}).status_code == 200
        assert [http.get(path).status_code for path in OPEN] == [200] * len(OPEN)
        inside = found.facts["inside"]  # on loopback
        assert [httpx.get(inside + path).status_code for path in VIEWS] == [200] * len(VIEWS)


def test_on_loopback_everybody_sees_it() -> None:
    Observers("", frozenset({PUBLIC})).check(PUBLIC, [])
    Observers("seen", frozenset({PUBLIC})).check(PUBLIC, bearer("other"))


def test_each_port_counts_by_itself() -> None:
    observers = Observers("", frozenset({PUBLIC}))
    with pytest.raises(Unauthorized, match="needs a token") as refused:
        observers.check(INSIDE, [])
    assert "observer_token" in refused.value.hint


@pytest.mark.parametrize("headers", [[], bearer("other"), bearer(""), [(b"authorization", b"seen")]])
def test_a_wrong_or_missing_token_is_refused(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(Unauthorized, match="wrong or missing"):
        Observers("seen", frozenset()).check(PUBLIC, headers)


@pytest.mark.parametrize("token", ["", "seen"])
def test_metrics_alone_can_be_opened_for_scrapers(token: str) -> None:
    observers = Observers(token, frozenset(), open_metrics=True)
    observers.check(PUBLIC, [], metrics=True)
    with pytest.raises(Unauthorized):
        observers.check(PUBLIC, [])
