"""The OpenAPI document is true: every operation is driven against a real data cluster, and every answer is checked."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from standin import StandIn
from starlette.routing import Route

from served import served
from tocsin.cluster.http import OPERATIONS
from tocsin.cluster.http.openapi import document
from tocsin.cluster.http.server import App
from tocsin.config import ClusterConfig
from tocsin.identity.part_keys import PartKey, Peer

DOCUMENT: dict[str, Any] = json.loads(json.dumps(document(OPERATIONS)))
OPEN = {"Problem"}  # its further fields depend on the code
SCRIPT = """
CREATE ACTIVE DATASET Reports (id string, kind string, n int) PRIMARY KEY id;
CREATE FEED ReportFeed; CONNECT FEED ReportFeed TO DATASET Reports; START FEED ReportFeed;
CREATE CONTINUOUS CHANNEL Alarms(kind string) { SELECT r.id, r.n FROM Reports r WHERE is_new(r) AND r.kind = kind };
CREATE FUNCTION Kinds(k string) { SELECT r.id FROM Reports r WHERE r.kind = k };
CREATE REPETITIVE CHANNEL Often USING Kinds@1 PERIOD duration("PT1H") RETENTION duration("P1D");
"""
RECORDS = [{"id": "1", "kind": "fire", "n": 1}, {"id": "2", "kind": "flood", "n": 2}, {"id": 3}]
TEXT = {"content-type": "text/plain"}
LINES = {"accept": "application/x-ndjson"}
WRONG = {"key": "", "time": 0.0, "signature": ""}


def call(operation: str, path: str, *, status: int = 200, **request: Any) -> Any:
    return operation, path, request, status


def join() -> dict[str, Any]:
    """Made when it is sent, because it is valid for a minute."""
    own = PartKey(b"k" * 32, "/coordinator")
    return {"name": own.name, "join": msgspec.to_builtins(Peer("data cluster", own, "").join(""))}


#: In this order. ``{id}`` is the subscription of the third call.
CALLS = [
    call("run_script", "/sql", json={"script": SCRIPT}),
    call("put_broker", "/brokers/east", json={"url": "http://127.0.0.1:9/notify"}),
    call("subscribe", "/channels/Alarms/subscriptions", json={"broker": "east", "args": ["fire"]}, status=201),
    call(
        "subscribe",
        "/channels/Alarms/subscriptions",
        json={"broker": "east", "subscriptions": [{"kind": "flood"}, ["fire"]]},
        status=201,
    ),
    call("subscribe", "/channels/Alarms/subscriptions", json={"broker": "east", "args": []}, status=400),
    call("subscribe", "/channels/Alarms/subscriptions", json={"broker": "east", "args": [[1]]}, status=400),
    call("subscribe", "/channels/Alarms/subscriptions", json={"broker": "west", "args": ["fire"]}, status=404),
    call("subscribe", "/channels/None/subscriptions", json={"broker": "east", "args": []}, status=404),
    call("subscribe", "/channels/Alarms/subscriptions", content="{}", headers=TEXT, status=415),
    call("post_records", "/feeds/ReportFeed", json=RECORDS),
    call("post_records", "/feeds/ReportFeed", json=RECORDS[0], headers={"idempotency-key": "k"}),
    call("post_records", "/feeds/ReportFeed", json=RECORDS[0], headers={"idempotency-key": "k"}),
    call("post_records", "/feeds/ReportFeed", json=RECORDS[1], headers={"idempotency-key": "k"}, status=409),
    call("post_records", "/feeds/ReportFeed?atomic=true", json=RECORDS, status=422),
    call("post_records", "/feeds/ReportFeed", content="nonsense", status=400),
    call("post_records", "/feeds/ReportFeed", content="[" * 100, status=400),
    call("post_records", "/feeds/ReportFeed", content="{}\nnonsense", headers={"content-type": "application/x-ndjson"}),
    call("post_records", "/feeds/ReportFeed", content="nonsense", headers={"content-encoding": "gzip"}, status=400),
    call("post_records", "/feeds/ReportFeed?x=1", json=[], status=400),
    call("post_records", "/feeds/None", json=[], status=404),
    call("post_records", "/feeds/ReportFeed", data={"a": "b"}, status=415),
    call("list_executions", "/channels/Alarms/executions?wait=60"),
    call("list_executions", "/channels/None/executions", status=404),
    call("list_executions", "/channels/None/executions?wait=1", status=404),
    call("list_executions", "/channels/Alarms/executions?after=x", status=400),
    call("pull_results", "/channels/Alarms/executions/1/results?broker=east"),
    call("pull_results", "/channels/Alarms/executions/999/results?broker=east", status=404),
    call("pull_results", "/channels/Alarms/executions/1/results?broker=west", status=404),
    call("pull_results", "/channels/Alarms/executions/1/results", status=400),
    call("get_results", "/channels/Alarms/subscriptions/{id}/results"),
    call("get_results", "/channels/Alarms/subscriptions/{id}/results?after=1000"),
    call("get_results", "/channels/None/subscriptions/{id}/results", status=404),
    call("get_results", "/channels/Alarms/subscriptions/x/results", status=400),
    call("list_subscriptions", "/channels/Alarms/subscriptions"),
    call("list_subscriptions", "/channels/Alarms/subscriptions?broker=east&after=0&limit=1"),
    call("list_subscriptions", "/channels/Alarms/subscriptions?broker=west", status=404),
    call("list_subscriptions", "/channels/None/subscriptions", status=404),
    call("get_subscription", "/channels/Alarms/subscriptions/{id}"),
    call("get_subscription", "/channels/Alarms/subscriptions/x", status=400),
    call("get_subscription", "/channels/Alarms/subscriptions/99999", status=404),
    call("put_broker", "/brokers/west", json={"url": "http://127.0.0.1:9/notify"}),
    call("put_broker", "/brokers/west", json={"url": "nonsense"}, status=400),
    call(
        "put_broker",
        "/brokers/west",
        content="x" * 70_000_000,
        headers={"content-type": "application/json"},
        status=413,
    ),
    call("list_grants", "/grants"),
    call("list_grants", "/grants?wait=61", status=400),
    call("list_grants", "/grants", headers={"authorization": "Bearer wrong"}, status=401),
    call("put_broker", "/brokers/west", json={"url": "http://127.0.0.1:9/notify", "join": WRONG}, status=401),
    call("delete_key", "/brokers/east/key"),
    call("delete_key", "/brokers/none/key", status=404),
    call("join", "/join", json=join),
    call("join", "/join", json={"name": "/coordinator", "join": WRONG}, status=401),
    call("list_brokers", "/brokers"),
    call("list_brokers", "/brokers?x=1", status=400),
    call("migrate_subscription", "/channels/Alarms/subscriptions/{id}/migrate", json={"from": "east", "to": "west"}),
    call(
        "migrate_subscription",
        "/channels/Alarms/subscriptions/{id}/migrate",
        json={"from": "east", "to": "west"},
        status=409,
    ),
    call("migrate_subscription", "/channels/Alarms/subscriptions/999999/migrate", json={"to": "west"}, status=404),
    call("migrate_subscription", "/channels/Alarms/subscriptions/{id}/migrate", json={}, status=400),
    call("unsubscribe_one", "/channels/Alarms/subscriptions/{id}?broker=west"),
    call("unsubscribe_one", "/channels/Alarms/subscriptions/{id}", status=404),
    call("unsubscribe_one", "/channels/Alarms/subscriptions/x", status=400),
    call("subscribe", "/channels/Often/subscriptions", json={"broker": "east", "args": ["fire"]}, status=201),
    call("unsubscribe", "/channels/Often/unsubscribe", json={"broker": "east", "subscriptions": []}),
    call("unsubscribe", "/channels/Often/unsubscribe", json={"broker": "none", "subscriptions": []}, status=404),
    call("unsubscribe", "/channels/Often/unsubscribe", json={"subscriptions": "all"}, status=400),
    call("run_script", "/sql", content="CREATE BROKER b AT 'http://127.0.0.1:9'; SELECT 1 AS a", headers=LINES),
    call("run_script", "/sql", content="SELECT 1 AS a; SELEC", headers=LINES),
    call("run_script", "/sql", content="SELECT 1 AS a; SELEC", status=400),
    call("run_script", "/sql", content="SELECT * FROM nowhere", status=400),
    call("run_script", "/sql", content="SELECT kind + kind FROM Reports WHERE nothing", status=400),
    call("run_script", "/sql", content="SELECT * FROM parquet.`/etc`", status=400),
    call("run_script", "/sql", content="DROP DATASET Reports", status=409),
    call("run_script", "/sql", content="CREATE BROKER b AT 'http://127.0.0.1:9'", status=409),
    call("run_script", "/sql", content="UNSUBSCRIBE 'x' FROM Alarms", status=400),
    call("run_script", "/sql", content='INSERT INTO Reports ({"id": 1, "n": []})', status=422),
    call("run_query", "/query", json={"sql": "SELECT * FROM Reports"}),
    call("run_query", "/query", content="SELECT * FROM Reports", headers=LINES),
    call("run_query", "/query?format=csv", content="SELECT * FROM Reports"),
    call("run_query", "/query?format=arrow", content="SELECT * FROM Reports"),
    call("run_query", "/query", content="SELECT * FROM AlarmsResults"),
    call("run_query", "/query", content="SELECT * FROM AlarmsSubscriptions"),
    call("run_query", "/query", content="SELECT * FROM nowhere", status=400),
    call("run_query", "/query", content="SELEC", status=400),
    call("run_query", "/query", content="DROP DATASET Reports", status=400),
    call("run_query", "/query", content="SELECT 1; SELECT 2", status=400),
    call("run_query", "/query", content="SELECT 1", headers={"accept": "text/html"}, status=406),
    call("list_datasets", "/datasets"),
    call("list_datasets", "/datasets?x=1", status=400),
    call("show_dataset", "/datasets/reports"),
    call("show_dataset", "/datasets/None", status=404),
    call("list_feeds", "/feeds"),
    call("list_feeds", "/feeds?x=1", status=400),
    call("list_channels", "/channels"),
    call("list_channels", "/channels?x=1", status=400),
    call("show_channel", "/channels/alarms"),
    call("show_channel", "/channels/None", status=404),
    call("health", "/healthz"),
    call("health", "/healthz?x=1", status=400),
    call("readiness", "/readyz"),
    call("readiness", "/readyz?x=1", status=400),
    call("metrics", "/metrics"),
    call("metrics", "/metrics?x=1", status=400),
    call("openapi", "/openapi.json"),
    call("openapi", "/openapi.json?x=1", status=400),
    call("index", "/"),
    call("index", "/?x=1", status=400),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with served(tmp_path_factory.mktemp("openapi")) as url, httpx.Client(base_url=url, timeout=90) as client:
        yield client


def operations() -> dict[str, tuple[str, str, dict[str, Any]]]:
    return {
        operation["operationId"]: (method, path, operation)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    }


def components() -> dict[str, Any]:
    """The schemas without additional fields: a field that the document does not describe is an error."""
    schemas = copy.deepcopy(DOCUMENT["components"]["schemas"])
    for name, schema in schemas.items():
        if "properties" in schema and name not in OPEN:
            schema["additionalProperties"] = False
    return {"schemas": schemas}


def check(value: Any, schema: dict[str, Any]) -> None:
    Draft202012Validator({**schema, "components": components()}).validate(value)


def check_answer(operation: dict[str, Any], answer: httpx.Response) -> None:
    described = operation["responses"][str(answer.status_code)]
    media = answer.headers["content-type"].partition(";")[0]
    content = described["content"][media]
    if media == "application/json":
        check(answer.json(), content["schema"])
    elif media == "application/x-ndjson":
        for line in answer.text.splitlines():
            check(json.loads(line), content["x-line-schema"])
    if answer.is_error:
        assert answer.json()["error"]["code"] in described["description"].split(", ")


def test_the_openapi_document_is_valid():
    validate(DOCUMENT)


def test_the_server_serves_the_document(server):
    assert server.get("/openapi.json").json() == DOCUMENT


def test_the_document_and_the_router_have_the_same_paths():
    app = App(StandIn(), ClusterConfig())
    routes = {route.path for route in app.router.routes if isinstance(route, Route)}
    assert routes == set(DOCUMENT["paths"])
    app.close()


def test_every_operation_is_driven_to_success_and_to_failure():
    driven = {(operation, status < 400) for operation, _, _, status in CALLS}
    assert driven == {(name, well) for name in operations() for well in (True, False)}


def test_every_answer_matches_the_document(server):
    number = ""
    for place, (name, path, request, status) in enumerate(CALLS):
        method, template, operation = operations()[name]
        request = {key: value() if callable(value) else value for key, value in request.items()}
        answer = server.request(method, path.replace("{id}", number), **request)
        assert answer.status_code == status, f"{place}: {method} {path} {request}: {answer.text[:500]}"
        assert len(path.partition("?")[0].split("/")) == len(template.split("/"))
        check_answer(operation, answer)
        number = str(answer.json()["subscriptions"][0]) if place == 2 else number


@pytest.mark.parametrize(
    ("name", "path"),
    [(name, path) for name, (_, path, _) in operations().items()],
)
def test_every_operation_refuses_an_unknown_field_or_parameter(server, name, path):
    method, _, operation = operations()[name]
    for part in ("feed", "channel", "broker"):
        path = path.replace("{" + part + "}", "x")
    path = path.replace("{id}", "1").replace("{number}", "1")
    answer = server.request(method, path + "?unknown=1", json={"unknown": 1} if method != "GET" else None)
    assert answer.status_code == 400
    check_answer(operation, answer)
