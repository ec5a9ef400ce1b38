"""How a broker joins another one: keys are exchanged over HTTP, and remembered by name."""

from __future__ import annotations

import httpx
import msgspec

from tocsin.broker.upstream.peer_store import PeerStore
from tocsin.errors import Unauthorized
from tocsin.identity.part_keys import PartKey, Peer
from tocsin.wire.peer_join import PeerJoin, PeerJoined
from tocsin.wire.reports import PeerAddress

#: What can go wrong with another broker.
FAILURES = (httpx.HTTPError, httpx.InvalidURL, OSError, msgspec.DecodeError, Unauthorized)


class Introduction:
    """``address`` is this broker's own."""

    def __init__(self, own: PartKey, address: PeerAddress, store: PeerStore, secret: str) -> None:
        self.own, self.address, self.store, self._secret = own, address, store, secret

    async def join(self, client: httpx.AsyncClient, inside: str, broker: str | None = None) -> PeerJoined:
        """``broker``: who has to be there. Raises one of FAILURES."""
        peer = self.peer("")
        join = peer.join(self.address.inside)
        body = msgspec.json.encode(PeerJoin(self.own.name, self.address, join))
        headers = {"content-type": "application/json"}
        answer = await client.post(f"{inside.rstrip('/')}/peers/join", content=body, headers=headers)
        if answer.is_error:
            raise OSError(_reason(answer.content))
        found = msgspec.json.decode(answer.content, type=PeerJoined)
        peer.joined(join, found.joined)
        known = self.store.key(found.broker)
        if (broker is not None and found.broker != broker) or known not in ("", peer.key):
            raise Unauthorized(f"another broker answers at {inside}", hint="check the address and the broker's name")
        if found.broker != self.own.name:
            self.store.joined(found.broker, found.address, peer.key)
        return found

    def peer(self, key: str) -> Peer:
        """The broker with this key, for requests to it."""
        peer = Peer("broker", self.own, self._secret)
        peer.key = key
        return peer


def _reason(content: bytes) -> str:
    """Of a refusal: what is wrong, and what to do."""
    try:
        error = msgspec.json.decode(content)["error"]
        return f"{error['message']} ({error['hint']})" if error.get("hint") else str(error["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return content[:500].decode(errors="replace")
