"""Which statements a home has run already: a script that is given again continues after them."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from tocsin.cluster.statements.parser import iter_statements
from tocsin.errors import UserError


class Remaining(Struct, frozen=True):
    """``text`` is the script with blanks for what was run, so that line and column of the rest stay right."""

    text: str
    marks: list[str]


class Scripts:
    def __init__(self, home: Path) -> None:
        self._file = home / "statements.json"
        try:
            found = msgspec.json.decode(self._file.read_bytes(), type=list[str]) if self._file.exists() else []
        except (OSError, msgspec.DecodeError) as error:
            raise UserError(
                f"{self._file} cannot be read: {error}",
                hint="remove it; then all statements of --sql are run again",
            ) from error
        self._run = found

    def remaining(self, script: str) -> Remaining:
        """A statement that occurs twice in a script runs twice. Raises ParseError."""
        before, text, marks, at = Counter(self._run), list(script), [], 0
        for parsed in iter_statements(script):
            at = script.index(parsed.text, at)
            mark = sha256(parsed.text.encode()).hexdigest()[:24]
            if before[mark]:
                before[mark] -= 1
                for place in range(at, at + len(parsed.text)):
                    text[place] = "\n" if text[place] == "\n" else " "
            else:
                marks.append(mark)
            at += len(parsed.text)
        return Remaining("".join(text), marks)

    def done(self, mark: str) -> None:
        self._run.append(mark)
        draft = self._file.with_suffix(".part")
        draft.write_bytes(msgspec.json.encode(self._run))
        draft.replace(self._file)
