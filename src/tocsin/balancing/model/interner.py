"""Maps names of subscribers, brokers and BE subscriptions to small integers, the indexes of the load's arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Interner(Generic[T]):
    """Numbers start at 0; the numbers of forgotten names are reused, so that arrays stay small."""

    def __init__(self) -> None:
        self._number: dict[T, int] = {}
        self._name: dict[int, T] = {}
        self._free: list[int] = []

    def number(self, name: T) -> int:
        """The name's number; a new name gets one."""
        found = self._number.get(name)
        if found is None:
            found = self._free.pop() if self._free else len(self._number)
            self._number[name], self._name[found] = found, name
        return found

    def find(self, name: T) -> int | None:
        return self._number.get(name)

    def name(self, number: int) -> T:
        return self._name[number]

    def name_or(self, number: int, default: T) -> T:
        return self._name.get(number, default)

    def forget(self, name: T) -> int | None:
        """The caller must have removed the number from the load before."""
        number = self._number.pop(name, None)
        if number is not None:
            del self._name[number]
            self._free.append(number)
        return number

    def __len__(self) -> int:
        return len(self._number)

    def __iter__(self) -> Iterator[T]:
        return iter(self._number)
