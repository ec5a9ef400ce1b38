"""The command line without a data cluster."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import ClassVar

import msgspec
import pytest

from served import environment, tocsin
from tocsin.cli import http
from tocsin.cli.config import template
from tocsin.cli.http import Client, Remote
from tocsin.config import (
    BrokerConfig,
    ClusterConfig,
    CoordinatorConfig,
    CoordinatorLimits,
    load,
    load_broker,
    load_coordinator,
    variables,
)
from tocsin.errors import Unreachable

COMMANDS = ["cluster", "sql", "pub", "sub", "query", "channels", "config", "init", "bench", "demo"]
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.fixture
def closed_port() -> str:
    """An address where no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return f"http://127.0.0.1:{sock.getsockname()[1]}"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_has_an_example(command):
    ran = tocsin(command, "--help")
    assert ran.returncode == 0
    assert "Example:\n    " in ran.stdout.decode()
    assert f"tocsin {command}" in ran.stdout.decode().partition("Example:")[2]


def test_ctrl_c_during_the_import_is_not_an_error():
    """Importing the commands takes half a second; the interrupt comes during that time."""
    program = """
import sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == "tocsin.cli.main":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from tocsin.cli.__main__ import main
main()
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment(), timeout=300)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, b"", b"")


def test_the_version_is_printed():
    assert tocsin("--version").stdout.startswith(b"tocsin ")


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["sql"],
        ["sql", "file", "-e", "SELECT 1"],
        ["sql", "--nonsense"],
        ["pub"],
        ["pub", "feed", "--batch", "0"],
        ["pub", "feed", "--batch", "many"],
        ["pub", "feed", "--unknown", "keep"],
        ["sub"],
        ["sub", "channel", "fire"],
        ["sub", "channel", "--count", "0"],
        ["query"],
        ["query", "SELECT 1", "--format", "xml"],
        ["query", "SELECT 1", "-o", "file"],
        ["channels", "a", "b"],
        ["cluster", "--port", "70000"],
        ["cluster", "--log", "everything"],
    ],
)
def test_a_wrong_command_line_leads_to_exit_code_2(words):
    ran = tocsin(*words)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"Traceback" not in ran.stderr
    assert ran.stderr.startswith(b"error: ")


@pytest.mark.parametrize("words", [[], ["balance"], ["bench"], ["simulate"]])
def test_an_incomplete_command_lists_its_subcommands(words):
    ran = tocsin(*words)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr.startswith(f"Usage: {' '.join(['tocsin', *words])} ".encode()) and b"Commands:" in ran.stderr


@pytest.mark.parametrize("words", [["sql", "-e", "SELECT 1"], ["pub", "f", "-"], ["query", "SELECT 1"], ["channels"]])
def test_an_unreachable_server_is_reported(closed_port, words):
    ran = tocsin(*words, "--url", closed_port, data=b"{}")
    error, hint = ran.stderr.decode().splitlines()
    assert ran.returncode == 1
    assert error == f"error: no server answers at {closed_port}: connection refused"
    assert "tocsin cluster" in hint


@pytest.mark.parametrize("url", ["nonsense", "ftp://host", "http://", "http://[", "http://host:port"])
def test_an_invalid_address_is_reported(url):
    ran = tocsin("channels", "--url", url)
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"error: ")
    assert b"Traceback" not in ran.stderr


class Stranger(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<html>hello</html>"
        self.send_response(200 if self.path == "/channels" else 404)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.mark.parametrize("name", [[], ["x"]])
def test_another_kind_of_server_is_reported(name):
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        ran = tocsin("channels", *name, "--url", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert ran.returncode == 1
    assert b"does not answer like a Tocsin server" in ran.stderr


def test_an_occupied_port_is_reported(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        ran = tocsin("cluster", "--home", str(tmp_path), "--port", str(sock.getsockname()[1]))
    error, hint = ran.stderr.decode().splitlines()
    assert ran.returncode == 1
    assert error.endswith("is in use")
    assert hint.startswith("hint: ")


@pytest.mark.parametrize("text", ["nonsense", "port = 'x'", "colour = 'red'"])
def test_a_wrong_configuration_is_reported(tmp_path, text):
    file = tmp_path / "tocsin.toml"
    file.write_text(text)
    ran = tocsin("cluster", "--config", str(file))
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"error: ")
    assert b"Traceback" not in ran.stderr


def test_json_reports_a_wrong_command_line_as_json():
    ran = tocsin("query", "SELECT 1", "--json", "--format", "csv")
    assert (ran.returncode, json.loads(ran.stderr)["error"]["code"]) == (2, "bad_request")


# -- retries -------------------------------------------------------------------------------------------------------


def tries(*answers: object) -> tuple[object, list[float]]:
    """The result of a request with these answers, and the pauses between the attempts."""
    left, pauses = list(answers), []

    def send() -> object:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with Client("http://127.0.0.1:1") as client:
        return client.retrying(send, pauses.append, lambda _: None), pauses


def test_a_request_without_an_answer_is_sent_again():
    busy = Remote(503, {"code": "busy", "message": "busy"})
    assert tries(Unreachable("gone"), busy, "done") == ("done", [0.2, 0.4])


def test_a_refused_request_is_not_sent_again():
    with pytest.raises(Remote):
        tries(Remote(400, {"code": "malformed", "message": "no"}), "never")


def test_retries_are_limited():
    with pytest.raises(Unreachable):
        tries(*[Unreachable("gone")] * http.TRIES)


class Forgetful(BaseHTTPRequestHandler):
    """Answers the first post, and closes the connection instead of answering the second one."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[tuple[str | None, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.seen.append((self.headers["idempotency-key"], body))
        if len(self.seen) == 2:
            self.close_connection = True
            return
        receipt = b'{"accepted":1,"refused":[],"repeated":false}'
        self.send_response(200)
        self.send_header("content-length", str(len(receipt)))
        self.end_headers()
        self.wfile.write(receipt)

    def log_message(self, *_: object) -> None: ...


