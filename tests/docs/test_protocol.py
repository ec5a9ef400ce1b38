"""The page of the wire protocol: its tables match the code, and its conversations run with a real broker."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker_lab import Broker, Speaker, broker
from pages import DOCS, check, conversations
from protocol_tables import LINKS_PAGE, PAGE, current
from websockets.exceptions import ConnectionClosed

from served import environment
from sparkless import Sparkless, sparkless

SHOWN = "http://127.0.0.1:8481"
_NUMBER = re.compile(r'("subscription": ?|"epoch": ?|subscription=|\bid: |no subscription )(\d+)')


def test_the_protocol_tables_match_the_code() -> None:
    text = PAGE.read_text()
    assert "### subscribe" in text and "4102" in text
    assert "## link_hello" in LINKS_PAGE.read_text()
    for page in (PAGE, LINKS_PAGE):
        assert current(page.read_text()) == page.read_text(), "run: python tests/docs/protocol_tables.py"


# -- the conversations -------------------------------------------------------------------------------------------------


class Reader:
    """Holds the conversations of the page, whose subscription ids and epochs differ from the real ones."""

    def __init__(self, cluster: Sparkless, running: Broker, folder: Path) -> None:
        self.cluster, self.broker, self.folder = cluster, running, folder
        self.speaker = Speaker(running.url, hello=False)
        self.real: dict[str, str] = {}
        # Gets results as soon as the broker has them: the page's own subscriber may be offline at that moment.
        self.watcher = Speaker(running.url)
        self.watcher.ask("subscribe", channel="OfKind", args={"kind": "fire"})

    def here(self, text: str) -> str:
        return _NUMBER.sub(
            lambda found: found[1] + self.real.get(found[2], found[2]), text.replace(SHOWN, self.broker.url)
        )

    def there(self, text: str) -> str:
        shown = {real: number for number, real in self.real.items()}
        return _NUMBER.sub(lambda found: found[1] + shown.get(found[2], found[2]), text)

    def line(self, line: str) -> None:
        kind, _, rest = line.partition(" ")
        if kind == ">":
            self.speaker.socket.send(self.here(rest))
        elif kind == "<":
            self.hears(json.loads(rest))
        elif kind == "=":
            self.finds(rest)
        elif kind == "~":
            self.speaker.close()
            self.speaker = Speaker(self.broker.url, hello=False)
        elif kind == "x":
            self.closes(*rest.split(" ", 1))
        else:
            raise AssertionError(line)

    def hears(self, expected: dict[str, Any]) -> None:
        got = self.speaker.next(expected["type"])
        for field in {"subscription", "epoch"} & expected.keys():
            self.real.setdefault(str(expected[field]), str(got.get(field)))
        pattern = ".*?".join(map(re.escape, json.dumps(expected, ensure_ascii=False).split("…")))
        said = self.there(json.dumps(got, ensure_ascii=False))
        assert re.fullmatch(pattern, said), f"said {said}, the page shows {json.dumps(expected)}"

    def finds(self, text: str) -> None:
        found = re.fullmatch(r"execution (\d+) of (\w+) finds (.*) for (.*)", text)
        assert found is not None, text
        assert self.cluster.found(found[2], (json.loads(found[4]), json.loads(found[3]))) == int(found[1])
        assert self.watcher.next("notify")["execution"] == int(found[1])

    def closes(self, code: str, reason: str) -> None:
        with pytest.raises(ConnectionClosed) as ended:
            self.speaker.next("nothing", timeout=120.0)
        close = ended.value.rcvd
        assert close is not None and close.code == int(code)
        assert re.fullmatch(".*".join(map(re.escape, reason.split("…"))), close.reason), close.reason

    def run(self, text: str) -> str:
        command = ["bash", "-euo", "pipefail", "-c", self.here(text)]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, env=environment(), timeout=120)
        assert ran.returncode == 0, ran.stderr + ran.stdout
        # Whether a heartbeat falls into the second of the example is not for the page.
        return self.there(ran.stdout.replace(": alive\n\n", ""))


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with sparkless(tmp_path / "data") as (cluster, url), broker(tmp_path / "broker", url, "north") as running:
        reader = Reader(cluster, running, tmp_path)
        yield reader
        reader.speaker.close()
        reader.watcher.close()


def test_every_conversation_happens_as_the_page_shows(reader: Reader) -> None:
    done = 0
    for block in conversations(PAGE):
        if block.language == "sh":
            check(PAGE, block, reader.run(block.text))
        else:
            for line in block.text.splitlines():
                reader.line(line)
        done += 1
    assert done > 10


def test_the_broker_serves_the_asyncapi_document(reader: Reader) -> None:
    served = json.loads(reader.run(f"curl -s {SHOWN}/asyncapi.json"))
    assert served == json.loads((DOCS / "reference" / "asyncapi.json").read_text())


def test_every_call_of_the_page_exists(reader: Reader) -> None:
    paths = json.loads(reader.run(f"curl -s {SHOWN}/"))["paths"]
    named = re.findall(r"^\| `(?:GET|POST) (/\w+)`", PAGE.read_text(), re.MULTILINE)
    assert len(named) == 14 and set(named) <= set(paths)
