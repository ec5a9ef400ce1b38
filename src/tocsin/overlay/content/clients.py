"""The clients of a broker: what each has announced, and which of them belong at another broker."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from tocsin.content import Advertisement
from tocsin.errors import Conflict, NotFound
from tocsin.overlay.content import events as ev
from tocsin.overlay.content.context import Context
from tocsin.overlay.content.instructions import Attached, Redirect
from tocsin.overlay.content.messages import Role
from tocsin.overlay.content.roles import SERVES
from tocsin.overlay.content.routing.space import space_name


class Client(Struct):
    """``announced``: by id, the space of each advertisement and subscription."""

    name: str
    kind: ev.Kind
    control: bool = False
    announced: dict[str, str] = field(default_factory=dict)
    advertisements: dict[str, Advertisement] = field(default_factory=dict)


class Clients:
    """``target`` chooses the broker for a client that does not belong here, if there is one."""

    def __init__(self, context: Context, target: Callable[[ev.Kind], str | None]) -> None:
        self._context, self._target = context, target
        self.all: dict[str, Client] = {}
        self._redirect_at = 0.0

    def find(self, name: str) -> Client:
        client = self.all.get(name)
        if client is None:
            raise NotFound("client", name, hint="attach it first")
        return client

    # -- where clients belong

    def attach(self, event: ev.Attach, role: Role) -> None:
        """Redirected where it belongs (T13); a client that went astray too often is accepted."""
        if event.client in self.all:
            raise Conflict(f"a client {event.client!r} is attached already", hint="detach it first, or choose a name")
        client = Client(event.client, event.kind, event.control)
        if event.redirects < self._context.settings.most_redirects and self._redirect(client, role):
            return
        self.all[event.client] = client
        self._context.out.append(Attached(event.client))

    def _redirect(self, client: Client, role: Role) -> bool:
        """Control clients stay (T12), and so do all while no other broker serves their kind."""
        if client.control or role in SERVES[client.kind]:
            return False
        target = self._target(client.kind)
        if target is not None:
            self._context.out.append(Redirect(client.name, target))
        return target is not None

    def postpone(self) -> None:
        self._redirect_at = self._context.now + self._context.settings.redirect_every

    def migrate(self, role: Role, *, at_once: bool = False) -> None:
        """The clients that this role does not serve get a target (T11), again as long as they stay."""
        if at_once or self._context.now >= self._redirect_at:
            self.postpone()
            for client in self.all.values():
                self._redirect(client, role)

    # -- what they announce

    def announce(self, event: ev.AdvertiseFeed | ev.SubscribeFeed) -> str:
        """The space of a new advertisement or subscription; raises Conflict."""
        client = self.find(event.client)
        if event.id in client.announced:
            raise Conflict(f"{client.name} has announced {event.id!r} already", hint="choose another id")
        kind: ev.Kind = "publisher" if isinstance(event, ev.AdvertiseFeed) else "subscriber"
        if client.kind != kind:
            raise Conflict(f"{client.name} is a {client.kind}", hint=f"attach a {kind} for this")
        if isinstance(event, ev.AdvertiseFeed):
            client.advertisements[event.id] = event.advertisement
            space = space_name(event.feed, event.advertisement.attributes)
        else:
            space = space_name(event.feed, event.condition.attributes)
        client.announced[event.id] = space
        return space

    def withdraw(self, name: str, id: str) -> None:
        client = self.find(name)
        if id not in client.announced:
            raise NotFound("advertisement or subscription", id, hint=f"of the client {name}")
        del client.announced[id]
        client.advertisements.pop(id, None)

    def checked(self, event: ev.Publish) -> str:
        """The space of a publication that fits its advertisement; raises UserError."""
        client = self.find(event.client)
        advertisement = client.advertisements.get(event.advertisement)
        if advertisement is None:
            raise NotFound("advertisement", event.advertisement, hint="advertise before the first publication")
        advertisement.check(event.values)
        return client.announced[event.advertisement]