def test_pub_sends_a_post_again_under_the_same_key(monkeypatch):
    pauses: list[float] = []
    # The module's own word for it: threads of other tests sleep too.
    monkeypatch.setattr("tocsin.cli.pub.time", SimpleNamespace(sleep=pauses.append))
    with HTTPServer(("127.0.0.1", 0), Forgetful) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        ran = tocsin("pub", "f", "--batch", "1", "--key", "k", "--url", url, data=b"{}\n[]\n0")
        server.shutdown()
    assert Forgetful.seen == [("k-0", b"{}"), ("k-1", b"[]"), ("k-1", b"[]"), ("k-2", b"0")]
    assert (ran.returncode, ran.stdout, pauses) == (0, b"3 accepted\n", [0.2])
    assert b"trying again in 0.2 s" in ran.stderr


# -- configuration and reference -----------------------------------------------------------------------------------


def test_the_template_equals_the_defaults(tmp_path):
    file = tmp_path / "tocsin.toml"
    file.write_text(template())
    assert load(str(file), env={}) == ClusterConfig()


def test_the_template_has_every_setting_with_its_default():
    lines = [
        line[1:] if line.startswith("#") and " = " in line and line[1] != " " else line
        for line in template().split("\n")
    ]
    assert msgspec.convert(tomllib.loads("\n".join(lines)), ClusterConfig) == ClusterConfig()
    assert set(tomllib.loads("\n".join(lines))) == {each.name for each in msgspec.structs.fields(ClusterConfig)}


def test_the_template_of_a_broker_equals_the_defaults(tmp_path):
    file = tmp_path / "broker.toml"
    file.write_text(tocsin("config", "--broker").stdout.decode())
    assert load_broker(str(file), env={}) == BrokerConfig()
    assert "TOCSIN_BROKER_GRACE" in file.read_text() and "[limits]" in file.read_text()


def test_config_shows_the_settings_of_a_file_for_a_broker(tmp_path):
    file = tmp_path / "broker.toml"
    file.write_text("[limits]\nsubscriptions = 5")
    shown = json.loads(tocsin("config", "--broker", "--config", str(file), TOCSIN_BROKER_NAME="n").stdout)
    assert (shown["limits"]["subscriptions"], shown["name"]) == (5, "n")


@pytest.mark.parametrize("heartbeat", ["75", "80"])
def test_a_broker_that_would_close_connections_between_two_pings_does_not_start(heartbeat):
    refused = tocsin("broker", TOCSIN_BROKER_HEARTBEAT=heartbeat)
    assert refused.returncode == 1 and b"silence (75 s) must be longer than heartbeat" in refused.stderr, refused


def test_a_variable_may_hold_a_whole_section_and_its_single_settings_count_more():
    env = {"TOCSIN_BROKER_LIMITS": '{"subscriptions": 5, "connections": 7}', "TOCSIN_BROKER_LIMITS_CONNECTIONS": "8"}
    limits = load_broker(env=env).limits
    assert (limits.subscriptions, limits.connections) == (5, 8)


def test_the_template_of_the_coordinator_equals_the_defaults(tmp_path):
    file = tmp_path / "coordinator.toml"
    file.write_text(tocsin("config", "--coordinator").stdout.decode())
    assert load_coordinator(str(file), env={}) == CoordinatorConfig()
    assert "TOCSIN_COORDINATOR_LIMITS_IN_FLIGHT" in file.read_text() and "[limits]" in file.read_text()


def test_environment_variables_round_trip_a_configuration():
    assert variables(CoordinatorConfig()) == {}
    config = CoordinatorConfig(
        strategy="", settings={"alpha": 0.2, "scheme": "ldm"}, limits=CoordinatorLimits(in_flight=7)
    )
    assert load_coordinator(env=variables(config)) == config


def test_config_shows_the_settings_of_a_file_for_the_coordinator(tmp_path):
    file = tmp_path / "coordinator.toml"
    file.write_text("[limits]\nin_flight = 5")
    shown = json.loads(tocsin("config", "--coordinator", "--config", str(file)).stdout)
    assert shown["limits"]["in_flight"] == 5


def test_config_accepts_only_one_component():
    assert tocsin("config", "--coordinator", "--broker").returncode == 1


def test_config_prints_all_settings_for_programs():
    names = [row["name"] for row in json.loads(tocsin("config", "--json").stdout)]
    assert {"home", "limits.records"} <= set(names)


def test_config_shows_the_settings_of_a_file(tmp_path):
    file = tmp_path / "tocsin.toml"
    file.write_text("port = 1")
    shown = json.loads(tocsin("config", "--config", str(file), TOCSIN_HOST="::1").stdout)
    assert (shown["port"], shown["host"]) == (1, "::1")
