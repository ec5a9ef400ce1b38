"""All links of a broker: who may connect, what breaks, and what is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tocsin.errors import Conflict, NotFound
from tocsin.overlay.content.context import Context
from tocsin.overlay.content.instructions import LinkRefused
from tocsin.overlay.content.link.link import Link
from tocsin.overlay.content.messages import Body, Frame, Goodbye, Hello, Message, Refusal, Reset
from tocsin.overlay.content.topology import Topology


class Overlay(Protocol):
    """What the links notify."""

    def joined(self, name: str) -> None:
        """A neighbour has become part of the overlay, or has come back."""

    def restarted(self, name: str) -> None:
        """It has lost what waited in it."""

    def left(self, name: str) -> None:
        """All that came from it is void."""

    def established(self, name: str) -> None:
        """Messages flow in a new pair of sessions."""

    def arrived(self, name: str, body: Body) -> None: ...


class Links:
    def __init__(self, context: Context, topology: Topology, overlay: Overlay) -> None:
        self._context, self._topology, self._overlay = context, topology, overlay
        self.all: dict[str, Link] = {}
        #: Brokers whose links the operator has ended here.
        self.dismissed: set[str] = set()
        self.leaving = False
        self._handlers: dict[type[Message], Callable[[str, Message], None]] = {
            Hello: self._hello,  # type: ignore[dict-item]
            Refusal: self._refusal,  # type: ignore[dict-item]
            Reset: self._reset,  # type: ignore[dict-item]
            Goodbye: self._goodbye,  # type: ignore[dict-item]
            Frame: self._frame,  # type: ignore[dict-item]
        }

    @property
    def joined(self) -> list[Link]:
        return [each for each in self.all.values() if each.joined]

    def reachable(self, name: str) -> bool:
        """Whether no link of our own to this broker is down."""
        link = self.all.get(name)
        return link is None or (link.established and not link.silent)

    # -- of the operator

    def connect(self, name: str) -> None:
        self.dismissed.discard(name)
        self.leaving = False
        link = self.all.get(name)
        if link is None:
            link = self.all[name] = Link(name, self._context, wanted=True)
        link.wanted = True
        self._greet(link)

    def disconnect(self, name: str) -> None:
        link = self.all.pop(name, None)
        if link is None:
            raise NotFound("link", name, hint=f"the neighbours are {', '.join(self.all) or 'none'}")
        self.dismissed.add(name)
        self._part(link)

    def broken(self, name: str) -> None:
        """What was on its way may be lost: a new session, and what was not acknowledged again."""
        link = self.all.get(name)
        if link is not None and link.joined:
            link.renew()
            self._greet(link)

    def leave(self) -> None:
        self.leaving = True
        for link in list(self.all.values()):
            del self.all[link.name]
            self._part(link)

    def _part(self, link: Link) -> None:
        if link.peer is not None:
            self._context.send(link.name, Goodbye(link.peer))
        if link.joined:
            self._overlay.left(link.name)

    # -- time

    def tick(self) -> None:
        settings, now = self._context.settings, self._context.now
        for link in list(self.all.values()):
            link.tick()
            if (link.joined or not link.wanted) and now - link.last_received > settings.forget_after:
                self._forget(link)
            elif (link.wanted or link.joined) and not link.established and now >= link.retry_at:
                self._greet(link)

    def flush(self) -> None:
        for link in self.all.values():
            link.flush()

    def _forget(self, link: Link) -> None:
        """Its announcements and what waits for it end; the side that connects goes on trying."""
        if link.wanted:
            link.renew()
            link.outbox.clear()
        else:
            del self.all[link.name]
        if link.joined:
            link.joined, link.stamp = False, 0
            self._overlay.left(link.name)

    # -- hello

    def _greet(self, link: Link) -> None:
        """Unless the link would be refused: then once in a while, because the reason may end."""
        settings, side = self._context.settings, self._topology.side(link.name)
        link.retry_at = self._context.now + settings.hello_every
        problem = None if link.joined else self._own_problem(link.name, side)
        if problem is not None:
            self._report(link, problem)
            return
        topology = self._topology
        self._context.send(link.name, Hello(link.session, link.peer, side, link.stamp, topology.highest))

    def _own_problem(self, name: str, side: dict[str, int]) -> Conflict | None:
        if name == self._context.name:
            return _itself(name)
        return _cycle(self._context.name, name) if name in side else None

    def _hello(self, source: str, hello: Hello) -> None:
        link = self.all.get(source)
        problem = self._problem(source, hello, link)
        if problem is not None:
            fields = problem.fields
            self._context.send(source, Refusal(hello.session, fields["reason"], problem.message, problem.hint))
            return
        if link is None:
            link = self.all[source] = Link(source, self._context, wanted=False)
        if link.peer is not None and hello.session < link.peer:
            return
        link.last_received = self._context.now
        link.problem = ""
        if link.peer != hello.session:
            link.meet(hello.session)
            if link.epoch != hello.session.epoch:
                restarted = link.joined
                link.epoch = hello.session.epoch
                if restarted:
                    self._overlay.restarted(source)
        link.stamp = max(link.stamp, hello.stamp) or 1 + max(self._topology.highest, hello.highest)
        if not link.joined:
            link.joined = True
            self._overlay.joined(source)
        known = hello.peer == link.session
        if not known:
            self._greet(link)
        elif not link.confirmed:
            self._confirm(link)

    def _confirm(self, link: Link) -> None:
        link.confirmed = True
        self._overlay.established(link.name)
        link.pump()

    def _problem(self, source: str, hello: Hello, link: Link | None) -> Conflict | None:
        mine, epoch = self._context.name, hello.session.epoch
        if source == mine:
            return _itself(mine) if epoch == self._context.epoch else _twins(mine, mine)
        if self.leaving or source in self.dismissed:
            return _ended(mine, source)
        if link is not None and link.joined:
            known = link.peer.epoch if link.peer is not None else epoch
            # A broker that has started again was silent; two that run at the same time are not.
            alive = link.confirmed and not link.silent
            return _twins(source, mine) if epoch < known or (epoch > known and alive) else None
        ours = self._topology.side(source)
        for name in sorted(ours.keys() & hello.brokers.keys()):
            if ours[name] != hello.brokers[name] and -1 not in (ours[name], hello.brokers[name]):
                return _twins(name, mine)
            return _cycle(source, mine)
        return None

    # -- what the neighbour says

    def receive(self, source: str, message: Message) -> None:
        self._handlers[type(message)](source, message)

    def _refusal(self, source: str, refusal: Refusal) -> None:
        link = self.all.get(source)
        if link is not None and link.session == refusal.session:
            self._drop(link, Conflict(refusal.message, hint=refusal.hint, reason=refusal.reason))

    def cut(self, name: str) -> None:
        """A link that closes a cycle: two were made at the same time."""
        link = self.all[name]
        problem = _cycle(self._context.name, name)
        if link.peer is not None:
            fields = problem.fields
            self._context.send(name, Refusal(link.peer, fields["reason"], problem.message, problem.hint))
        self._drop(link, problem)

    def _drop(self, link: Link, problem: Conflict) -> None:
        """The side that connects tries again later."""
        left = link.joined
        link.joined, link.stamp = False, 0
        if link.wanted:
            link.renew()
            link.outbox.clear()
        else:
            del self.all[link.name]
        if left:
            self._overlay.left(link.name)
        self._report(link, problem)

    def _report(self, link: Link, problem: Conflict) -> None:
        """Once for each reason. A name is free as soon as the earlier run with it is silent."""
        settings = self._context.settings
        wait = settings.silent_after if problem.fields["reason"] == "name" else settings.retry_refused_every
        link.retry_at = self._context.now + wait
        if link.problem != str(problem):
            link.problem = str(problem)
            self._context.out.append(LinkRefused(link.name, problem))

    def _reset(self, source: str, reset: Reset) -> None:
        link = self.all.get(source)
        if link is None or link.session != reset.session:
            return
        if link.wanted:
            link.renew()
            self._greet(link)
        else:
            del self.all[source]
            self._overlay.left(source)

    def _goodbye(self, source: str, goodbye: Goodbye) -> None:
        link = self.all.get(source)
        if link is not None and link.session == goodbye.session:
            self._drop(link, _ended(source, self._context.name))

    def _frame(self, source: str, frame: Frame) -> None:
        link = self.all.get(source)
        if link is None or link.problem:
            self._context.send(source, Reset(frame.session))
        elif link.joined and link.fits(frame):
            if not link.confirmed:
                self._confirm(link)
            for body in link.receive(frame):
                self._overlay.arrived(source, body)


def _itself(name: str) -> Conflict:
    return Conflict(f"{name} cannot be its own neighbour", hint="name another broker", reason="itself")


def _cycle(one: str, other: str) -> Conflict:
    message = f"a link between {one} and {other} would close a cycle: they are connected over other brokers"
    return Conflict(message, hint="leave it out, or end a link on the way between them first", reason="cycle")


def _twins(name: str, where: str) -> Conflict:
    message = f"there are two brokers with the name {name}: {where} knows one that runs or was not forgotten yet"
    return Conflict(message, hint="give each broker a name of its own", reason="name")


def _ended(name: str, other: str) -> Conflict:
    message = f"{name} has ended its link with {other}"
    return Conflict(message, hint=f"connect {name} again to open it", reason="ended")
