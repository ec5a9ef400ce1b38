"""What a broker keeps of other brokers on disk: after a restart it needs no coordinator to find them."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tocsin.wire.reports import PeerAddress

log = logging.getLogger(__name__)


class KnownPeer(msgspec.Struct, frozen=True):
    """``key`` is '' until the two have joined each other."""

    address: PeerAddress
    key: str = ""


class PeerStore:
    """A name stays with its key: another broker cannot take it over."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, KnownPeer] = {}
        try:
            self._known = msgspec.json.decode(file.read_bytes(), type=dict[str, KnownPeer])
        except FileNotFoundError:
            pass
        except (OSError, msgspec.DecodeError) as error:
            log.warning("the list of other brokers in %s is damaged and begins again: %s", file, error)

    @property
    def addresses(self) -> dict[str, PeerAddress]:
        return {name: each.address for name, each in self._known.items()}

    def key(self, name: str) -> str:
        found = self._known.get(name)
        return "" if found is None else found.key

    def joined(self, name: str, address: PeerAddress, key: str) -> None:
        self._known[name] = KnownPeer(address, key)
        self._write()

    def save(self, addresses: Mapping[str, PeerAddress]) -> None:
        self._known = {name: KnownPeer(address, self.key(name)) for name, address in addresses.items()}
        self._write()

    def _write(self) -> None:
        """Whole or not at all. Without it, only the next start is slower."""
        draft = self._file.with_suffix(".new")
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
                output.write(msgspec.json.encode(self._known))
            draft.replace(self._file)
        except OSError as error:
            log.warning("the list of other brokers cannot be kept in %s: %s", self._file, error)
