"""The location of each person of a city, as the records that a feed takes."""

from __future__ import annotations

from typing import Any

from tocsin.demo.city import City
from tocsin.demo.city.ground import latitude, longitude

NOON = "2026-09-21T14:13:20.000Z"


def locations(city: City) -> list[dict[str, Any]]:
    at = city.people.positions()
    lats, lons = latitude(at).round(6).tolist(), longitude(at).round(6).tolist()
    return [
        {"user_id": user, "lat": lat, "lon": lon, "time": NOON}
        for user, lat, lon in zip(city.users, lats, lons, strict=True)
    ]
