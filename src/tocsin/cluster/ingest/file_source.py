"""File sources: which files may be read, with which options, and which rows fit. For file feeds and LOAD DATASET."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import unquote, urlsplit

from msgspec import Struct, structs
from pyspark.sql import DataFrame

from tocsin.cluster.model import Column, Dataset
from tocsin.cluster.records.type_ddl import quoted
from tocsin.cluster.storage.bulk_writer import REASON
from tocsin.config import ClusterConfig
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
# Other options of the reader can write, delete (cleanSource), hide bad rows (mode) or change the columns.
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
_FILE = "_metadata.file_name"
#: Letters of a row that a reason shows.
_SHOWN = 200
#: The columns that order rows of several files, besides the place of a row in its task.
ORDER = ("_tocsin_file", "_tocsin_start")
_REMOTE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_GLOB = re.compile(r"[*?\[\]{}]")


class FileSource(Struct, frozen=True):
    """A checked path, and the options of the reader as Spark spells them."""

    path: str
    format: Format
    options: dict[str, str]

    @property
    def local(self) -> bool:
        return not _REMOTE.match(self.path)

    @property
    def recursive(self) -> bool:
        return self.options.get("recursiveFileLookup", "").lower() == "true"


def file_source(options: Mapping[str, Any], config: ClusterConfig) -> FileSource:
    """Check the options of a file feed or a load: ``path``, ``format`` and the ``options`` of the reader."""
    unknown = sorted(set(options) - {"type", "path", "format", "options", "trigger"})
    if unknown:
        raise UserError(f"unknown option {unknown[0]!r} of a file source", hint="known: path, format, options")
    path, kind, reader = options.get("path"), options.get("format", "json"), options.get("options") or {}
    if not isinstance(path, str) or not path:
        raise UserError("a file source needs a path")
    if not isinstance(kind, str) or kind.lower() not in ALLOWED:
        raise UserError(f"unknown format {kind!r}", hint="use json, csv or parquet")
    if not isinstance(reader, Mapping):
        raise UserError("the options of the reader must be an object")
    checked = check_path(path, config)
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
            raise UserError(f"the option {name!r} must be a string, a number or a boolean")
        out[spelled[name.lower()]] = str(value).lower() if isinstance(value, bool) else str(value)
    return out


def check_path(path: str, config: ClusterConfig) -> str:
    """The path without symbolic links (a URL unchanged); an error if it is outside of ``load_paths``."""
    if not path or "\0" in path:
        raise UserError("a path must not be empty or contain a NUL character")
    target = _normal(path)
    if not any(_allowed(target, folder, config.home) for folder in config.load_paths):
        raise UserError(
            f"the path {path!r} is not in a folder that may be read", hint="the setting load_paths lists these folders"
        )
    return target


def _allowed(target: str, folder: str, home: str) -> bool:
    base = _normal(folder)
    if not _inside(target, base) or folder != ".":
        return _inside(target, base)
    # The working folder may be a user's own, or hold the homes of brokers and of the coordinator, which have secrets.
    own = Path(home).resolve()
    private = own if Path(base).is_relative_to(own.parent) else own.parent
    hidden = any(part.startswith((".", "tocsin-")) for part in Path(target).relative_to(base).parts)
    return base != "/" and not hidden and not _inside(target, str(private))


def _normal(path: str) -> str:
    if _REMOTE.match(path):
        parts = urlsplit(path)
        if parts.scheme.lower() != "file":
            if ".." in unquote(parts.path).split("/"):
                raise UserError(f"the path {path!r} must not contain '..'")
            if _GLOB.search(unquote(path)):
                raise UserError(
                    f"the path {path!r} must not contain wildcards", hint="name a folder and use pathGlobFilter"
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


def escaped(path: str) -> str:
    """A path for Spark, which would take some signs for wildcards."""
    return "".join("\\" + sign if sign in "*?[]{}\\" else sign for sign in path)


def check_links(source: FileSource, config: ClusterConfig) -> None:
    """Refuse a symbolic link that leads out of the folders that may be read."""
    if not source.local or not Path(source.path).is_dir():
        return
    for folder, _, _ in os.walk(source.path) if source.recursive else [(source.path, None, None)]:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    check_path(entry.path, config)


def file_columns(dataset: Dataset) -> tuple[Column, ...]:
    """The columns that a file has for a dataset: without a generated key, and a key is never null."""
    generated = dataset.key if dataset.autogenerated else ()
    return tuple(
        structs.replace(column, nullable=column.nullable and column.name not in dataset.key)
        for column in dataset.columns
        if column.name not in generated
    )


def schema_ddl(source: FileSource, columns: tuple[Column, ...]) -> str:
    fields = [f"{quoted(column.name)} {column.type}" for column in columns]
    if source.format != "parquet":
        fields.append(f"{_CORRUPT} string")
    return ", ".join(fields)


def reader_options(source: FileSource) -> dict[str, str]:
    """The options for Spark's reader: a bad row is marked, and neither dropped nor an error."""
    own = {"ignoreMissingFiles": "true"}  # a user may delete a file that cannot be read
    if source.format != "parquet":
        own |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    if source.format == "csv":
        own["enforceSchema"] = "false"  # otherwise a header in another order would mix up the columns
    return source.options | own


def marked(df: DataFrame, source: FileSource, columns: tuple[Column, ...], *, ordered: bool = False) -> DataFrame:
    """The columns, and the reason why a row does not fit. ``ordered``: and the ORDER of its rows by files."""
    cases = []
    if source.format != "parquet":
        text = f"if(length({_CORRUPT}) > {_SHOWN}, concat(left({_CORRUPT}, {_SHOWN}), '…'), {_CORRUPT})"
        cases.append(f"when {_CORRUPT} is not null then concat({_FILE}, ': does not fit the columns: ', {text})")
    for column in columns:
        if not column.nullable:
            text = _literal(f": null in the column {column.name!r}")
            cases.append(f"when {quoted(column.name)} is null then concat({_FILE}, {text})")
    reason = f"case {' '.join(cases)} end" if cases else "cast(null as string)"
    order = ("_metadata.file_path", "_metadata.file_block_start") if ordered else ()
    return df.selectExpr(
        *(quoted(column.name) for column in columns),
        f"{reason} as {REASON}",
        *(f"{place} as {name}" for place, name in zip(order, ORDER, strict=False)),
    )


def _literal(text: str) -> str:
    """A string of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
