"""What files may be read, how, and which of their rows fit: shared by file feeds and LOAD DATASET."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql import DataFrame

from tocsin.cluster.model import Column
from tocsin.errors import UserError

Format = Literal["json", "csv", "parquet"]

_EVERY = ("pathGlobFilter", "recursiveFileLookup")
_TEXT = (
    "encoding",
    "lineSep",
    "multiLine",
    "dateFormat",
    "timestampFormat",
    "timestampNTZFormat",
    "timeZone",
    "locale",
)
# The reader's other options can write, delete (cleanSource), hide bad rows (mode) or change the columns.
ALLOWED: dict[str, tuple[str, ...]] = {
    "json": (
        *_EVERY,
        *_TEXT,
        "allowComments",
        "allowNonNumericNumbers",
        "allowNumericLeadingZeros",
        "allowSingleQuotes",
        "allowUnquotedFieldNames",
        "allowBackslashEscapingAnyCharacter",
    ),
    "csv": (
        *_EVERY,
        *_TEXT,
        "header",
        "sep",
        "delimiter",
        "quote",
        "escape",
        "charToEscapeQuoteEscaping",
        "comment",
        "nullValue",
        "emptyValue",
        "nanValue",
        "positiveInf",
        "negativeInf",
        "ignoreLeadingWhiteSpace",
        "ignoreTrailingWhiteSpace",
        "maxColumns",
        "maxCharsPerColumn",
    ),
    "parquet": (*_EVERY, "datetimeRebaseMode", "int96RebaseMode"),
}

_CORRUPT = "_tocsin_corrupt"
_FILE = "_tocsin_file"
_REMOTE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_GLOB = re.compile(r"[*?\[\]{}]")
REASONS = 10


class FileSource(Struct, frozen=True):
    """A checked place to read from. ``options`` are the reader's, spelled as Spark does."""

    path: str
    format: Format
    options: dict[str, str]

    @property
    def local(self) -> bool:
        return not _REMOTE.match(self.path)

    @property
    def recursive(self) -> bool:
        return self.options.get("recursiveFileLookup", "").lower() == "true"


class Sifted(Struct, frozen=True):
    """The rows that fit, how many did not, and why (the first few)."""

    table: pa.Table
    refused: int
    reasons: tuple[str, ...]


def file_source(options: Mapping[str, Any], allowed: Iterable[str] = ()) -> FileSource:
    """Checks the options of a file feed or a load: ``path``, ``format`` and the reader's ``options``."""
    unknown = sorted(set(options) - {"type", "path", "format", "options"})
    if unknown:
        raise UserError(f"unknown option {unknown[0]!r} of a file source", hint="known: path, format, options")
    path, kind, reader = options.get("path"), options.get("format", "json"), options.get("options") or {}
    if not isinstance(path, str) or not path:
        raise UserError("a file source needs a path")
    if not isinstance(kind, str) or kind.lower() not in ALLOWED:
        raise UserError(f"unknown format {kind!r}", hint="one of json, csv, parquet")
    if not isinstance(reader, Mapping):
        raise UserError("the reader's options must be an object")
    checked = check_path(path, allowed)
    if not _REMOTE.match(checked) and _GLOB.search(checked) and Path(checked).is_dir():
        raise UserError(
            f"the folder {path!r} has a wildcard character in its name", hint="rename it, or use pathGlobFilter"
        )
    return FileSource(checked, cast(Format, kind.lower()), _reader_options(kind.lower(), reader))


def _reader_options(kind: str, given: Mapping[str, Any]) -> dict[str, str]:
    spelled = {name.lower(): name for name in ALLOWED[kind]}
    out = {}
    for name, value in given.items():
        if not isinstance(name, str) or name.lower() not in spelled:
            hint = "allowed: " + ", ".join(sorted(ALLOWED[kind]))
            raise UserError(f"the option {name!r} is not allowed for {kind} files", hint=hint)
        if not isinstance(value, str | int | float | bool) or (isinstance(value, str) and "\0" in value):
            raise UserError(f"the option {name!r} must be a text, a number or true or false")
        out[spelled[name.lower()]] = str(value).lower() if isinstance(value, bool) else str(value)
    return out


