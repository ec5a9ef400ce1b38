"""A test user of the broker's REST API."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import httpx

names = itertools.count(1)
PASSWORD = "correct horse"


class RestUser:
    """A user who is logged in."""

    def __init__(self, url: str, name: str | None = None, device: str = "phone") -> None:
        self.http = httpx.Client(base_url=url, timeout=120, trust_env=False)
        self.name = name or f"user{next(names)}"
        if name is None:
            assert self.post("/registeruser", user=self.name, password=PASSWORD).status_code == 201
        answer = self.post("/login", user=self.name, password=PASSWORD, device=device)
        assert answer.status_code == 200, answer.text
        self.token = answer.json()["token"]
        self.http.headers["authorization"] = f"Bearer {self.token}"

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.http.post(path, json=body)

    def subscribe(self, kind: str, channel: str = "OfKind") -> int:
        answer = self.post("/subscribe", channel=channel, args={"kind": kind})
        assert answer.status_code == 201, answer.text
        return int(answer.json()["subscription"])

    def results(self, subscription: int, **options: Any) -> dict[str, Any]:
        answer = self.http.get("/getresults", params={"subscription": subscription, **options})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


def rows(found: dict[str, Any]) -> list[int]:
    return [row["n"] for result in found["results"] for row in result["results"]]


def events(stream: httpx.Response) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(id, event, data) of each."""
    fields: dict[str, str] = {}
    for line in stream.iter_lines():
        if not line and "data" in fields:
            yield fields["id"], fields["event"], json.loads(fields["data"])
            fields = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
