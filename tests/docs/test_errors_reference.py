"""The reference of errors is that of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pages import DOCS

from tocsin import errors
from tocsin.cluster.model import Refusal

TEXT = (DOCS / "reference" / "errors.md").read_text()


def subclasses(kind: type[errors.TocsinError]) -> Iterator[type[errors.TocsinError]]:
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield each
        yield from subclasses(each)


def test_every_error_is_there_with_its_code_and_status() -> None:
    listed = re.findall(r"^\| `(\w+)` \| (\d+) \| `(\w+)` \|", TEXT, re.MULTILINE)
    known = [(each.code, str(each.status), each.__name__) for each in subclasses(errors.TocsinError)]
    assert sorted(listed) == sorted(known)


def test_every_reason_to_refuse_a_record_is_there() -> None:
    codes = re.search(r"Codes: (.*?)\.\n", Refusal.__doc__ or "", re.DOTALL)
    assert codes is not None
    section = TEXT.partition("## Records that do not fit")[2]
    assert [code for code in re.findall(r"\w+", codes[1]) if f"`{code}`" not in section] == []
