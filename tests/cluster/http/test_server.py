from __future__ import annotations

import gzip
import json
import logging
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest
from standin import StandIn

from cluster_server import serving
from tocsin.cluster.model import Post
from tocsin.config import ClusterConfig, Limits
from tocsin.errors import StorageError, UserError
from tocsin.http.server import address, bind

LIMITS = Limits(request_bytes=10_000, statement_bytes=1_000, subscriptions_per_request=3)
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}


@pytest.fixture
def cluster() -> StandIn:
    return StandIn()


@pytest.fixture
def client(cluster: StandIn) -> Iterator[httpx.Client]:
    with serving(cluster, ClusterConfig(port=0, limits=LIMITS)) as url, httpx.Client(base_url=url, timeout=60) as http:
        yield http
        cluster.hold.set()


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


# -- posts ---------------------------------------------------------------------------------------------------------


def test_a_post_reaches_the_cluster_with_its_options(client, cluster):
    headers = {"content-type": "application/x-ndjson", "idempotency-key": "k1", "content-encoding": "gzip"}
    body = gzip.compress(b'{"a":1}\n')
    answer = client.post("/feeds/reports", params={"unknown": "ignore"}, content=body, headers=headers)
    assert (answer.status_code, answer.json()["accepted"]) == (200, 1)
    assert cluster.posts == [Post("reports", body, "application/x-ndjson", "gzip", "k1", unknown="ignore")]


def test_a_name_is_percent_decoded(client):
    assert client.post("/feeds/my%20feed", content=b"{}").json()["error"]["name"] == "my feed"


def test_a_chunked_body_is_joined(client, cluster):
    client.post("/feeds/reports", content=iter([b"[1", b",2]"]))
    assert cluster.posts[0].body == b"[1,2]"


def test_a_chunked_body_is_refused_as_soon_as_it_is_too_large(client):
    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 1_000

    assert code(client.post("/feeds/reports", content=endless())) == (413, "limit_exceeded")


def test_a_post_does_not_wait_for_a_running_script(client, cluster):
    with client.stream("POST", "/sql", content="hold", headers={"accept": "application/x-ndjson"}) as script:
        assert cluster.held.wait(120)
        assert client.post("/feeds/reports", content=b"{}").status_code == 200
        cluster.hold.set()
        assert script.read()


# -- bad requests --------------------------------------------------------------------------------------------------

BIG = b"x" * 10_001
SUBSCRIBE = "/channels/alarms/subscriptions"

