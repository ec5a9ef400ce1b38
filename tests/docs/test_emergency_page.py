"""The page of the emergency application lists the channels of the example correctly."""

from __future__ import annotations

import re

from pages import DOCS, ROOT

from tocsin.cluster.statements.ast import CreateChannel, CreateFunction
from tocsin.cluster.statements.parser import iter_statements


def test_the_channels_have_the_parameters_and_periods_of_the_example() -> None:
    script = (ROOT / "examples" / "emergency.sql").read_text()
    statements = [parsed.statement for parsed in iter_statements(script)]
    parameters = {
        each.name: [p.name for p in each.parameters] for each in statements if isinstance(each, CreateFunction)
    }
    known = {
        each.name: (parameters[str(each.function)], f"{each.period:g} s")
        for each in statements
        if isinstance(each, CreateChannel)
    }
    page = (DOCS / "explanation" / "emergency-application.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|[^|]*\| ([^|]*) \| (\d+ s) \|$", page, re.MULTILINE)
    assert {name: (re.findall(r"`(\w+)`", here), period) for name, here, period in rows} == known
