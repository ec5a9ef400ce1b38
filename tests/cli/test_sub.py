"""``tocsin sub`` and ``tocsin pub --broker``, against a WebSocket server that plays the broker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import typer
from websockets.sync.server import ServerConnection, serve

from served import tocsin
from tocsin.cli.sub import arguments
from tocsin.wire import messages as wire

Script = Callable[[Any], list[wire.Message]]


class Broker:
    """Answers each message with the messages that ``script`` returns for it."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.script: Script = self.plain
        protocols: Any = [wire.SUBPROTOCOL]
        self.server = serve(self._serve, "127.0.0.1", 0, subprotocols=protocols)
        self.thread = Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.socket.getsockname()[1]}"

    def _serve(self, socket: ServerConnection) -> None:
        for data in socket:
            for message in wire.decode(data):
                self.received.append(message)
                answers = self.script(message)
                if answers:
                    socket.send(wire.encode_batch([wire.encode(each) for each in answers]), text=True)

    def plain(self, message: Any) -> list[wire.Message]:
        match message:
            case wire.Hello():
                return [wire.Welcome(message.id, "b", 30.0, 1 << 20)]
            case wire.Subscribe():
                first = wire.Notify("Alarms", 5, 11, 1, [{"id": "r1", "text": "a\x1b[31m\nb"}])
                gap = wire.Gap(5, 11, 14, "retention")
                return [wire.Subscribed(message.id, 5, "Alarms", 10), first, gap, wire.Notify("Alarms", 5, 14, 0, [])]
            case wire.Unsubscribe():
                return [wire.Unsubscribed(message.id, message.subscription)]
            case wire.Publish():
                bad = [place for place, record in enumerate(message.records) if bytes(record) == b"{}"]
                refused = [wire.Refused(place, "missing", "id is missing") for place in bad]
                return [wire.Published(message.id, len(message.records) - len(bad), refused)]
        return []

    def all(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.received if isinstance(message, kind)]

    def end(self) -> None:
        self.server.shutdown()
        self.thread.join()


@pytest.fixture
def broker() -> Iterator[Broker]:
    found = Broker()
    yield found
    found.end()


# -- sub ---------------------------------------------------------------------------------------------------------------


def test_sub_prints_one_line_for_each_notification(broker):
    ran = tocsin("sub", "alarms", "kind=fire", "--count", "2", "--after", "3", "--broker", broker.url)
    assert ran.returncode == 0
    assert ran.stdout.decode().splitlines() == [r'Alarms 11 [{"id":"r1","text":"a\u001b[31m\nb"}]', "Alarms 14 []"]
    said, gap = ran.stderr.decode().splitlines()
    assert said == f"subscribed to Alarms at {broker.url}"
    assert gap == "gap: executions 12 to 13 are no longer available (retention)"
    (request,) = broker.all(wire.Subscribe)
    assert (request.channel, request.args, request.after) == ("alarms", {"kind": "fire"}, 3)


def test_sub_prints_json_for_programs(broker):
    ran = tocsin("sub", "Alarms", "--count", "2", "--json", TOCSIN_BROKER=broker.url, TOCSIN_TOKEN="t")
    first, gap, second = map(json.loads, ran.stdout.splitlines())
    assert (first["channel"], first["subscription"], first["execution"]) == ("Alarms", 5, 11)
    assert gap["gap"]["next"] == 14 and second["results"] == [] and ran.stderr == b""
    assert broker.all(wire.Hello)[0].token == "t"


def test_sub_reports_why_it_was_refused(broker):
    def refuse(message: Any) -> list[wire.Message]:
        if isinstance(message, wire.Subscribe):
            return [wire.Error(message.id, "not_found", "there is no channel 'Nowhere'", "see tocsin channels")]
        return broker.plain(message)

    broker.script = refuse
    ran = tocsin("sub", "Nowhere", "--broker", broker.url)
    assert ran.returncode == 1
    assert ran.stderr.decode().splitlines() == ["error: there is no channel 'Nowhere'", "hint: see tocsin channels"]


def test_sub_reports_an_unreachable_broker():
    ran = tocsin("sub", "Alarms", "--broker", "http://127.0.0.1:1")
    error, hint = ran.stderr.decode().splitlines()
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert error.startswith("error: no broker answers at http://127.0.0.1:1") and hint.startswith("hint: ")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("a=fire", "fire"),
        ("a=", ""),
        ("a=12", 12),
        ("a=-1.5e3", -1500.0),
        ("a=true", True),
        ("a=null", None),
        ('a="12"', '"12"'),
        ('a:="12"', "12"),
        ("a=[1]", "[1]"),
        ("a:=[1]", [1]),
        ('a:={"b": 1}', {"b": 1}),
        ("a=NaN", "NaN"),
        ("a=012", "012"),
        ("a=b=c", "b=c"),
        ("a=one\ntwo", "one\ntwo"),
    ],
)
def test_a_parameter_has_the_type_it_looks_like(word, value):
    found = arguments([word])
    assert found == {"a": value} and type(found["a"]) is type(value)


@pytest.mark.parametrize("words", [["fire"], ["=fire"], ["a:=fire"], ["a=1", "a=2"], ["a b=1"]])
def test_an_invalid_parameter_of_sub_is_reported(words):
    with pytest.raises(typer.BadParameter):
        arguments(words)


# -- pub ---------------------------------------------------------------------------------------------------------------


def test_pub_sends_records_through_a_broker(broker):
    data = b'{"id":"a"}\nnonsense\n{}\nNaN\n"\xff"\n{"id":"b"}\n'
    ran = tocsin("pub", "F", "--broker", broker.url, data=data)
    assert (ran.returncode, ran.stdout) == (1, b"2 accepted, 4 refused\n")
    assert [line.split(b":")[0] for line in ran.stderr.splitlines()] == [
        b"record 2",
        b"record 3",
        b"record 4",
        b"record 5",
    ]
    (request,) = broker.all(wire.Publish)
    assert [bytes(record) for record in request.records] == [b'{"id":"a"}', b"{}", b'{"id":"b"}']


def test_pub_sends_an_array_in_parts_and_numbers_across_them(broker, tmp_path):
    file = tmp_path / "records.json"
    file.write_text(json.dumps([{"id": 1.50}, {"id": 2}, {"id": 3}, {}], indent=1))
    ran = tocsin("pub", "F", str(file), "--batch", "3", "--broker", broker.url, "--json")
    assert json.loads(ran.stdout)["refusals"] == [{"index": 3, "code": "missing", "reason": "id is missing"}]
    assert [len(request.records) for request in broker.all(wire.Publish)] == [3, 1]


@pytest.mark.parametrize("word", [["--atomic"], ["--key", "k"], ["--unknown", "ignore"]])
def test_pub_refuses_options_that_a_broker_does_not_know(word):
    assert tocsin("pub", "F", "--broker", "http://127.0.0.1:1", *word).returncode == 2


def test_pub_repeats_only_through_a_broker():
    assert tocsin("pub", "F", "--retry").returncode == 2


def test_other_commands_do_not_load_the_client():
    program = "import sys, tocsin.cli.main; sys.exit('websockets' in sys.modules)"
    source = str(Path(__file__).parents[2] / "src")
    assert subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": source}).returncode == 0