BAD_REQUESTS = [
    ("POST", "/feeds/nothing", {"content": b"{}"}, 404, "not_found"),
    ("POST", "/feeds/reports?atomic=maybe", {"content": b"{}"}, 400, "malformed"),
    ("POST", "/feeds/reports?atomic=1&atomic=1", {"content": b"{}"}, 400, "malformed"),
    ("POST", "/feeds/reports?colour=red", {"content": b"{}"}, 400, "malformed"),
    ("POST", "/feeds/reports?unknown=keep", {"content": b"{}"}, 400, "malformed"),
    ("POST", "/feeds/reports?unknown=%ff", {"content": b"{}"}, 400, "malformed"),
    ("POST", "/feeds/reports?atomic", {"content": b"{}"}, 400, "malformed"),
    ("POST", "/feeds/reports?atomic=true", {"content": b"{}"}, 422, "records_refused"),
    ("POST", "/feeds/reports", {"content": BIG}, 413, "limit_exceeded"),
    (
        "POST",
        "/feeds/reports",
        {"content": b"a=1", "headers": {"content-type": "text/html"}},
        415,
        "unsupported_media_type",
    ),
    ("POST", "/feeds/reports", {"data": {"a": "1"}}, 415, "unsupported_media_type"),
    (
        "POST",
        "/feeds/reports",
        {"content": b"{}", "headers": {"content-type": "application/json; charset=latin1"}},
        415,
        "unsupported_media_type",
    ),
    ("POST", "/feeds/reports", {"content": b"", "headers": {"content-encoding": "br"}}, 415, "unsupported_encoding"),
    ("POST", "/feeds/reports", {"content": b"{}", "headers": {"idempotency-key": ""}}, 400, "malformed"),
    ("POST", "/feeds/reports", {"content": b"{}", "headers": {"idempotency-key": "k" * 256}}, 400, "malformed"),
    ("POST", "/feeds/reports", {"content": b"{}", "headers": {b"idempotency-key": b"\xe9"}}, 400, "malformed"),
    ("POST", "/feeds/reports", {"content": b"{}", "headers": {"origin": "http://evil.example"}}, 403, "cross_origin"),
    ("POST", "/feeds/a%00b", {"content": b"{}"}, 400, "malformed"),
    ("POST", "/feeds/", {"content": b"{}"}, 404, "no_such_path"),
    ("POST", "/feeds/reports/more", {"content": b"{}"}, 404, "no_such_path"),
    ("GET", "/feeds/reports", {}, 405, "method_not_allowed"),
    ("POST", "/sql", {"content": b""}, 400, "malformed"),
    ("POST", "/sql", {"content": b" \n", "headers": TEXT}, 400, "malformed"),
    ("POST", "/sql", {"content": b"\xff", "headers": TEXT}, 400, "malformed"),
    ("POST", "/sql", {"content": b"x" * 1_001}, 413, "limit_exceeded"),
    ("POST", "/sql", {"content": b"{", "headers": JSON}, 400, "not_json"),
    ("POST", "/sql", {"content": b"[]", "headers": JSON}, 400, "malformed"),
    ("POST", "/sql", {"json": {"script": 1}}, 400, "malformed"),
    ("POST", "/sql", {"json": {"script": ""}}, 400, "malformed"),
    ("POST", "/sql", {"json": {"sql": "select"}}, 400, "malformed"),
    ("POST", "/sql", {"json": {"script": "select", "more": 1}}, 400, "malformed"),
    ("POST", "/sql", {"content": b"select", "headers": {"accept": "text/html"}}, 406, "not_acceptable"),
    ("POST", "/sql", {"content": b"select", "headers": {"content-type": "image/png"}}, 415, "unsupported_media_type"),
    ("POST", "/sql", {"content": b"select", "headers": {"origin": "null"}}, 403, "cross_origin"),
    ("POST", "/sql?format=csv", {"content": b"select"}, 400, "malformed"),
    ("POST", "/sql", {"content": b"wrong"}, 400, "syntax"),
    ("GET", "/sql", {}, 405, "method_not_allowed"),
    ("POST", "/query?format=xml", {"content": b"select"}, 400, "malformed"),
    ("POST", "/query", {"content": b"select", "headers": {"accept": "text/html;q=0.9"}}, 406, "not_acceptable"),
    ("POST", "/query", {"content": b"select", "headers": {"accept": "text/csv;q=0"}}, 406, "not_acceptable"),
    ("POST", "/query", {"json": {"script": "select"}}, 400, "malformed"),
    ("POST", "/query", {"content": b'{"sql":"\\ud800"}', "headers": JSON}, 400, "not_json"),
    ("GET", "/channels/nothing", {}, 404, "not_found"),
    ("GET", "/channels/a%0Ab", {}, 400, "malformed"),
    ("GET", "/channels?limit=1", {}, 400, "malformed"),
    ("GET", "/channels/", {}, 404, "no_such_path"),
    ("DELETE", "/channels/alarms", {}, 405, "method_not_allowed"),
    ("POST", SUBSCRIBE, {"json": {"broker": "b"}}, 400, "malformed"),
    ("POST", SUBSCRIBE, {"json": {"broker": "b", "args": [], "subscriptions": []}}, 400, "malformed"),
    ("POST", SUBSCRIBE, {"json": {"broker": "", "args": []}}, 400, "malformed"),
    ("POST", SUBSCRIBE, {"json": {"broker": 1, "args": []}}, 400, "malformed"),
    ("POST", SUBSCRIBE, {"json": {"broker": "a\0b", "args": []}}, 400, "malformed"),
    ("POST", SUBSCRIBE, {"json": {"broker": "b", "args": "x"}}, 400, "malformed"),
    ("POST", SUBSCRIBE, {"json": {"broker": "b", "subscriptions": ["x"]}}, 400, "malformed"),
    ("POST", SUBSCRIBE, {"json": {"broker": "b", "subscriptions": [[]] * 4}}, 413, "limit_exceeded"),
    ("POST", SUBSCRIBE, {"json": [1]}, 400, "malformed"),
    ("POST", SUBSCRIBE, {"content": b"", "headers": JSON}, 400, "not_json"),
    ("POST", SUBSCRIBE, {"content": b'{"broker":"b","args":' + b"[" * 5_000, "headers": JSON}, 413, "limit_exceeded"),
    ("POST", SUBSCRIBE, {"content": BIG, "headers": JSON}, 413, "limit_exceeded"),
    ("POST", SUBSCRIBE, {"content": b"{}", "headers": TEXT}, 415, "unsupported_media_type"),
    ("POST", "/channels/nothing/subscriptions", {"json": {"broker": "b", "args": []}}, 404, "not_found"),
    ("GET", f"{SUBSCRIBE}?limit=0", {}, 400, "malformed"),
    ("GET", f"{SUBSCRIBE}?limit=10001", {}, 400, "malformed"),
    ("GET", f"{SUBSCRIBE}?after=-1", {}, 400, "malformed"),
    ("GET", f"{SUBSCRIBE}?after=one", {}, 400, "malformed"),
    ("GET", f"{SUBSCRIBE}?after=9223372036854775808", {}, 400, "malformed"),
    ("PUT", SUBSCRIBE, {}, 405, "method_not_allowed"),
    ("POST", "/channels/alarms/unsubscribe", {"json": {"subscriptions": ["1"]}}, 400, "malformed"),
    ("POST", "/channels/alarms/unsubscribe", {"json": {"subscriptions": [0]}}, 400, "malformed"),
    ("POST", "/channels/alarms/unsubscribe", {"json": {"subscriptions": [1, 2, 3, 4]}}, 413, "limit_exceeded"),
    ("POST", "/channels/alarms/unsubscribe", {"json": {"broker": "b"}}, 400, "malformed"),
    ("GET", f"{SUBSCRIBE}/one", {}, 400, "malformed"),
    ("GET", f"{SUBSCRIBE}/0", {}, 400, "malformed"),
    ("GET", f"{SUBSCRIBE}/100", {}, 404, "not_found"),
    ("GET", f"{SUBSCRIBE}/1?broker=b", {}, 400, "malformed"),
    ("GET", "/channels/nothing/subscriptions/1", {}, 404, "not_found"),
    ("DELETE", f"{SUBSCRIBE}/one", {}, 400, "malformed"),
    ("DELETE", f"{SUBSCRIBE}/0", {}, 400, "malformed"),
    ("DELETE", f"{SUBSCRIBE}/9223372036854775808", {}, 400, "malformed"),
    ("DELETE", f"{SUBSCRIBE}/100", {}, 404, "not_found"),
    ("DELETE", f"{SUBSCRIBE}/1", {"headers": {"origin": "http://evil.example"}}, 403, "cross_origin"),
    ("POST", f"{SUBSCRIBE}/1/migrate", {"json": {}}, 400, "malformed"),
    ("POST", f"{SUBSCRIBE}/1/migrate", {"json": {"to": "b", "from": 2}}, 400, "malformed"),
    ("GET", f"{SUBSCRIBE}/1/results?limit=many", {}, 400, "malformed"),
    ("GET", "/channels/alarms/executions?wait=61", {}, 400, "malformed"),
    ("GET", "/channels/alarms/executions?wait=nan", {}, 400, "malformed"),
    ("GET", "/channels/alarms/executions?wait=-1", {}, 400, "malformed"),
    ("GET", "/channels/alarms/executions/1/results", {}, 400, "malformed"),
    ("GET", "/channels/alarms/executions/x/results?broker=b", {}, 400, "malformed"),
    ("GET", "/channels/alarms/executions/404/results?broker=b", {}, 404, "not_found"),
    ("PUT", "/brokers/b", {"json": {}}, 400, "malformed"),
    ("PUT", "/brokers/b", {"json": {"url": "ftp://x"}}, 400, "malformed"),
    ("PUT", "/brokers/b", {"json": {"url": "http://" + "x" * 2_000}}, 400, "malformed"),
    ("POST", "/brokers", {"json": {}}, 405, "method_not_allowed"),
    ("GET", "/healthz?deep=1", {}, 400, "malformed"),
    ("POST", "/", {}, 405, "method_not_allowed"),
    ("GET", "/nothing", {}, 404, "no_such_path"),
    ("PATCH", "/channels", {}, 405, "method_not_allowed"),
]


