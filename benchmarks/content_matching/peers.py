"""Other ways to match, on predicates and publications that are encoded as whole numbers before the clock starts."""

from __future__ import annotations

import ctypes
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import duckdb
import numpy as np
from numpy.typing import NDArray

from benchmarks.fanout import compiler
from tocsin.content import Attributes, Condition
from tocsin.content.index.tests import HIGHEST, LOWEST, NULL, Test, tests_of
from tocsin.content.language.domains import Ordinal

Vector = NDArray[np.int64]
#: A table with so many columns is one row for each subscription; with more, one for each predicate.
WIDE = 16


class Encoding:
    """Predicates (subscription, column, low, high). Texts are numbers; the start or end of a text is a column."""

    def __init__(self, attributes: Attributes) -> None:
        self.attributes = attributes
        self.subscriptions = array("i")
        self.columns = array("i")
        self.lows = array("q")
        self.highs = array("q")
        self.size = 0
        self._columns: dict[tuple[str, str, int], int] = {}
        self._texts: dict[str, int] = {}

    def add(self, condition: Condition) -> None:
        (term,) = condition.terms
        for part in tests_of(term, self.attributes).parts:
            for test in part.tests:
                low, high = test.low, test.high
                if test.text is not None:
                    low = high = self._texts.setdefault(test.text, len(self._texts))
                self.subscriptions.append(self.size)
                self.columns.append(self._column(test))
                self.lows.append(low)
                self.highs.append(high)
        self.size += 1

    def _column(self, test: Test) -> int:
        length = len(test.text or "") if test.kind in ("prefix", "suffix") else 0
        return self._columns.setdefault((test.kind, test.attribute, length), len(self._columns))

    @property
    def width(self) -> int:
        return len(self._columns)

    @property
    def bytes(self) -> int:
        return sum(each.itemsize * len(each) for each in (self.subscriptions, self.columns, self.lows, self.highs))

    def predicates(self) -> NDArray[Any]:
        layout = [("low", "i8"), ("high", "i8"), ("column", "i4"), ("subscription", "i4")]
        found = np.empty(len(self.lows), np.dtype(layout))
        given = {"low": self.lows, "high": self.highs, "column": self.columns, "subscription": self.subscriptions}
        for name, values in given.items():
            found[name] = values
        return found

    def vector(self, publication: Mapping[str, Ordinal]) -> Vector:
        found = np.full(self.width, NULL, np.int64)
        for (kind, attribute, length), column in self._columns.items():
            value: Any = publication.get(attribute)
            if value is not None:
                if isinstance(value, str):
                    text = value[:length] if kind == "prefix" else value[-length:] if kind == "suffix" else value
                    value = self._texts.get(text, -1)
                found[column] = value
        return found


class Peer(Protocol):
    """``bytes`` is None where it is not known."""

    name: str
    bytes: int | None

    def match(self, vector: Vector) -> int:
        """How many subscriptions match; their ids are found too."""
        ...

    def close(self) -> None: ...


class Counting:
    """The counting algorithm in C, called once for each publication."""

    name = "counting in C"

    def __init__(self, encoding: Encoding) -> None:
        flags = ("-O3", "-march=native", "-shared", "-fPIC")
        self._library = library = ctypes.CDLL(str(compiler.program("counting", flags, Path(__file__).parent)))
        library.build.restype = ctypes.c_void_p
        library.bytes.restype = ctypes.c_int64
        library.match.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        for function in (library.bytes, library.discard):
            function.argtypes = [ctypes.c_void_p]
        rows = encoding.predicates()
        given = (ctypes.c_void_p(rows.ctypes.data), len(rows), encoding.size, encoding.width)
        self._index = library.build(*given)
        self._found = np.empty(encoding.size, np.int32)
        self._into = self._found.ctypes.data
        self.bytes: int | None = library.bytes(self._index)

    def match(self, vector: Vector) -> int:
        return int(self._library.match(self._index, vector.ctypes.data, self._into))

    def close(self) -> None:
        self._library.discard(self._index)


class NumpyCounting:
    """The same with NumPy: slices of sorted arrays, and one bincount."""

    name = "counting in NumPy"

    def __init__(self, encoding: Encoding) -> None:
        rows = encoding.predicates()
        self._needed = np.bincount(rows["subscription"], minlength=encoding.size)
        self._size = encoding.size
        self._columns = []
        for column in range(encoding.width):
            mine = rows[rows["column"] == column]
            equal = mine["low"] == mine["high"]
            upper = ~equal & (mine["low"] == LOWEST)
            parts = []
            for chosen, key in ((equal, "low"), (~equal & ~upper, "low"), (upper, "high")):
                some = mine[chosen]
                some = some[np.argsort(some[key], kind="stable")]
                parts.append((some[key].copy(), some["high"].copy(), some["subscription"].copy()))
            self._columns.append(parts)
        arrays = [array for parts in self._columns for part in parts for array in part]
        self.bytes: int | None = sum(array.nbytes for array in [*arrays, self._needed])

    def match(self, vector: Vector) -> int:
        hits = []
        for value, (equal, lower, upper) in zip(vector, self._columns, strict=True):
            if len(equal[0]):
                first, last = equal[0].searchsorted(value, "left"), equal[0].searchsorted(value, "right")
                hits.append(equal[2][first:last])
            if value == NULL:
                continue
            last = lower[0].searchsorted(value, "right")
            hits.append(lower[2][:last][lower[1][:last] >= value])
            hits.append(upper[2][upper[0].searchsorted(value, "left") :])
        counted = np.bincount(np.concatenate(hits), minlength=self._size)
        return len(np.flatnonzero(counted == self._needed))

    def close(self) -> None:
        self._columns.clear()


