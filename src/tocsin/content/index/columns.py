"""All columns of an index, and the way of a publication through their tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.content.index.buckets import Table
from tocsin.content.index.column import UNKNOWN, Column
from tocsin.content.index.grid import Grid
from tocsin.content.index.tests import GRAM, HIGHEST, NULL, Test, clamp
from tocsin.content.language.attributes import Attributes
from tocsin.content.language.domains import Ordinal

#: With fewer tables, Python is faster than NumPy.
_FEW_TABLES = 24


class Columns:
    def __init__(self, attributes: Attributes) -> None:
        self.attributes = attributes
        #: By index; the first is always 0, for rows without tests.
        self.all: list[Column] = [Column(0, "number")]
        #: Of conjunctions that are always tested.
        self.everything: Table = {}
        self.together: dict[tuple[int, ...], Column] = {}
        self._whole: dict[str, Column] = {}
        self._parts: dict[str, list[Column]] = {}
        self._grams: dict[str, Table] = {}
        self._grids: dict[tuple[str, str], Grid] = {}
        self._any: list[tuple[int, Table]] = []
        #: Tables by value: the column, the bits to leave out, how to look up.
        self._indexes: list[int] = []
        self._shifts: list[int] = []
        self._gets: list[Callable[[int], int | None]] = []
        self._index_array: NDArray[np.int64] = np.empty(0, np.int64)
        self._shift_array: NDArray[np.int64] = np.empty(0, np.int64)

    def of(self, test: Test) -> Column:
        """The column of a test, which is made if there is none."""
        whole = self._whole.get(test.attribute) or self._make_whole(test.attribute)
        if test.kind not in ("prefix", "suffix"):
            return whole
        length, parts = len(test.text or ""), self._parts[test.attribute]
        for part in parts:
            if part.kind == test.kind and part.length == length:
                return part
        parts.append(self._make(Column(len(self.all), test.kind, length)))
        return parts[-1]

    def _make_whole(self, attribute: str) -> Column:
        domain = self.attributes[attribute].domain
        column = self._make(Column(len(self.all), "text" if domain.family == "text" else "number"))
        column.wide = domain.family == "number" and (domain.top or 0) > HIGHEST
        self._whole[attribute] = column
        self._parts[attribute] = []
        self._any.append((column.index, column.any_value))
        return column

    def _make(self, column: Column) -> Column:
        self.all.append(column)
        self._probe(column, 0, column.equal)
        return column

    def _probe(self, column: Column, shift: int, table: Table) -> None:
        self._indexes.append(column.index)
        self._shifts.append(shift)
        self._gets.append(table.get)
        self._index_array, self._shift_array = np.array(self._indexes), np.array(self._shifts)

    def make_together(self, columns: tuple[Column, ...]) -> None:
        key = tuple(column.index for column in columns)
        self.together[key] = self._make(Column(len(self.all), "together", together=columns))

    def level(self, column: Column, shift: int) -> Table:
        table = column.levels.get(shift)
        if table is None:
            table = column.levels[shift] = {}
            self._probe(column, shift, table)
        return table

    def grams(self, attribute: str) -> Table:
        return self._grams.setdefault(attribute, {})

    def grid(self, latitude: str, longitude: str) -> Grid:
        return self._grids.setdefault((latitude, longitude), Grid())

    def look_up(self, publication: Mapping[str, Ordinal]) -> tuple[list[int], list[int]]:
        """The values of a publication by column, and the numbers of the buckets that they lead to."""
        vector = [NULL] * len(self.all)
        vector[0] = 0
        found: list[int] = []
        whole = self._whole
        for name, ordinal in publication.items():
            column = whole.get(name)
            if column is None:
                continue
            if column.kind == "number":
                vector[column.index] = clamp(ordinal) if column.wide else ordinal  # type: ignore[assignment]
            else:
                vector[column.index] = column.numbers.get(ordinal, UNKNOWN)
                for part in self._parts[name]:
                    text: Any = ordinal
                    text = text[: part.length] if part.kind == "prefix" else text[-part.length :]
                    vector[part.index] = part.numbers.get(text, UNKNOWN)
        for column in self.together.values():
            values = tuple([vector[each.index] for each in column.together])
            vector[column.index] = column.numbers.get(values, UNKNOWN)
        gets = self._gets
        if len(gets) < _FEW_TABLES:
            keys = [vector[index] >> shift for index, shift in zip(self._indexes, self._shifts, strict=True)]
        else:
            keys = (np.array(vector, np.int64)[self._index_array] >> self._shift_array).tolist()
        found = [number for number in [get(key) for get, key in zip(gets, keys, strict=True)] if number is not None]
        found += [table[0] for index, table in self._any if table and vector[index] != NULL]
        if self._grams or self._grids:
            self._look_further(publication, found)
        found += self.everything.values()
        return vector, found

    def _look_further(self, publication: Mapping[str, Ordinal], found: list[int]) -> None:
        for name, table in self._grams.items():
            text = publication.get(name)
            if table and isinstance(text, str):
                grams = {text[at : at + GRAM] for at in range(len(text) - GRAM + 1)}
                found += [table[gram] for gram in grams if gram in table]
        for (latitude, longitude), grid in self._grids.items():
            if latitude in publication and longitude in publication:
                lat, lon = (self.attributes[name].domain.number(publication[name]) for name in (latitude, longitude))
                grid.look_up(lat, lon, found)
