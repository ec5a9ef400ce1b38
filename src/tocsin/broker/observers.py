"""Who may see a broker's load: names and counts, no results and no subscribers."""

from __future__ import annotations

import hmac

from tocsin.errors import Unauthorized
from tocsin.http.requests import Headers, header

GIVE_IT = "send Authorization: Bearer with the broker's observer_token (TOCSIN_BROKER_OBSERVER_TOKEN)"
SET_IT = "set observer_token (TOCSIN_BROKER_OBSERVER_TOKEN); open_metrics opens /metrics alone, for scrapers"


class Observers:
    """With a token, requests must carry it. Without one, only this machine may see them: ``here`` are the ports that
    others cannot reach."""

    def __init__(self, token: str, here: frozenset[int], *, open_metrics: bool = False) -> None:
        self._expected = b"Bearer " + token.encode() if token else None
        self._here, self._open_metrics = here, open_metrics

    def check(self, port: int, headers: Headers, *, metrics: bool = False) -> None:
        """Raise unless a request to this port may see them."""
        if port in self._here or (metrics and self._open_metrics):
            return
        if self._expected is None:
            raise Unauthorized("from other machines the load of a broker needs a token", hint=SET_IT)
        if not hmac.compare_digest(header(headers, b"authorization") or b"", self._expected):
            raise Unauthorized("wrong or missing observer token", hint=GIVE_IT)