class Shapes:
    """Pure Python: subscriptions with the same columns together, equalities by dictionary, a comparison by bisect."""

    name = "pure Python by shape"

    def __init__(self, encoding: Encoding) -> None:
        tests: list[list[tuple[int, int, int]]] = [[] for _ in range(encoding.size)]
        for given in zip(encoding.subscriptions, encoding.columns, encoding.lows, encoding.highs, strict=True):
            tests[given[0]].append(given[1:])
        self._shapes: dict[Any, dict[Any, Any]] = {}
        for subscription, each in enumerate(tests):
            equal = sorted(test for test in each if test[1] == test[2])
            ranges = sorted(test for test in each if test[1] != test[2])
            one = len(ranges) == 1 and (ranges[0][1] == LOWEST) != (ranges[0][2] == HIGHEST)
            side = (ranges[0][0], ranges[0][2] == HIGHEST) if one else None
            shape = (tuple(test[0] for test in equal), side, bool(ranges))
            group = self._shapes.setdefault(shape, {}).setdefault(tuple(test[1] for test in equal), [])
            bound = (ranges[0][1] if side and side[1] else ranges[0][2]) if one else 0
            group.append((bound, subscription) if one else (subscription, ranges))
        for (_, side, _), groups in self._shapes.items():
            if side is not None:
                for key, group in groups.items():
                    group.sort()
                    groups[key] = ([bound for bound, _ in group], [subscription for _, subscription in group])
        self.bytes: int | None = None

    def match(self, vector: Vector) -> int:
        values = vector.tolist()
        found: list[int] = []
        for (columns, side, ranged), groups in self._shapes.items():
            group = groups.get(tuple([values[column] for column in columns]))
            if group is None:
                continue
            if side is not None:
                value = values[side[0]]
                if value != NULL:
                    bounds, ids = group
                    found += ids[: bisect_right(bounds, value)] if side[1] else ids[bisect_left(bounds, value) :]
            elif ranged:
                for subscription, tests in group:
                    if all(low <= values[column] <= high for column, low, high in tests):
                        found.append(subscription)
            else:
                found += [subscription for subscription, _ in group]
        return len(found)

    def close(self) -> None:
        self._shapes.clear()


class DuckDB:
    """SQL over a table of subscriptions, or of predicates, in memory and with one thread."""

    name = "DuckDB"

    def __init__(self, encoding: Encoding) -> None:
        self._database = duckdb.connect(config={"threads": 1})
        rows = encoding.predicates()
        self.bytes: int | None = None
        if encoding.width <= WIDE:
            bounds = {}
            for column in range(encoding.width):
                mine = rows[rows["column"] == column]
                for name, default in (("low", NULL), ("high", HIGHEST)):
                    values = np.full(encoding.size, default, np.int64)
                    values[mine["subscription"]] = mine[name]
                    bounds[f"{name}{column}"] = values
            given = {"id": np.arange(encoding.size), **bounds}
            tests = " AND ".join(f"? BETWEEN low{column} AND high{column}" for column in range(encoding.width))
            self._query = f"SELECT id FROM subscriptions WHERE {tests}"
        else:
            needed = np.bincount(rows["subscription"], minlength=encoding.size)
            order = np.argsort(rows["column"], kind="stable")
            given = {name: rows[name][order] for name in ("subscription", "column", "low", "high")}
            given["needed"] = needed[given["subscription"]]
            tests = " OR ".join(f'("column" = {c} AND ? BETWEEN low AND high)' for c in range(encoding.width))
            values = ", ".join(f"({column}, ?::BIGINT)" for column in range(encoding.width))
            self._query = (
                f'SELECT subscription FROM subscriptions JOIN (VALUES {values}) AS p("column", value) USING ("column") '
                "WHERE value BETWEEN low AND high GROUP BY subscription HAVING count(*) = any_value(needed)"
            )
        names = ", ".join(f'"{name}"' for name in given)
        self._database.register("given", given)
        self._database.execute(f"CREATE TABLE subscriptions AS SELECT {names} FROM given")
        self._database.unregister("given")

    def match(self, vector: Vector) -> int:
        found = self._database.execute(self._query, vector.tolist()).fetchnumpy()
        return len(next(iter(found.values())))

    def close(self) -> None:
        self._database.close()
