"""The lines of a workload file, and their errors.

1.0 broker add B0 500 16 10
1.0 broker add B1 500 16 10 B0
1.0 publisher add P1 YHOO 10 B0
subscriber add S1 B1 [class,eq,'STOCK'],[symbol,eq,'YHOO']
60.0 publisher chrate P1 20
90.0 subscriber remove S1

CPU in MHz, memory in MB, bandwidth in Mbit/s, neighbours (else the first broker); rates in messages a minute.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from msgspec import Struct

from tocsin.content import Condition
from tocsin.errors import LimitExceeded, ParseError, UserError
from tocsin.simulation.content.workload.quotes import ATTRIBUTES

MOST_LINES, LONGEST = 1_000_000, 86_400.0
_FORMS = {
    ("broker", "add"): "broker add NAME CPU MEMORY BANDWIDTH [NEIGHBOUR …]",
    ("broker", "remove"): "broker remove NAME",
    ("publisher", "add"): "publisher add NAME SYMBOL RATE BROKER",
    ("publisher", "chrate"): "publisher chrate NAME RATE",
    ("publisher", "remove"): "publisher remove NAME",
    ("subscriber", "add"): "subscriber add NAME BROKER CONDITION",
    ("subscriber", "remove"): "subscriber remove NAME",
}


class AddBroker(Struct, frozen=True):
    at: float
    name: str
    cpu: float
    memory: float
    bandwidth: float
    neighbours: tuple[str, ...] = ()


class AddPublisher(Struct, frozen=True):
    at: float
    name: str
    symbol: str
    rate: float
    broker: str


class ChangeRate(Struct, frozen=True):
    at: float
    name: str
    rate: float


class AddSubscriber(Struct, frozen=True, eq=False):
    at: float
    name: str
    broker: str
    condition: Condition


class Remove(Struct, frozen=True):
    """``what``: broker, publisher or subscriber."""

    at: float
    what: str
    name: str


Command = AddBroker | AddPublisher | ChangeRate | AddSubscriber | Remove


class _Word(Struct, frozen=True):
    text: str
    column: int


def read(text: str) -> list[Command]:
    """Raises ParseError with the line and column of the first mistake."""
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        raise LimitExceeded(f"a workload has at most {MOST_LINES:,} lines", limit=MOST_LINES, hint="divide it")
    reader = _Reader()
    for number, line in enumerate(lines, 1):
        reader.line(number, line)
    if not reader.commands:
        raise ParseError("the workload has no commands", hint="begin with: 1.0 broker add B0 500 16 10")
    return reader.commands


class _Reader:
    """``names``: of what is there at the time of the line."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.names: dict[str, list[str]] = {"broker": [], "publisher": [], "subscriber": []}
        self._links: list[tuple[str, str]] = []
        self._now = 0.0
        self._number = 0
        self._readers: dict[tuple[str, str], Callable[[list[_Word], str], Command]] = {
            ("broker", "add"): self._broker,
            ("publisher", "add"): self._publisher,
            ("publisher", "chrate"): self._rate,
            ("subscriber", "add"): self._subscriber,
        }

    def line(self, number: int, line: str) -> None:
        self._number = number
        words = [_Word(each[0], each.start() + 1) for each in re.finditer(r"\S+", line)]
        if not words or words[0].text.startswith("#"):
            return
        if re.match(r"[-+.\d]", words[0].text):
            self._time(words.pop(0))
        kind = tuple(each.text for each in words[:2])
        form = _FORMS.get(kind) if len(kind) == 2 else None
        if form is None:
            column = words[0].column if words else 1
            raise self._error(
                column, f"{' '.join(kind) or 'a time'} is not a command", f"such as {_FORMS['broker', 'add']}"
            )
        least = len(re.findall(r"[A-Z]{2,}", form.partition("[")[0]))
        if len(words) - 2 < least or (len(words) - 2 > least and form.endswith(("NAME", "RATE", "BROKER"))):
            raise self._error(words[0].column, f"{' '.join(kind)} has {len(words) - 2} fields", f"write {form}")
        made = self._readers.get(kind, self._remove)  # type: ignore[arg-type]
        self.commands.append(made(words, line))

    def _error(self, column: int, message: str, hint: str = "") -> ParseError:
        return ParseError(f"line {self._number}: {message}", line=self._number, column=column, hint=hint)

    def _time(self, word: _Word) -> None:
        time = self._amount(word, "a time in seconds", least=0.0, most=LONGEST)
        if time < self._now:
            raise self._error(word.column, f"{word.text} is before {self._now:g}", "order the lines by their times")
        self._now = time

    def _amount(self, word: _Word, what: str, *, least: float, most: float = 1e9) -> float:
        try:
            found = float(word.text)
        except ValueError:
            raise self._error(word.column, f"{word.text!r} is not {what}", "write a number such as 10") from None
        if not (math.isfinite(found) and least <= found <= most):
            raise self._error(word.column, f"{word.text} is not {what}", f"between {least:g} and {most:g}")
        return found

    def _known(self, kind: str, word: _Word) -> str:
        if word.text not in self.names[kind]:
            there = ", ".join(self.names[kind][:8]) or "none yet"
            raise self._error(word.column, f"there is no {kind} {word.text!r}", f"there are {there}")
        return word.text

    def _new(self, kind: str, word: _Word) -> str:
        if word.text in self.names[kind]:
            raise self._error(word.column, f"there is a {kind} {word.text!r} already", "choose another name")
        self.names[kind].append(word.text)
        return word.text

    def _broker(self, words: list[_Word], line: str) -> Command:
        cpu, memory, bandwidth = (
            self._amount(word, f"{what} above 0", least=0.001)
            for word, what in zip(words[3:6], ("MHz", "MB", "Mbit/s"), strict=True)
        )
        known = [self._known("broker", word) for word in words[6:]]
        if len(set(known)) != len(known):
            raise self._error(words[6].column, "a neighbour appears twice", "name each once")
        for place, one in enumerate(known):
            for other in known[:place]:
                if other in self._reached(one):
                    raise self._error(words[6].column, f"{one} and {other} are connected: a cycle", "name one of them")
        neighbours = tuple(known or self.names["broker"][:1])
        name = self._new("broker", words[2])
        self._links += [(name, each) for each in neighbours]
        return AddBroker(self._now, name, cpu, memory, bandwidth, neighbours)

    def _reached(self, name: str) -> set[str]:
        found, waiting = {name}, [name]
        while waiting:
            here = waiting.pop()
            for pair in self._links:
                if here in pair:
                    more = set(pair) - found
                    found |= more
                    waiting += more
        return found

    def _publisher(self, words: list[_Word], line: str) -> Command:
        if not re.fullmatch(r"[A-Za-z0-9.^-]{1,12}", words[3].text):
            raise self._error(words[3].column, f"{words[3].text!r} is not a symbol", "such as YHOO")
        rate = self._amount(words[4], "a rate in messages a minute", least=0.0, most=60_000.0)
        broker = self._known("broker", words[5])
        return AddPublisher(self._now, self._new("publisher", words[2]), words[3].text, rate, broker)

    def _rate(self, words: list[_Word], line: str) -> Command:
        name = self._known("publisher", words[2])
        return ChangeRate(self._now, name, self._amount(words[3], "a rate a minute", least=0.0, most=60_000.0))

    def _subscriber(self, words: list[_Word], line: str) -> Command:
        broker, start = self._known("broker", words[3]), words[4].column
        try:
            condition = Condition.parse(line[start - 1 :], ATTRIBUTES)
        except UserError as error:
            column = start - 1 + int(error.fields.get("column", 1))
            raise self._error(column, error.message, error.hint) from None
        return AddSubscriber(self._now, self._new("subscriber", words[2]), broker, condition)

    def _remove(self, words: list[_Word], line: str) -> Command:
        kind = words[0].text
        name = self._known(kind, words[2])
        if kind == "broker":
            if len(self.names["broker"]) == 1:
                raise self._error(words[2].column, f"{name} is the last broker", "keep one")
            if sum(name in pair for pair in self._links) > 1:
                raise self._error(words[2].column, f"other brokers are connected over {name}", "remove those first")
            self._links = [pair for pair in self._links if name not in pair]
        self.names[kind].remove(name)
        return Remove(self._now, kind, name)
