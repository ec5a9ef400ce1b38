"""Finds people of a city by number, by name, or by district."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tocsin.demo.city import City

#: The most that are returned.
MOST = 8


class PeopleFinder:
    def __init__(self, city: City) -> None:
        self.city = city

    @cached_property
    def _names(self) -> list[str]:
        return [self.city.people.name(number).casefold() for number in range(self.city.people.count)]

    def find(self, wanted: str) -> list[int]:
        """Numbers: the given one, then people with the words in their name, then people in that district."""
        words, count = " ".join(wanted.casefold().split()), self.city.people.count
        if not words:
            return []
        found = dict.fromkeys([int(words)] if words.isdecimal() and len(words) < 10 and int(words) < count else [])
        for number, name in enumerate(self._names):
            if len(found) >= MOST:
                break
            if words in name:
                found[number] = None
        districts = {n for n, name in enumerate(self.city.districts) if name.casefold().startswith(words)}
        if districts and len(found) < MOST:
            for number, district in enumerate(self.city.whereabouts().tolist()):
                if district in districts:
                    found[number] = None
        return list(found)[:MOST]

    def shown(self, number: int) -> dict[str, Any]:
        city = self.city
        district = city.districts[int(city.whereabouts()[number])]
        return {"number": number, "name": city.people.name(number), "district": district}