def check_path(path: str, allowed: Iterable[str] = ()) -> str:
    """The path with symbolic links resolved (an URL as it is); refused outside of ``allowed`` (empty: anywhere)."""
    folders = tuple(allowed)
    if not path or "\0" in path:
        raise UserError("a path may not be empty or hold a zero character")
    target = _normal(path)
    if folders and not any(_inside(target, _normal(folder)) for folder in folders):
        raise UserError(
            f"the path {path!r} is outside of the folders that may be read", hint="the setting load_paths names them"
        )
    return target


def _normal(path: str) -> str:
    if _REMOTE.match(path):
        parts = urlsplit(path)
        if parts.scheme.lower() != "file":
            if ".." in unquote(parts.path).split("/"):
                raise UserError(f"the path {path!r} may not hold '..'")
            if _GLOB.search(unquote(path)):
                raise UserError(
                    f"the path {path!r} may not hold wildcards", hint="name a folder and use pathGlobFilter"
                )
            return path
        if parts.netloc not in ("", "localhost"):
            raise UserError(f"the path {path!r} is on another machine")
        path = unquote(parts.path)
    try:
        return str(Path(path).expanduser().resolve())
    except (OSError, RuntimeError) as error:  # a loop of symbolic links, or no such user
        raise UserError(f"the path {path!r} cannot be resolved: {error}") from error


def _inside(target: str, folder: str) -> bool:
    base = folder.rstrip("/")
    return target.rstrip("/") == base or target.startswith(base + "/")


def check_links(source: FileSource, allowed: Iterable[str]) -> None:
    """A link inside the folder must not lead out of what may be read."""
    folders = tuple(allowed)
    if not folders or not source.local or not Path(source.path).is_dir():
        return
    for folder, _, _ in os.walk(source.path) if source.recursive else [(source.path, None, None)]:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    check_path(entry.path, folders)


def schema_ddl(source: FileSource, columns: tuple[Column, ...]) -> str:
    fields = [f"{quoted(column.name)} {column.type}" for column in columns]
    if source.format != "parquet":
        fields.append(f"{_CORRUPT} string")
    return ", ".join(fields)


def reader_options(source: FileSource) -> dict[str, str]:
    """The user's options and ours: a bad row is marked, not dropped, and does not fail the file."""
    own = {"ignoreMissingFiles": "true"}  # deleting a file that cannot be read is the way to go on
    if source.format != "parquet":
        own |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    if source.format == "csv":
        own["enforceSchema"] = "false"  # with a header in another order, values would land in the wrong columns
    return source.options | own


def marked(df: DataFrame, source: FileSource, columns: tuple[Column, ...]) -> DataFrame:
    """The columns, plus the text of a row that did not fit and the file of any bad one."""
    corrupt = "cast(null as string)" if source.format == "parquet" else _CORRUPT
    bad = [f"{corrupt} is not null"]
    bad += [f"{quoted(column.name)} is null" for column in columns if not column.nullable]
    return df.selectExpr(
        *(quoted(column.name) for column in columns),
        f"{corrupt} as {_CORRUPT}",
        f"case when {' or '.join(bad)} then _metadata.file_name end as {_FILE}",
    )


def sift(table: pa.Table, columns: tuple[Column, ...]) -> Sifted:
    """Takes what ``marked`` selects apart: every bad row is refused by itself, the others stay."""
    names = [column.name for column in columns]
    bad = pc.is_valid(table[_FILE])
    refused = int(pc.sum(bad).as_py() or 0)
    good = table.select(names)
    if not refused:
        return Sifted(good, 0, ())
    reasons = []
    for row in table.filter(bad).slice(0, REASONS).to_pylist():
        text = row[_CORRUPT]
        if text is None:
            empty = next(column.name for column in columns if not column.nullable and row[column.name] is None)
            reasons.append(f"{row[_FILE]}: null in the column {empty!r}")
        else:
            shown = text if len(text) <= 200 else text[:200] + "…"
            reasons.append(f"{row[_FILE]}: does not fit the columns: {shown}")
    return Sifted(good.filter(pc.invert(bad)), refused, tuple(reasons))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
