"""What waits to be sent to a neighbour: control messages before publications (T22).

An unadvertisement waits with the publications: before them, it would take down the path that they are on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tocsin.overlay.content.messages import Advertise, Body, Publication, Unadvertise


class Outbox:
    def __init__(self, most: int) -> None:
        self._most = most
        self._control: deque[Body] = deque()
        self._data: deque[Publication | Unadvertise] = deque()

    def __len__(self) -> int:
        return len(self._control) + len(self._data)

    def put(self, body: Body) -> bool:
        """False for a publication that is one too many."""
        if isinstance(body, Publication):
            if len(self._data) >= self._most:
                return False
            self._data.append(body)
        elif isinstance(body, Unadvertise):
            self._data.append(body)
        else:
            if isinstance(body, Advertise):
                self._cancel(body.id)
            self._control.append(body)
        return True

    def _cancel(self, id: int) -> None:
        """An advertisement that comes back before its unadvertisement was sent: it would be overtaken."""
        if any(isinstance(each, Unadvertise) and each.id == id for each in self._data):
            self._data = deque(each for each in self._data if not (isinstance(each, Unadvertise) and each.id == id))

    def take(self) -> Body | None:
        if self._control:
            return self._control.popleft()
        return self._data.popleft() if self._data else None

    def restart(self, in_flight: Iterable[Body]) -> None:
        """On a new session: publications again, in their order; announcements are compared instead."""
        self._control.clear()
        self._data = deque(each for each in (*in_flight, *self._data) if isinstance(each, Publication))

    def clear(self) -> None:
        self._control.clear()
        self._data.clear()
