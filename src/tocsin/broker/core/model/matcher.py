"""The conditions of a feed's BE subscriptions, and the records that each of them gets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Raw

from tocsin.broker.core.events import Args, FeedColumn, Line
from tocsin.content import Attributes, Condition, MatchIndex, record_reader
from tocsin.errors import TypeMismatch
from tocsin.wire.feed_name import ALL, WHERE


class Matcher:
    """A record is decoded and matched once, however many conditions there are; its bytes pass as they came."""

    def __init__(self, columns: Iterable[FeedColumn]) -> None:
        self.attributes = Attributes.of_columns(columns)
        self.index = MatchIndex(self.attributes)
        # The index takes small numbers: those of removed subscriptions are used again.
        self._slots: dict[int, int] = {}
        self._ids: list[int] = []
        self._free: list[int] = []
        self._read = record_reader(self.attributes)

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, id: int, args: Args) -> tuple[str, ...]:
        """Warnings for the subscriber. An error leaves everything as it was."""
        condition = Condition.parse(where(args), self.attributes)
        slot = self._free[-1] if self._free else len(self._ids)
        self.index.add(slot, condition)
        if self._free:
            self._free.pop()
            self._ids[slot] = id
        else:
            self._ids.append(id)
        self._slots[id] = slot
        return condition.warnings

    def remove(self, id: int) -> None:
        slot = self._slots.pop(id, None)
        if slot is not None:
            self.index.remove(slot)
            self._free.append(slot)

    def lines(self, execution: int, records: Sequence[Raw | bytes]) -> list[Line]:
        """What each subscription gets of a commit: its records in their order, as one JSON array."""
        found: dict[int, list[bytes]] = {}
        if self._slots:
            for record in records:
                data = bytes(record)
                for slot in self.index.match(self._read(data)).tolist():
                    found.setdefault(slot, []).append(data)
        ids = self._ids
        return [
            Line(ids[slot], execution, len(mine), Raw(b"[" + b",".join(mine) + b"]")) for slot, mine in found.items()
        ]


def where(args: Args) -> str:
    """The condition in the arguments of a subscription; raises TypeMismatch where the data cluster does."""
    named = [WHERE] if isinstance(args, list) else [name.lower() for name in args]
    values = args if isinstance(args, list) else list(args.values())
    if named != [WHERE] or len(values) != 1 or not isinstance(values[0], str):
        raise TypeMismatch(
            f"a subscription to a feed takes one argument, {WHERE}: the text of a condition",
            hint=f'an empty text selects every record: {{"{WHERE}": ""}}',
            parameter=WHERE,
        )
    return values[0].strip() or ALL
