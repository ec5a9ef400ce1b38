"""Where other brokers join this one and send it messages: on the inner port, and only parts of the network."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from tocsin.balancing.host.messages import Message
from tocsin.broker.core.events import PeerMessage, PeersKnown
from tocsin.broker.transport.driver import Driver
from tocsin.broker.upstream.peer_store import PeerStore
from tocsin.errors import Malformed, NoSuchPath, Unauthorized
from tocsin.http.addresses import is_loopback_url
from tocsin.http.requests import Headers, read_body
from tocsin.http.responses import answer
from tocsin.http.server import no_such_path
from tocsin.identity.part_keys import Part, PartGate, PartKey
from tocsin.wire.peer_join import PeerJoin, PeerJoined
from tocsin.wire.reports import PeerAddress

#: Bytes of a request: a group of subscribers with all their subscriptions.
MOST_BYTES = 16 * 1024 * 1024

_join = msgspec.json.Decoder(PeerJoin)
_messages = msgspec.json.Decoder(list[Message])


class PeerEndpoint:
    """``address`` is this broker's own."""

    def __init__(self, driver: Driver, own: PartKey, address: PeerAddress, store: PeerStore, secret: str) -> None:
        self.driver, self.own, self.address, self.store = driver, own, address, store
        self._secret = secret
        self._gate = PartGate("broker", own, secret)
        self.router = Router(
            [
                Route("/peers/join", self.join, methods=["POST"]),
                Route("/peers/messages", self.messages, methods=["POST"]),
            ],
            redirect_slashes=False,
            default=no_such_path,
        )

    async def join(self, request: Request) -> Response:
        asked = await self._read(request, _join)
        assert isinstance(asked, PeerJoin)
        known = self.store.key(asked.broker)
        if asked.broker == self.own.name or known not in ("", asked.join.key):
            hint = f"choose another name; if {asked.broker} has lost its home, delete the list of brokers here"
            raise Unauthorized(f"another broker is known as {asked.broker}", hint=hint)
        if not self._secret and not is_loopback_url(asked.address.inside):
            raise Unauthorized("without a join secret, only brokers of this machine may join", hint="set join_secret")
        joined = self._gate.admit(asked.broker, asked.address.inside, asked.join, known)
        assert joined is not None
        self.store.joined(asked.broker, asked.address, asked.join.key)
        if self.driver.state.balancing is not None:
            self.driver.handle(PeersKnown({asked.broker: asked.address}))
        return answer(PeerJoined(self.own.name, self.address, joined))

    async def messages(self, request: Request) -> Response:
        if self.driver.state.balancing is None:
            raise NoSuchPath("this broker does not balance with others", hint="set balancing.mode to peers")
        sender = self.sender(request.scope["headers"])
        if sender is None:
            raise Unauthorized("only a broker that has joined this one may send messages", hint="POST /peers/join")
        messages = await self._read(request, _messages)
        assert isinstance(messages, list)
        for message in messages:
            self.driver.handle(PeerMessage(sender.name, message))
        return Response(status_code=204)

    def sender(self, headers: Headers) -> Part | None:
        """Which broker that has joined this one sends this; None for anything else."""
        return self._gate.sender(headers, self.store.key)

    async def _read(
        self, request: Request, decoder: msgspec.json.Decoder[PeerJoin] | msgspec.json.Decoder[list[Message]]
    ) -> PeerJoin | list[Message]:
        try:
            return decoder.decode(await read_body(request.scope["headers"], request.receive, MOST_BYTES))
        except msgspec.DecodeError as error:
            raise Malformed(str(error)) from None
