"""What the coordinator serves over HTTP: events, the topology with long polling, the page, the forwarded paths."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from broker_lab import broker
from coordinator_lab import Coordinator, coordinator

from sparkless import sparkless
from tocsin.dashboard.files import FOLDER


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    folder = tmp_path_factory.mktemp("watched")
    with (
        sparkless(folder / "data") as (_, cluster),
        coordinator(folder / "coordinator", interval=0.2, balance_every=0.5, cluster=cluster) as running,
        broker(folder / "a", cluster, "a", "--coordinator", running.url),
    ):
        yield running


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    """Without a data cluster."""
    with coordinator(tmp_path_factory.mktemp("standalone")) as running:
        yield running


class Stream:
    """Parses events as they arrive."""

    def __init__(self, response: httpx.Response) -> None:
        self.lines = response.iter_lines()
        self.id = ""

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        event = ""
        for line in self.lines:
            name, _, value = line.partition(": ")
            if name == "id":
                self.id = value
            elif name == "event":
                event = value
            elif name == "data":
                yield event, json.loads(value)

    def until(self, event: str, **fields: Any) -> Any:
        for kind, data in self:
            if kind == event and fields.items() <= data.items():
                return data
        raise AssertionError(f"the stream ended before {event} {fields}")


def following(url: str, **options: Any) -> Any:
    return httpx.stream("GET", f"{url}/events", timeout=60, **options)


def test_events_are_streamed_and_can_be_resumed(network: Coordinator) -> None:
    with following(network.url) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        stream = Stream(response)
        assert stream.until("topology")["version"] > 0
        stream.until("sample")
        assert httpx.post(f"{network.url}/brokers/a/drain", timeout=60).status_code == 200
        stream.until("note", kind="draining", source="a")
        last = stream.id
    httpx.post(f"{network.url}/brokers/a/undrain", timeout=60)
    with following(network.url, headers={"last-event-id": last}) as response:
        assert next(iter(Stream(response)))[0] == "hello"
        Stream(response)
    with following(network.url, params={"after": last}) as response:
        Stream(response).until("note", kind="undrained")


def test_a_new_reader_gets_the_backlog_from_before_a_restart(tmp_path) -> None:
    with coordinator(tmp_path) as running:
        httpx.put(f"{running.url}/placement", json={"placement": "random"}, timeout=60)
        running.end()
        running.start()
        with following(running.url, params={"backlog": 10}) as response:
            Stream(response).until("note", kind="placement", text="random")
        assert httpx.get(f"{running.url}/topology", timeout=60).json()["placement"] == "random"


def test_an_open_event_stream_does_not_keep_the_coordinator_from_stopping(tmp_path) -> None:
    with coordinator(tmp_path) as running, following(running.url) as response:
        stream = Stream(response)
        stream.until("topology")
        running.process.terminate()
        assert all(kind != "gap" for kind, _ in stream)
        assert running._wait() == 0


def test_the_topology_waits_for_a_change(network: Coordinator) -> None:
    first = httpx.get(f"{network.url}/topology", timeout=60).json()
    second = httpx.get(f"{network.url}/topology", params={"wait": first["version"]}, timeout=60).json()
    assert second["version"] > first["version"] and second["time"] >= first["time"]
    assert httpx.get(f"{network.url}/topology?wait=0", timeout=60).json()["version"] >= second["version"]


@pytest.mark.parametrize(
    "path",
    [
        "/topology?wait=x",
        "/topology?wait=-1",
        "/topology?until=1",
        "/events?backlog=x",
        "/events?backlog=-1",
        "/events?backlog=10001",
        "/events?after=" + "9" * 65,
        "/events?unknown=1",
    ],
)
def test_an_invalid_query_is_refused(standalone: Coordinator, path: str) -> None:
    assert httpx.get(standalone.url + path, timeout=60).status_code == 400


def test_strategy_and_placement_are_shown_with_the_known_ones(standalone: Coordinator) -> None:
    strategy = httpx.get(f"{standalone.url}/strategy", timeout=60).json()
    assert strategy["strategy"] == "peal" and strategy["settings"]["trigger"] == 0.05
    assert strategy["known"]["multistage"]["gamma"] == 0.5 and "drain" not in strategy["known"]
    placement = httpx.get(f"{standalone.url}/placement", timeout=60).json()
    assert placement["placement"] == "two-choices" and "nearest" in placement["known"]


def test_a_strategy_is_switched_and_switched_back(standalone: Coordinator) -> None:
    body = {"strategy": "multistage", "settings": {"alpha": 0.2}}
    assert httpx.put(f"{standalone.url}/strategy", json=body, timeout=60).json()["strategy"] == "multistage"
    found = httpx.get(f"{standalone.url}/strategy", timeout=60).json()
    assert found["settings"]["alpha"] == 0.2 and found["settings"]["gamma"] == 0.5
    assert httpx.put(f"{standalone.url}/strategy", json={"strategy": "peal"}, timeout=60).status_code == 200


def test_a_component_is_swapped_and_what_runs_is_shown(standalone: Coordinator) -> None:
    body = {"strategy": "ldm", "components": {"detector": {"use": "cov", "alpha": 0.4}}}
    assert httpx.put(f"{standalone.url}/strategy", json=body, timeout=60).json()["strategy"] == "ldm"
    found = httpx.get(f"{standalone.url}/balance/components", timeout=60).json()
    assert (found["strategy"], found["running"]["detector"]) == ("ldm", {"use": "cov", "settings": {"alpha": 0.4}})
    assert httpx.get(f"{standalone.url}/strategy", timeout=60).json()["components"] == body["components"]
    (cov,) = [each for each in found["components"] if each["name"] == "cov"]
    assert cov["runs_as"] == ["detector"] and cov["settings"]["alpha"] == {"type": "float", "default": 0.15}
    assert httpx.put(f"{standalone.url}/strategy", json={"strategy": "peal"}, timeout=60).status_code == 200
    found = httpx.get(f"{standalone.url}/balance/components", timeout=60).json()
    assert found["running"]["balancer"]["use"] == "regroup"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/strategy", {"strategy": "psychic"}, 404),
        ("/strategy", {"strategy": "ldm", "settings": {"delta": 1}}, 400),
        ("/strategy", {"strategy": 1}, 400),
        ("/strategy", {}, 400),
        ("/strategy", {"strategy": "ldm", "more": 1}, 400),
        ("/strategy", {"strategy": "ldm", "settings": {"alpha": None}}, 400),
        ("/strategy", {"strategy": "x" * 200}, 400),
        ("/strategy", {"strategy": "ldm", "components": {"detector": "psychic"}}, 404),
        ("/strategy", {"strategy": "ldm", "components": {"psychic": "cov"}}, 404),
        ("/strategy", {"strategy": "ldm", "components": {"detector": "draining"}}, 400),
        ("/strategy", {"strategy": "ldm", "components": {"detector": 3}}, 400),
        ("/strategy", {"strategy": "ldm", "components": {"detector": {"use": "cov", "alpha": None}}}, 400),
        ("/strategy", {"strategy": "ldm", "components": ["cov"]}, 400),
        ("/strategy", {"strategy": "ldm", "components": {str(n): "cov" for n in range(40)}}, 400),
        ("/placement", {"placement": "psychic"}, 404),
        ("/placement", {"placement": ""}, 404),
        ("/placement", {"strategy": "ldm"}, 400),
        ("/placement", [], 400),
    ],
)
def test_an_invalid_reconfiguration_is_refused(standalone: Coordinator, path: str, body: Any, status: int) -> None:
    found = httpx.put(standalone.url + path, json=body, timeout=60)
    assert found.status_code == status and found.json()["error"]["message"]


@pytest.mark.parametrize(("method", "path"), [("PUT", "/strategy"), ("PUT", "/placement")])
def test_another_website_cannot_reconfigure_the_network(network: Coordinator, method: str, path: str) -> None:
    headers = {"origin": "https://evil.example"}
    assert httpx.request(method, network.url + path, json={}, headers=headers, timeout=60).status_code == 403


def test_a_browser_is_redirected_to_the_page(standalone: Coordinator) -> None:
    found = httpx.get(standalone.url, headers={"accept": "text/html,*/*"}, follow_redirects=True, timeout=60)
    assert found.url.path == "/ui/" and "<title>Tocsin" in found.text
    assert httpx.get(f"{standalone.url}/ui", follow_redirects=True, timeout=60).url.path == "/ui/"
    assert httpx.get(standalone.url, timeout=60).json()["coordinator"]


def test_every_file_of_the_page_is_served_with_its_security_headers(standalone: Coordinator) -> None:
    paths = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert paths
    for path in paths:
        found = httpx.get(f"{standalone.url}/ui/{path.relative_to(FOLDER)}", timeout=60)
        assert found.status_code == 200 and found.content == path.read_bytes(), path
        assert found.headers["content-encoding"] == "gzip"
        assert found.headers["content-security-policy"].startswith("default-src 'self';")
        assert found.headers["x-content-type-options"] == "nosniff"


def test_a_file_that_has_not_changed_is_not_sent_again(standalone: Coordinator) -> None:
    first = httpx.get(f"{standalone.url}/ui/index.html", headers={"accept-encoding": "identity"}, timeout=60)
    assert first.headers["cache-control"] == "no-cache" and "content-encoding" not in first.headers
    again = httpx.get(f"{standalone.url}/ui/", headers={"if-none-match": first.headers["etag"]}, timeout=60)
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["nothing.js", "../files.py", "..%2ffiles.py", "%2e%2e/files.py", "//etc/passwd"])
def test_only_files_of_the_page_are_served(standalone: Coordinator, path: str) -> None:
    assert httpx.get(f"{standalone.url}/ui/{path}", timeout=60).status_code == 404


def test_channels_come_from_the_data_cluster(network: Coordinator) -> None:
    names = [each["name"] for each in httpx.get(f"{network.url}/cluster/channels", timeout=60).json()["channels"]]
    assert "OfKind" in names


def test_the_queries_of_channels_are_not_shown(network: Coordinator) -> None:
    text = httpx.get(f"{network.url}/cluster/channels", timeout=60).text
    assert "OfKind" in text and "SELECT" not in text and "Reports" not in text


def test_long_polls_through_the_coordinator_leave_those_of_the_data_cluster_to_others(network: Coordinator) -> None:
    cluster = network.settings["cluster"]
    path = "/channels/OfKind/executions?after=999&wait=60"

    async def attack() -> tuple[list[int], int]:
        async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None)) as client:
            polls = [asyncio.create_task(client.get(f"{network.url}/cluster{path}")) for _ in range(140)]
            while sum(poll.done() for poll in polls) < 132:
                await asyncio.wait([poll for poll in polls if not poll.done()], return_when=asyncio.FIRST_COMPLETED)
            refused = [poll.result().status_code for poll in polls if poll.done()]
            other = await client.get(f"{cluster}/channels/OfKind/executions?after=999&wait=1")
            for poll in polls:
                poll.cancel()
            return refused, other.status_code

    refused, other = asyncio.run(attack())
    assert set(refused) == {503} and other == 200


def test_no_other_path_of_the_data_cluster_is_forwarded(network: Coordinator) -> None:
    assert httpx.get(f"{network.url}/cluster/brokers", timeout=60).status_code == 404
    assert httpx.post(f"{network.url}/cluster/channels", timeout=60).status_code == 405


def test_without_a_data_cluster_the_error_names_the_option(standalone: Coordinator) -> None:
    found = httpx.get(standalone.url + "/cluster/channels", timeout=60)
    assert found.status_code == 404 and "--cluster" in found.json()["error"]["hint"]


def test_the_coordinator_has_no_paths_of_the_demo(standalone: Coordinator) -> None:
    for path in ("/city", "/local/brokers"):
        assert httpx.get(standalone.url + path, timeout=60).status_code == 404


def test_an_unreachable_data_cluster_is_a_bad_gateway(tmp_path) -> None:
    with coordinator(tmp_path, cluster="http://127.0.0.1:9") as running:
        found = httpx.get(running.url + "/cluster/channels", timeout=60)
        assert (found.status_code, found.json()["error"]["code"]) == (502, "unreachable")


def test_a_reconfiguration_needs_the_admin_token(tmp_path) -> None:
    with coordinator(tmp_path, admin_token="sesame") as running:
        for path, body in (("/strategy", {"strategy": "ldm"}), ("/placement", {"placement": "random"})):
            assert httpx.put(running.url + path, json=body, timeout=60).status_code == 401
            headers = {"authorization": "Bearer sesame"}
            assert httpx.put(running.url + path, json=body, headers=headers, timeout=60).status_code < 300
