"""Mercury's long links: the harmonic distribution of their distances makes routes short, whatever the values are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tocsin.overlay.keyspace.member import Member
from tocsin.overlay.keyspace.mercury.samples import Samples
from tocsin.overlay.keyspace.messages import Alive, Described, Find, Measured, Ping, Sample
from tocsin.overlay.keyspace.model.contact import Contact, Point
from tocsin.overlay.keyspace.model.item import Item
from tocsin.overlay.keyspace.model.order import closest

#: Steps of a random walk.
TTL = 6
#: Every how many periods a sample is taken, and a link drawn again.
SAMPLE, DRAW = 2, 3


class LongLinks:
    def __init__(self, member: Member, size: int, count: int) -> None:
        self._member, self._size, self.count = member, size, count
        self.samples = Samples(size)
        self.links: list[Contact] = []
        self._periods = 0

    def contacts(self) -> Iterable[Contact]:
        return self.links

    def next_hop(self, point: Point, left: int | None) -> tuple[Contact, int | None] | None:
        member = self._member
        step = closest(member.order, member.me, (*self.links, *member.ring.contacts()), point)
        return (step, None) if step is not None else None

    def width(self) -> int:
        region = self._member.region
        return (region.end.position - region.start.position) % self._size or self._size

    def tick(self) -> None:
        self._periods += 1
        if self._periods % SAMPLE == 0:
            self.sample(TTL)
        if self._periods % DRAW == 0:
            self._renew()

    # -- links

    def draw(self) -> Point:
        """A key whose distance, counted in members, is harmonic: x with density 1 / (x ln n) from 1/n to 1."""
        n = max(self.samples.members(), 2.0)
        share = n ** (self._member.context.rng.random() - 1.0)
        return (self.samples.ahead(self._member.me.position, share),)

    def _renew(self) -> None:
        """Checks the oldest link, and draws another one for it."""
        if len(self.links) < self.count:
            self._look_up()
            return
        oldest = self.links[0]

        def checked(answer: Any, hops: int) -> None:
            self.links = [each for each in self.links if each.id != oldest.id]
            if isinstance(answer, Alive):
                self.links.append(oldest)
            if not isinstance(answer, Alive) or self._member.context.rng.random() < 0.5:
                self._look_up()

        self._member.ring.ask(oldest, Ping(), checked)

    def _look_up(self) -> None:
        def found(answer: Any, hops: int) -> None:
            if isinstance(answer, Described) and answer.me.id != self._member.me.id:
                known = [each for each in self.links if each.id != answer.me.id]
                self.links = [*known, answer.me][-self.count :]

        self._member.lookup(self.draw(), Find(), found)

    # -- samples

    def sample(self, ttl: int, done: Callable[[Measured], None] = lambda found: None) -> None:
        """One random walk. Its end is any member with about the same probability."""
        member, context = self._member, self._member.context

        def attempt(id: int, tried: int) -> None:
            self._walk(Sample(context.host, id, ttl))

        def found(answer: Any, hops: int) -> None:
            if isinstance(answer, Measured):
                if answer.me.id != member.me.id:
                    self.samples.add(answer)
                done(answer)

        member.ring.requests.start(attempt, found, context.settings.lookup_timeout, 2)

    def measure(self) -> Measured:
        return Measured(self._member.me, self.width(), self._member.load())

    def _walk(self, sample: Sample) -> None:
        member = self._member
        onward = [*self.links, *member.ring.contacts()]
        if sample.ttl <= 0 or not onward:
            member.context.reply(sample.origin, sample.id, self.measure())
            return
        step = member.context.rng.choice(onward)
        fewer = Sample(sample.origin, sample.id, sample.ttl - 1)
        member.context.notify(step.host, member.ring.name, step.id, fewer)

    def handle(self, body: Any, source: str, reply: Callable[[Any], None]) -> bool:
        if isinstance(body, Sample):
            self._walk(body)
            return True
        return False

    # -- the rest of Links

    def moved(self) -> None:
        pass

    def recorded(self, item: Item, sign: int) -> None:
        pass

    def legacy(self) -> tuple[Measured, ...]:
        return (self.measure(), *self.samples.all())

    def inherit(self, legacy: Any) -> None:
        for each in legacy:
            self.samples.add(each)
