from __future__ import annotations

import pytest
import sqlglot

from tocsin.sql.dialect import TocsinSpark


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("'it''s'", "it's"),
        ('"say ""so"""', 'say "so"'),
        ("''", ""),
        ("''''", "'"),
        (r"'it\'s'", "it's"),
        ("'say \"so\"'", 'say "so"'),
        (r"r'a\'", "a\\"),
        (r"'a\\'", "a\\"),
    ],
)
def test_a_string_means_what_it_means_in_spark(written: str, meant: str) -> None:
    tree = sqlglot.parse_one(f"SELECT {written}", read=TocsinSpark)
    assert tree.expressions[0].name == meant


def test_words_that_sqlglot_takes_for_commands_are_ordinary_ones() -> None:
    assert [token.text for token in TocsinSpark().tokenize("EXECUTE p(1)")] == ["EXECUTE", "p", "(", "1", ")"]
