"""The typed configuration: one model, from which the file template, the environment names and the reference come."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct, field

from tocsin.errors import UserError


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """What a request may not exceed."""

    request_bytes: Annotated[int, Meta(description="largest request body, after decompression")] = 64 * 1024 * 1024
    records: Annotated[int, Meta(description="most records in one post")] = 200_000
    record_bytes: Annotated[int, Meta(description="largest single record")] = 1024 * 1024
    json_depth: Annotated[int, Meta(description="deepest nesting of a JSON record")] = 32
    parameters: Annotated[int, Meta(description="most parameters of a channel, function or procedure")] = 32
    name_length: Annotated[int, Meta(description="longest name of anything")] = 128
    columns: Annotated[int, Meta(description="most columns of a dataset")] = 1_000
    statement_bytes: Annotated[int, Meta(description="longest script")] = 4 * 1024 * 1024
    subscriptions_per_request: Annotated[int, Meta(description="most subscriptions in one request")] = 50_000
    query_rows: Annotated[int, Meta(description="most rows a retrospective query returns")] = 1_000_000


class ClusterConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One data cluster."""

    home: Annotated[str, Meta(description="folder of the catalog (SQLite) and, by default, of the segments")] = (
        "tocsin-data"
    )
    catalog: Annotated[str, Meta(description="'' for SQLite in home, or a postgresql:// address")] = ""
    segments: Annotated[str, Meta(description="'' for home/segments, or any path or URL Spark can read")] = ""
    host: Annotated[str, Meta(description="address to listen on")] = "127.0.0.1"
    port: Annotated[int, Meta(description="port to listen on; 0 takes a free one")] = 8480
    master: Annotated[str, Meta(description="Spark master")] = "local[*]"
    driver_memory: Annotated[str, Meta(description="memory of Spark's driver")] = "2g"
    spark: Annotated[dict[str, str], Meta(description="further Spark settings")] = field(default_factory=dict)
    load_paths: Annotated[
        tuple[str, ...], Meta(description="folders that LOAD DATASET and file feeds may read; empty: anywhere")
    ] = ()
    tail_rows: Annotated[int, Meta(description="recent rows of a dataset kept in memory before they are merged")] = (
        50_000
    )
    tail_segments: Annotated[int, Meta(description="recent segments of a dataset before they are merged")] = 256
    collect_rows: Annotated[int, Meta(description="results above this are written by the executors")] = 500_000
    retention: Annotated[float, Meta(description="seconds results are kept where a channel says nothing")] = 86_400.0
    idempotency: Annotated[float, Meta(description="seconds an Idempotency-Key is remembered")] = 86_400.0
    execution_threads: Annotated[int, Meta(description="executions that may run side by side")] = 4
    retries: Annotated[int, Meta(description="tries of a failing execution before the channel is marked failing")] = 3
    broker_gone_after: Annotated[
        float, Meta(description="seconds of silence after which a broker is declared gone")
    ] = 600.0
    limits: Limits = field(default_factory=Limits)

    @property
    def segment_root(self) -> str:
        return self.segments or str(Path(self.home).resolve() / "segments")


def load(path: str | None = None, env: dict[str, str] | None = None, **overrides: Any) -> ClusterConfig:
    """Reads a TOML file, then TOCSIN_* variables, then ``overrides`` (None means: not given)."""
    values: dict[str, Any] = {}
    if path:
        try:
            values.update(tomllib.loads(Path(path).read_text()))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise UserError(f"cannot read the configuration {path}: {error}") from error
    environ = dict(os.environ) if env is None else env
    for name, kind in get_type_hints(ClusterConfig).items():
        raw = environ.get(f"TOCSIN_{name.upper()}")
        if raw is not None:
            values[name] = raw if kind is str else _from_text(raw)
    limits = dict(values.get("limits", {}))
    for name in get_type_hints(Limits):
        raw = environ.get(f"TOCSIN_LIMITS_{name.upper()}")
        if raw is not None:
            limits[name] = _from_text(raw)
    if limits:
        values["limits"] = limits
    values.update({name: value for name, value in overrides.items() if value is not None})
    try:
        return msgspec.convert(values, ClusterConfig, strict=False)
    except msgspec.ValidationError as error:
        raise UserError(f"the configuration is wrong: {error}", hint="see docs/reference/configuration.md") from error


def _from_text(raw: str) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return raw


def rows(model: type[Struct] = ClusterConfig, prefix: str = "") -> list[tuple[str, str, str, str]]:
    """(name, environment variable, default, meaning) of every setting."""
    out = []
    hints = get_type_hints(model, include_extras=True)
    for item in msgspec.structs.fields(model):
        hint = hints[item.name]
        if isinstance(hint, type) and issubclass(hint, Struct):
            out += rows(hint, f"{prefix}{item.name}.")
            continue
        default = item.default_factory() if item.default is msgspec.NODEFAULT else item.default
        meaning = next(meta.description for meta in get_args(hint)[1:] if isinstance(meta, Meta))
        name = prefix + item.name
        out.append(
            (name, "TOCSIN_" + name.upper().replace(".", "_"), msgspec.json.encode(default).decode(), meaning or "")
        )
    return out