@pytest.fixture(scope="module")
def shared() -> Iterator[httpx.Client]:
    with (
        serving(StandIn(), ClusterConfig(port=0, limits=LIMITS)) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as http,
    ):
        yield http


@pytest.mark.parametrize(("method", "path", "request_", "status", "word"), BAD_REQUESTS)
def test_a_bad_request_is_refused_with_a_code(shared, method, path, request_, status, word):
    answer = shared.request(method, path, **request_)
    assert code(answer) == (status, word)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"]["message"]
    assert "Traceback" not in answer.text


def test_a_wrong_method_is_refused_with_the_allowed_ones(shared):
    assert shared.put(SUBSCRIBE).headers["allow"] == "GET, POST"


def raw(client: httpx.Client, *parts: bytes) -> tuple[int, str]:
    """Status and code of the answer to these bytes; the server closes the connection after it."""
    with socket.create_connection((client.base_url.host, client.base_url.port)) as sock:
        for part in parts:
            sock.sendall(part)
        sock.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: sock.recv(10_000), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def test_bytes_that_are_not_http_are_refused(shared):
    assert raw(shared, b"\x16\x03\x01 hello\r\n\r\n") == (400, "malformed")


HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        [b"GET /" + b"x" * 70_000],
        [HEAD, b"X-Long: " + b"x" * 70_000],
        [HEAD, b"X-Many: x\r\n" * 7_000],
        [HEAD + b"\r\n", HEAD, b"X-Long: " + b"x" * 70_000],
    ],
    ids=["url", "header", "headers", "second request"],
)
def test_an_endless_header_is_refused(shared, parts):
    with socket.create_connection((shared.base_url.host, shared.base_url.port)) as sock:
        try:
            for part in parts:
                sock.sendall(part)
            answer = b"".join(iter(lambda: sock.recv(10_000), b""))
        except ConnectionError:
            return
    assert b"HTTP/1.1 431" in answer
    assert b'"limit_exceeded"' in answer


