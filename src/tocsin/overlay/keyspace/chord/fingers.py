"""Chord's fingers: members about 2^i after this one. One of them is looked up again each period."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tocsin.overlay.keyspace.member import Member
from tocsin.overlay.keyspace.messages import Alive, Described, Find, Ping
from tocsin.overlay.keyspace.model.contact import Contact, Point
from tocsin.overlay.keyspace.model.item import Item
from tocsin.overlay.keyspace.model.order import closest


class Fingers:
    def __init__(self, member: Member, bits: int) -> None:
        self._member, self._bits = member, bits
        self.fingers: dict[int, Contact] = {}
        self._next = bits - 1

    def contacts(self) -> Iterable[Contact]:
        return self.fingers.values()

    def next_hop(self, point: Point, left: int | None) -> tuple[Contact, int | None] | None:
        member = self._member
        step = closest(member.order, member.me, (*self.fingers.values(), *member.ring.contacts()), point)
        return (step, None) if step is not None else None

    def targets(self) -> list[int]:
        """Those beyond the successor; nearer ones would all be the successor."""
        ring = self._member.ring
        if not ring.successors:
            return []
        gap = (ring.successors[0].position - ring.me.position) % (1 << self._bits)
        return [each for each in range(self._bits) if 1 << each >= gap]

    def tick(self) -> None:
        targets = self.targets()
        for gone in set(self.fingers) - set(targets):
            del self.fingers[gone]
        if not targets:
            return
        self._next = self._next - 1 if self._next > targets[0] else self._bits - 1
        self._fix(self._next)

    def _fix(self, number: int) -> None:
        """A finger that does not answer is removed first, or it would swallow the very lookup that replaces it."""
        finger = self.fingers.get(number)
        if finger is None:
            self._look_up(number)
            return

        def checked(answer: Any, hops: int) -> None:
            if not isinstance(answer, Alive):
                self.forget(finger)
            self._look_up(number)

        self._member.ring.ask(finger, Ping(), checked)

    def forget(self, gone: Contact) -> None:
        self.fingers = {number: each for number, each in self.fingers.items() if each.id != gone.id}

    def _look_up(self, number: int) -> None:
        member = self._member
        point = ((member.me.position + (1 << number)) % (1 << self._bits),)

        def found(answer: Any, hops: int) -> None:
            if isinstance(answer, Described) and answer.me.id != member.me.id:
                self.fingers[number] = answer.me

        member.lookup(point, Find(), found)

    def moved(self) -> None:
        pass

    def recorded(self, item: Item, sign: int) -> None:
        pass

    def legacy(self) -> dict[int, Contact]:
        return dict(self.fingers)

    def inherit(self, legacy: Any) -> None:
        """The predecessor's fingers are close to those of a new member."""
        self.fingers = dict(legacy)

    def handle(self, body: Any, source: str, reply: Callable[[Any], None]) -> bool:
        return False
