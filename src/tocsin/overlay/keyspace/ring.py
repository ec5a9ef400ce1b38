"""The order of the members: each knows its successors, and its region ends where the first of them begins.

One pointer decides who owns a key, so two members can disagree only for as long as it takes to stabilise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tocsin.overlay.keyspace.context import Context
from tocsin.overlay.keyspace.messages import Alive, Describe, Described, Find, Gone, Introduce, Notify, Ping, Route
from tocsin.overlay.keyspace.model.contact import Contact, Region, between, clockwise
from tocsin.overlay.keyspace.model.order import KeyOrder
from tocsin.overlay.keyspace.requests import Requests


class Ring:
    """``met`` is called with every member that has answered."""

    def __init__(
        self, name: str, me: Contact, context: Context, requests: Requests, met: Callable[[Contact], None]
    ) -> None:
        self.name, self.me = name, me
        self.context, self.requests, self._met = context, requests, met
        self.successors: list[Contact] = []
        self.predecessor: Contact | None = None
        self._verifying: set[str] = set()

    @property
    def region(self) -> Region:
        return Region(self.me, self.successors[0] if self.successors else self.me)

    def contacts(self) -> list[Contact]:
        return self.successors if self.predecessor is None else [*self.successors, self.predecessor]

    def describe(self) -> Described:
        return Described(self.me, self.predecessor, tuple(self.successors))

    def ask(self, contact: Contact, body: Any, done: Callable[[Any, int], None], *, nested: bool = False) -> None:
        self.requests.ask(contact.host, self.name, contact.id, body, done, nested=nested)

    # -- maintenance

    def stabilise(self) -> None:
        if self.successors:
            first = self.successors[0]
            self.ask(first, Describe(), partial(self._stabilised, first))
        elif self.predecessor is not None:
            self.verify(self.predecessor)

    def _stabilised(self, first: Contact, answer: Any, hops: int) -> None:
        if not isinstance(answer, Described):
            self.drop(first)
            if isinstance(answer, Gone):
                self.extend(answer.successors)
            self.stabilise()
            return
        if self.successors and self.successors[0].id == first.id:
            self._follow(answer)
            closer = answer.predecessor
            if closer is not None and between(self.me, closer, first):
                self.verify(closer)
            self.notify(answer.me)
        self._met(answer.me)

    def notify(self, successor: Contact) -> None:
        self.context.notify(successor.host, self.name, successor.id, Notify(self.me))

    def check_predecessor(self) -> None:
        before = self.predecessor
        if before is not None:
            self.ask(before, Ping(), partial(self._checked, before))

    def _checked(self, before: Contact, answer: Any, hops: int) -> None:
        if not isinstance(answer, Alive) and self.predecessor is not None and self.predecessor.id == before.id:
            self.predecessor = None

    def seek(self, order: KeyOrder) -> None:
        """Asks a peer, perhaps of another part of a broken ring, who owns this position there."""
        host = self.context.someone()
        if host is None:
            return
        point, settings = order.origin(self.me), self.context.settings

        def attempt(id: int, tried: int) -> None:
            self.context.send(host, Route(id, self.name, "", point, Find(), self.context.host, careful=tried > 0))

        self.requests.start(attempt, self._sought, settings.lookup_timeout, 2)

    def _sought(self, answer: Any, hops: int) -> None:
        if isinstance(answer, Described) and answer.me.id != self.me.id:
            self.context.notify(answer.me.host, self.name, answer.me.id, Introduce(self.me))
            for contact in (answer.me, *answer.successors):
                self.consider(contact)

    # -- what it learns

    def notified(self, sender: Contact) -> None:
        before = self.predecessor
        if sender.id == self.me.id:
            return
        if before is None or before.id == sender.id or between(before, sender, self.me):
            self.predecessor = sender
        if not self.successors:
            self.verify(sender)
        self._met(sender)

    def consider(self, contact: Contact) -> None:
        """Verifies a member that may be closer than those it knows."""
        if contact.id == self.me.id:
            return
        nearer = not self.successors or between(self.me, contact, self.successors[0])
        if nearer or self.predecessor is None or between(self.predecessor, contact, self.me):
            self.verify(contact)

    def verify(self, contact: Contact) -> None:
        if contact.id not in self._verifying and contact.id != self.me.id:
            self._verifying.add(contact.id)
            self.ask(contact, Describe(), partial(self._verified, contact))

    def _verified(self, contact: Contact, answer: Any, hops: int) -> None:
        self._verifying.discard(contact.id)
        if isinstance(answer, Described):
            self.adopt(answer)
            self._met(answer.me)

    def adopt(self, answer: Described) -> None:
        """A member that is certainly there: as successor, as predecessor, or neither."""
        it = answer.me
        if not self.successors or between(self.me, it, self.successors[0]):
            known = list(self.successors)
            self._follow(answer)
            self.extend(known)
            self.notify(it)
        if self.predecessor is None or between(self.predecessor, it, self.me):
            self.predecessor = it

    def drop(self, contact: Contact) -> None:
        self.successors = [each for each in self.successors if each.id != contact.id]
        if self.predecessor is not None and self.predecessor.id == contact.id:
            self.predecessor = None

    def welcome(self, joiner: Contact) -> None:
        self.successors = self.enough([joiner, *self.successors])
        if self.predecessor is None:
            self.predecessor = joiner

    def _follow(self, answer: Described) -> None:
        """The successors are this one and those that it knows, as far as they come before me."""
        first = answer.me
        after = [each for each in answer.successors if between(first, each, self.me)]
        self.successors = self.enough([first, *clockwise(first, after)])

    def extend(self, contacts: list[Contact] | tuple[Contact, ...]) -> None:
        """More successors, after the first one."""
        first = self.successors[0] if self.successors else None
        more = [each for each in contacts if first is None or between(first, each, self.me)]
        self.successors = self.enough(clockwise(self.me, [*self.successors, *more]))

    def enough(self, successors: list[Contact]) -> list[Contact]:
        """As many as the settings say, and more if too few hosts are among them for all copies."""
        settings, hosts = self.context.settings, {self.me.host}
        for count, each in enumerate(successors):
            if count >= settings.successors and len(hosts) >= settings.copies:
                return successors[:count]
            hosts.add(each.host)
        return successors