def test_a_large_body_is_not_subject_to_the_limit_of_headers(cluster):
    with serving(cluster, ClusterConfig(port=0)) as url:
        assert httpx.post(url + "/feeds/reports", content=b"x" * 1_000_000, timeout=60).status_code == 200


def test_a_length_that_is_too_large_is_refused_before_the_body_is_sent(shared):
    with socket.create_connection((shared.base_url.host, shared.base_url.port)) as sock:
        sock.sendall(b"POST /feeds/reports HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 413")


# -- scripts -------------------------------------------------------------------------------------------------------


def test_a_script_is_answered_with_its_outcomes(client):
    outcomes = client.post("/sql", json={"script": "create; select"}).json()["outcomes"]
    assert [outcome["kind"] for outcome in outcomes] == ["word", "query"]
    assert outcomes[1]["columns"] == [{"name": "a", "type": "int64"}, {"name": "b", "type": "string"}]
    assert outcomes[1]["result"] == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


def test_a_failing_script_reports_what_was_done_and_where_it_failed(client):
    answer = client.post("/sql", content="one; two; wrong; three")
    assert code(answer) == (400, "syntax")
    assert (answer.json()["error"]["statement"], answer.json()["error"]["column"]) == (2, 11)
    assert [outcome["message"] for outcome in answer.json()["outcomes"]] == ["one done", "two done"]


