"""What a peer has heard about the load of others."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.balancing.components import LoadInformation


class Registry:
    """Keeps the newest information of each peer and criterion, and nothing that is older than ``lifetime`` seconds."""

    def __init__(self, lifetime: float = 60.0) -> None:
        self.lifetime = lifetime
        self._heard: dict[tuple[str, str], LoadInformation] = {}

    def register(self, information: LoadInformation) -> bool:
        """False if something newer of this peer is known: messages may overtake each other."""
        key = (information.criterion, information.peer)
        known = self._heard.get(key)
        if known is not None and known.time > information.time:
            return False
        self._heard[key] = information
        return True

    def get_load_report(self, criterion: str, now: float, peers: Iterable[str] | None = None) -> list[LoadInformation]:
        """What is known of these peers, or of all, freshest first; peers not heard of recently are missing."""
        self._heard = {key: told for key, told in self._heard.items() if now - told.time <= self.lifetime}
        wanted = None if peers is None else set(peers)
        found = [
            told
            for (about, peer), told in self._heard.items()
            if about == criterion and (wanted is None or peer in wanted)
        ]
        return sorted(found, key=lambda told: (-told.time, told.peer))

    def forget(self, peer: str) -> None:
        self._heard = {key: told for key, told in self._heard.items() if key[1] != peer}
