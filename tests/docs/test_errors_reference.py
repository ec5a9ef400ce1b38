"""The reference of errors matches the code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pages import DOCS

from tocsin import errors

TEXT = (DOCS / "reference" / "errors.md").read_text()


def subclasses(kind: type[errors.TocsinError]) -> Iterator[type[errors.TocsinError]]:
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield each
        yield from subclasses(each)


def test_every_error_is_listed_with_its_code_and_status() -> None:
    listed = re.findall(r"^\| `(\w+)` \| (\d+) \| `(\w+)` \|", TEXT, re.MULTILINE)
    known = [(each.code, str(each.status), each.__name__) for each in subclasses(errors.TocsinError)]
    assert sorted(listed) == sorted(known)