def test_a_streamed_script_ends_with_its_error(client):
    answer = client.post("/sql", content="one; wrong", headers={"accept": "application/x-ndjson"})
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [next(iter(line)) for line in lines] == ["progress", "outcome", "error"]
    assert lines[2]["error"]["code"] == "syntax"


def test_a_streamed_outcome_arrives_while_the_next_statement_runs(client, cluster):
    with client.stream("POST", "/sql", content="one; hold", headers={"accept": "application/x-ndjson"}) as answer:
        lines = answer.iter_lines()
        assert "progress" in next(lines)
        assert "one done" in next(lines)
        cluster.hold.set()
        assert [next(iter(json.loads(line))) for line in lines] == ["progress", "outcome"]


def test_a_script_stops_when_its_client_disconnects(client, cluster):
    with client.stream("POST", "/sql", content="one; hold; two", headers={"accept": "application/x-ndjson"}) as answer:
        next(answer.iter_lines())
        assert cluster.held.wait(120)
    client.get("/healthz")  # answered on the same loop after it saw the end of that connection
    cluster.hold.set()
    with client.stream("POST", "/sql", content="last") as answer:
        answer.read()
    assert "two" not in cluster.ran


# -- queries -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_options", "media", "text"),
    [
        ({}, "application/json", '[{"a":1,"b":"x"},{"a":2,"b":null}]'),
        ({"headers": {"accept": "application/json"}}, "application/json", '[{"a":1,"b":"x"},{"a":2,"b":null}]'),
        ({"headers": {"accept": "text/csv"}}, "text/csv; charset=utf-8", '"a","b"\n1,"x"\n2,\n'),
        ({"headers": {"accept": "text/csv;q=0.1, */*"}}, "application/json", '[{"a":1,"b":"x"},{"a":2,"b":null}]'),
        ({"headers": {"accept": "text/*"}}, "text/csv; charset=utf-8", '"a","b"\n1,"x"\n2,\n'),
        ({"params": {"format": "ndjson"}}, "application/x-ndjson", '{"a":1,"b":"x"}\n{"a":2,"b":null}\n'),
    ],
)
def test_a_query_is_answered_in_the_requested_format(shared, request_options, media, text):
    answer = shared.post("/query", content="select", **request_options)
    assert (answer.headers["content-type"], answer.text) == (media, text)


def test_an_empty_answer_is_an_empty_array(client):
    assert client.post("/query", content="empty").text == "[]"


# -- results -------------------------------------------------------------------------------------------------------


def test_results_are_streamed(client):
    answer = client.get("/channels/alarms/executions/1/results?broker=b")
    assert (answer.headers["content-type"], answer.text) == ("application/x-ndjson", '{"subscription":1}\n')


def test_a_pull_ends_when_its_client_disconnects(client, cluster):
    with client.stream("GET", "/channels/alarms/executions/99/results?broker=b") as answer:
        next(answer.iter_raw())
    assert cluster.held.wait(120)
    assert cluster.closed_streams == ["pull"]


def test_an_error_in_the_middle_of_a_stream_aborts_it(client, cluster, caplog):
    cluster.broken["pull"] = StorageError("the segment cannot be read")
    with pytest.raises(httpx.RemoteProtocolError):
        client.get("/channels/alarms/executions/1/results?broker=b")
    assert "broke off" in caplog.text


def test_a_long_poll_ends_with_the_execution_it_waits_for(client, cluster):
    cluster.hold.set()
    assert client.get("/channels/alarms/executions?wait=60").json() == {"executions": []}


# -- health and failures -------------------------------------------------------------------------------------------


def test_readiness_reports_why_queries_cannot_run(client, cluster):
    cluster.state = {"ready": False, "spark": "starting", "reason": "", "committer": True}
    answer = client.get("/readyz")
    assert code(answer) == (503, "not_ready")
    assert answer.json()["error"]["spark"] == "starting"
    assert answer.headers["retry-after"] == "1"


def test_health_fails_when_the_committer_has_stopped(client, cluster):
    cluster.state = {"ready": True, "spark": "up", "reason": "", "committer": False}
    answer = client.get("/healthz")
    assert code(answer) == (503, "failure")
    assert answer.json()["error"]["message"] == "the committer has stopped, so nothing can be stored"


