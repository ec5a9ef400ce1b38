"""Runs the ``sql``, ``sh`` and ``python`` blocks of a page in their order.

```text or ```json right after a block    what it prints; ``…`` stands for anything
<!-- not run: why -->                      before a block that is only shown
<!-- wait: CHANNEL N -->                   before a block that needs execution N of a channel
<!-- save: FILE -->                        before a block that goes into a file
<!-- terminal: NAME -->                    before a block that runs on in a terminal of its own
<!-- shown in: NAME -->                    before a block that such a terminal shows next
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: .+? -->\s*$")
_WAIT = re.compile(r"<!-- wait: (\w+) (\d+) -->\s*$")
_DIRECTIVE = re.compile(r"<!-- (save|terminal|shown in): (\S+) -->\s*$")
RUN = ("sql", "sh", "python")


class Block(NamedTuple):
    """``expected`` None: the page does not show what it prints. ``directive``: its kind and the name in it."""

    language: str
    text: str
    line: int
    expected: str | None = None
    wait: tuple[str, int] | None = None
    directive: tuple[str, str] | None = None


def blocks(page: Path) -> list[Block]:
    """The blocks to run, in order."""
    return _blocks(page, RUN)


def conversations(page: Path) -> list[Block]:
    """The blocks to run or to send to a broker, in order."""
    return _blocks(page, ("sh", "conversation"))


def _blocks(page: Path, languages: tuple[str, ...]) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    fences = list(_FENCE.finditer(text))
    found = []
    for place, fence in enumerate(fences):
        before = text[: fence.start()]
        found_directive = _DIRECTIVE.search(before)
        directive = (found_directive[1], found_directive[2]) if found_directive else None
        if not directive and (fence[1] not in languages or _NOT_RUN.search(before)):
            continue
        following = fences[place + 1] if place + 1 < len(fences) else None
        shown = None
        if following is not None and following[1] in ("text", "json"):
            apart = text[fence.end() : following.start()].strip()
            shown = None if apart or directive else following[2]
        wait = _WAIT.search(before)
        named = (wait[1], int(wait[2])) if wait else None
        found.append(Block(fence[1], fence[2], before.count("\n") + 1, shown, named, directive))
    return found


def commands(page: Path) -> list[str]:
    """Every command line of a page that begins with ``tocsin``, run or not, continued lines joined."""
    text = page.read_text(encoding="utf-8")
    shells = [fence[2].replace("\\\n", " ") for fence in _FENCE.finditer(text) if fence[1] == "sh"]
    return [line.strip() for shell in shells for line in shell.splitlines() if line.strip().startswith("tocsin ")]


def same(printed: str, expected: str) -> bool:
    def lines(text: str) -> list[str]:
        return [line.rstrip() for line in text.strip().splitlines()]

    pattern = "\n".join(lines(expected))
    return bool(re.fullmatch(".*?".join(map(re.escape, pattern.split("…"))), "\n".join(lines(printed)), re.DOTALL))


def check(page: Path, block: Block, printed: str) -> None:
    if block.expected is not None and not same(printed, block.expected):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        raise AssertionError(f"{where} prints\n{printed}\nand the page shows\n{block.expected}")
