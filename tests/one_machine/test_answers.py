"""What the town says of a person whose client does not answer."""

from __future__ import annotations

import asyncio

import pytest

from tocsin.demo import loop
from tocsin.errors import Busy
from tocsin.local.options import CityOptions


class Silent:
    """A process of clients that reads and says nothing."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


def test_clients_that_do_not_answer_are_busy_and_nothing_is_kept_of_the_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "PATIENCE", 0.0)

    async def ask() -> None:
        found = loop.DemoLoop(CityOptions(subscribers=2), None, lambda news: None)  # type: ignore[arg-type]
        found._writers[0] = silent = Silent()  # type: ignore[assignment]
        with pytest.raises(Busy, match="too much to do"):
            await found._got(1)
        assert silent.written and found._asked == {}

    asyncio.run(ask())