def test_health_needs_no_spark(client, cluster):
    cluster.state = {"ready": False, "spark": "dead", "reason": "it crashed", "committer": True}
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("broken", "method", "path"),
    [("publish", "POST", "/feeds/reports"), ("query", "POST", "/query"), ("channels", "GET", "/channels")],
)
def test_an_unexpected_error_is_logged_under_an_id_and_not_shown(client, cluster, caplog, broken, method, path):
    cluster.broken[broken] = ZeroDivisionError("secret detail")
    answer = client.request(method, path, content=b"select" if method == "POST" else None)
    assert code(answer) == (500, "internal")
    assert "secret" not in answer.text
    assert answer.json()["error"]["id"] in caplog.text
    assert "secret detail" in caplog.text


def test_a_crash_of_a_script_is_not_explained_to_the_client(client):
    answer = client.post("/sql", content="one; crash", headers={"accept": "application/x-ndjson"})
    assert json.loads(answer.text.splitlines()[-1])["error"]["code"] == "internal"
    assert "secret" not in answer.text


def test_a_system_failure_is_a_5xx_with_its_reason(client, cluster):
    cluster.broken["publish"] = StorageError("the disk is full", hint="make room")
    answer = client.post("/feeds/reports", content=b"{}")
    assert code(answer) == (507, "storage")
    assert answer.json()["error"]["hint"] == "make room"


def test_the_index_lists_the_routes(client):
    routes = client.get("/").json()["routes"]
    assert {"method": "POST", "path": "/feeds/{feed}", "summary": "Publish records"} in routes


def test_head_is_get_without_a_body(client):
    answer = client.head("/channels")
    assert (answer.status_code, answer.content) == (200, b"")


def test_requests_are_counted_by_route(client):
    client.post("/feeds/reports", content=b"{}")
    client.get("/channels/nothing")
    page = client.get("/metrics").text
    assert 'tocsin_http_requests_total{method="POST",route="/feeds/{feed}",status="200"} 1.0' in page
    assert 'tocsin_http_requests_total{method="GET",route="/channels/{channel}",status="404"} 1.0' in page


# -- start and stop ------------------------------------------------------------------------------------------------


def refuses(url: str) -> None:
    """Returns once the port refuses connections."""
    while True:
        try:
            socket.create_connection((httpx.URL(url).host, httpx.URL(url).port)).close()
        except OSError:
            return


def test_a_running_request_finishes_before_the_server_stops(cluster):
    answers: list[int] = []
    with serving(cluster, ClusterConfig(port=0)) as url:
        post = threading.Thread(
            target=lambda: answers.append(
                httpx.post(
                    url + "/feeds/reports", content=b"hold", headers={"idempotency-key": "k"}, timeout=120
                ).status_code
            )
        )
        post.start()
        assert cluster.held.wait(120)
        threading.Thread(target=lambda: (refuses(url), cluster.hold.set())).start()
    post.join()
    assert answers == [200]


def test_stopping_ends_long_polls(cluster):
    answers: list[int] = []
    with serving(cluster, ClusterConfig(port=0)) as url:
        poll = threading.Thread(
            target=lambda: answers.append(
                httpx.get(url + "/channels/alarms/executions?wait=60", timeout=120).status_code
            )
        )
        poll.start()
        assert cluster.held.wait(120)
    poll.join()
    assert answers == [200]


def test_an_occupied_port_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UserError, match="is in use"):
        bind("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize(
    ("host", "port"), [("no.such.host.invalid", 0), ("192.0.2.1", 0), ("127.0.0.1", 70_000), ("\0", 0)]
)
def test_an_unusable_address_is_reported(host, port):
    with pytest.raises(UserError, match="cannot listen"):
        bind(host, port)


def test_an_ipv6_address_is_written_in_brackets():
    with bind("::1", 0) as sock:
        assert address(sock).startswith("http://[::1]:")


def test_uvicorn_logs_nothing_of_its_own(client, caplog):
    caplog.set_level(logging.WARNING)
    client.get("/nothing")
    assert caplog.text == ""
