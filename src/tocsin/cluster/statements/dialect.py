"""The SQL that queries and bodies are read in: sqlglot's Spark dialect, as Spark 4.3 reads it."""

from __future__ import annotations

from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import TokenType


class TocsinSpark(Spark):
    """Read with this one, write with either: ``sqlglot.parse_one(sql, read=TocsinSpark)``."""

    class Tokenizer(Spark.Tokenizer):
        # Since Spark 4 a doubled quote in a string is that quote; sqlglot reads 'it''s' as 'it' followed by 's'.
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012
        # sqlglot hides everything behind EXECUTE, SHOW, … in one string; here they are ordinary words.
        COMMANDS: ClassVar[set[TokenType]] = set()
