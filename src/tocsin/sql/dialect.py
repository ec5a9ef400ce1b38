"""The SQL that queries and bodies are read and written in: sqlglot's Spark dialect, without changing what it means."""

from __future__ import annotations

from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import TokenType

_SYNTAX = frozenset(["CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTR", "SUBSTRING", "POSITION", "OVERLAY"])
_SYNTAX |= {"BROADCAST", "BROADCASTJOIN", "MAPJOIN", "MERGE", "MERGEJOIN", "SHUFFLEMERGE", "SHUFFLE_HASH"}
_SYNTAX |= {"SHUFFLE_REPLICATE_NL"}


class TocsinSpark(Spark):
    """sqlglot's Spark rewrites functions (``percentile_cont`` to ``percentile_approx``): here they stay as they are."""

    class Tokenizer(Spark.Tokenizer):
        # Since Spark 4 a doubled quote in a string is that quote; sqlglot reads 'it''s' as 'it' followed by 's'.
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012
        # sqlglot hides everything after EXECUTE, SHOW, … in one string; here they are ordinary words.
        COMMANDS: ClassVar[set[TokenType]] = set()

    class Parser(Spark.Parser):  # type: ignore[valid-type,misc]
        FUNCTIONS = {}  # type: ignore[var-annotated]  # noqa: RUF012
        # Only those with a syntax of their own.
        FUNCTION_PARSERS = {  # noqa: RUF012
            name: parser for name, parser in Spark.Parser.FUNCTION_PARSERS.items() if name in _SYNTAX
        }

    class Generator(Spark.Generator):  # type: ignore[valid-type,misc]
        TABLESAMPLE_SEED_KEYWORD = "REPEATABLE"
