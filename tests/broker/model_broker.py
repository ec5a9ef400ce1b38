"""A broker's state machine between a reference data cluster and model clients, with everything that can go wrong.

Every step takes numbers; each is taken modulo what there is, so that any sequence of steps is a history.
"""

from __future__ import annotations

from typing import Any

from model_client import Client
from model_cluster import KINDS, OTHER, OURS, Cluster, kind_of

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.state import BrokerState
from tocsin.config import BrokerConfig, BrokerLimits
from tocsin.wire import messages as wire
from tocsin.wire.messages import DurableSubscription, decode_answers
from tocsin.wire.position import Position

GRACE = 30.0
CONFIG = BrokerConfig(
    name="b",
    grace=GRACE,
    heartbeat=2.0,
    hello_timeout=90.0,
    fetches=2,
    limits=BrokerLimits(cache_results=2, cache_bytes=1_000),
)
QUIET = 2_000


class World:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.clients = [Client(0, None), Client(1, None), Client(2, "ann"), Client(3, "bob", forgetful=True)]
        self.store: dict[str, dict[int, DurableSubscription]] = {}
        self.now = 0.0
        self.lives: list[list[tuple[ev.Event, float, list[str]]]] = []
        self._peer = 0
        self.boot()

    def boot(self) -> None:
        """A new life of the broker: it knows what the data cluster and the store kept."""
        self.state = BrokerState(CONFIG)
        self.lives.append([])
        self.open: dict[int, Client] = {}
        self.granted: dict[int, set[int]] = {}
        self.left: dict[int, float] = {}
        self.asked: list[do.Subscribe | do.Unsubscribe | do.Pull | do.Fetch] = []
        self.answers: list[list[ev.Event]] = []
        self.tokens: list[tuple[int, str]] = []
        for user, held in sorted(self.store.items()):
            self.handle(ev.Restored(user, list(held.values())))
        for channel, log in self.cluster.logs.items():
            ours = [(number, [kind]) for number, kind in self.cluster.ours(channel)]
            self.answers.append([ev.Recovered(channel, ours, Position(0, log.last))])

    # -- the driver

    def handle(self, event: ev.Event) -> None:
        # The driver's two ways; a life is handled again in one of them, and has to come out the same.
        heard = isinstance(event, ev.Notified)
        out = self.state.on_notify([event], self.now) if heard else self.state.handle(event, self.now)
        self.lives[-1].append((event, self.now, [repr(each) for each in out]))
        for instruction in out:
            self._carry_out(instruction)

    def _carry_out(self, it: do.Instruction) -> None:
        match it:
            case do.Send():
                for peer in it.peers:
                    assert peer in self.open, "sent to somebody who has left"
                    for text in it.messages:
                        for message in decode_answers(text):
                            self._sent(peer, message)
            case do.Close():
                self._gone(it.peer)
            case do.Authenticate():
                self.tokens.append((it.peer, it.token))
            case do.Remember():
                here = [client.user for client in self.open.values()]
                assert it.user in self.store or it.user in here, "kept for somebody who has logged out"
                held = DurableSubscription(it.subscription, it.channel, it.args, it.position.execution)
                self.store.setdefault(it.user, {}).setdefault(it.subscription, held)
            case do.ChangeId():
                held = self.store.get(it.user, {}).pop(it.previous_id, None)
                if held is not None:
                    previous_ids = held.previous_ids | {it.previous_id: it.until.execution}
                    after = min(held.after, it.position.execution)
                    self.store[it.user][it.subscription] = DurableSubscription(
                        it.subscription, held.channel, held.args, after, previous_ids
                    )
            case do.Acknowledge():
                for number, (_, after) in it.positions.items():
                    held = self.store.get(it.user, {}).get(number)
                    if held is not None:
                        previous_ids = {former: until for former, until in held.previous_ids.items() if until >= after}
                        after = max(held.after, after)
                        self.store[it.user][number] = DurableSubscription(
                            number, held.channel, held.args, after, previous_ids
                        )
            case do.Forget():
                self.store.get(it.user, {}).pop(it.subscription, None)
            case do.Unsubscribe():
                for number in it.subscriptions:
                    assert not self._users_of(number), f"{number} is let go, and somebody has it"
                    assert self.now >= self.left.get(number, -GRACE) + GRACE, "let go too early"
                self.asked.append(it)
            case do.Subscribe() | do.Pull() | do.Fetch():
                self.asked.append(it)

    def _users_of(self, number: int) -> list[Any]:
        peers = [peer for peer, numbers in self.granted.items() if number in numbers]
        return [*peers, *[user for user, held in self.store.items() if number in held]]

    def _sent(self, peer: int, message: wire.FromBroker) -> None:
        match message:
            case wire.Subscribed():
                self.granted[peer].add(message.subscription)
            case wire.Unsubscribed() | wire.Ended():
                self.granted[peer].discard(message.subscription)
                self.left[message.subscription] = self.now
            case wire.Notify() | wire.Live() | wire.Lagging() | wire.Gap():
                assert message.subscription in self.granted[peer], "of something that was not granted, or has ended"
                if isinstance(message, wire.Gap):
                    self._justified(self.open[peer], message)
        self.open[peer].inbox.append(message)

    def _justified(self, client: Client, gap: wire.Gap) -> None:
        """Nothing that is kept under a number which the client or the broker knows may be given up."""
        keys = {number: key for key, number in self.cluster.numbers.items()}
        key = keys.get(gap.subscription, ("", ""))
        if key not in client.subs:
            return
        sub, log = client.subs[key], self.cluster.logs[key[0]]
        inside = range(max(gap.after + 1, log.first), min(gap.next, log.last + 1))
        kept = [n for n in inside if {gap.subscription, sub.known} & set(log.stored[n])]
        assert not kept, f"a gap of {kept}, which are there"

    def _gone(self, peer: int) -> None:
        client = self.open.pop(peer, None)
        for number in self.granted.pop(peer, ()):
            self.left[number] = self.now
        if client is not None and client.peer == peer:
            client.cut()

    # -- steps: subscribers

    def connect(self, who: int) -> None:
        client = self.clients[who % len(self.clients)]
        if client.peer is not None:
            return
        self._peer += 1
        client.peer = self._peer
        self.open[self._peer], self.granted[self._peer] = client, set()
        self.handle(ev.Opened(self._peer, "address"))
        self.handle(ev.Received(self._peer, client.hello()))

    def authenticate(self, which: int) -> None:
        if self.tokens:
            peer, token = self.tokens.pop(which % len(self.tokens))
            user = token.removeprefix("token of ")
            self.handle(ev.Authenticated(peer, user, list(self.store.get(user, {}).values())))

    def disconnect(self, who: int) -> None:
        client = self.clients[who % len(self.clients)]
        if client.peer is not None:
            peer = client.peer
            self._gone(peer)
            self.handle(ev.Closed(peer))

    def subscribe(self, who: int, channel: int, kind: int, named: bool) -> None:
        client = self.clients[who % len(self.clients)]
        word = (*KINDS, "wrong")[kind % 4]
        if client.peer is not None:
            args = {"kind": word} if named else [word]
            self._say(client, client.subscribe("AB"[channel % 2], args, kind_of(args)))

    def resubscribe(self, who: int, which: int, back: int) -> None:
        client = self.clients[who % len(self.clients)]
        if client.subs:
            self._say(client, client.resume(list(client.subs.values())[which % len(client.subs)], back))

    def unsubscribe(self, who: int, which: int) -> None:
        client = self.clients[who % len(self.clients)]
        if client.subs:
            self._say(client, client.unsubscribe(list(client.subs.values())[which % len(client.subs)]))

    def ack(self, who: int) -> None:
        client = self.clients[who % len(self.clients)]
        positions = {sub.number: sub.cursor or 0 for sub in client.subs.values() if sub.number is not None}
        if positions and client.user is not None:
            self._say(client, wire.Ack(positions))

    def _say(self, client: Client, message: wire.FromClient | None) -> None:
        if client.peer is not None and message is not None:
            self.handle(ev.Received(client.peer, [message]))

    def read(self, who: int, count: int) -> None:
        client = self.clients[who % len(self.clients)]
        for _ in range(min(count, len(client.inbox))):
            if client.inbox:
                client.hear(client.inbox.pop(0), self.cluster.logs)

    def congested(self, who: int) -> None:
        client = self.clients[who % len(self.clients)]
        if client.peer is not None:
            self.handle(ev.Congested(client.peer))

    def drained(self, who: int) -> None:
        client = self.clients[who % len(self.clients)]
        if client.peer is not None:
            self.handle(ev.Drained(client.peer))

    def log_out(self, who: int) -> None:
        """Whatever the user had is over; the client begins anew as somebody who has nothing."""
        client = self.clients[who % len(self.clients)]
        if client.user is None:
            return
        for number in self.store.pop(client.user, {}):
            if number in self.state.users.durable.by_user.get(client.user, {}):
                self.left[number] = self.now
        self.handle(ev.UserEnded(client.user))
        self.disconnect(client.name)  # it was still waiting to be let in
        client.subs.clear()

    # -- steps: the data cluster

    def execute(self, channel: int, kinds: set[str]) -> None:
        self.cluster.execute("AB"[channel % 2], kinds)

    def begin(self, channel: int, kinds: set[str]) -> None:
        """An execution, which is committed later."""
        self.cluster.begin("AB"[channel % 2], kinds)

    @property
    def ready(self) -> bool:
        """The driver lets nothing be told to a broker that does not know yet what it inherits, nor let go by it."""
        return not any(isinstance(parts[0], ev.Recovered) for parts in self.answers)

    def tell(self) -> None:
        if self.cluster.outbox and self.ready:
            channel, execution = self.cluster.outbox.pop(0)
            self.cluster.told.append((channel, execution))
            self.handle(ev.Notified(channel, execution))

    def push(self) -> None:
        """Told with all results, as a push channel does."""
        if self.cluster.outbox and self.ready:
            channel, execution = self.cluster.outbox.pop(0)
            *parts, _ = self.cluster.answer(do.Pull(channel, Position(0, execution)), 100)
            if not all(isinstance(part, ev.Pulled) for part in parts):
                return
            lines = [line for part in parts for line in part.lines]  # type: ignore[union-attr]
            if lines:
                self.cluster.told.append((channel, execution))
                self.handle(ev.Notified(channel, execution, lines))

    def tell_again(self, back: int) -> None:
        """The last ones once more, in their order: the answer was lost."""
        for channel, execution in self.cluster.told[-(back % 4) :] if self.ready else ():
            self.handle(ev.Notified(channel, execution))

    def give_up(self) -> None:
        """The data cluster forgets what it had to tell, and says so when the broker is back."""
        if not self.ready:
            return
        self.cluster.outbox.clear()
        self.handle(ev.Missed({channel: Position(0, log.last) for channel, log in self.cluster.logs.items()}))

    def serve(self, which: int, page: int) -> None:
        """It deals with a request; the answer is on its way."""
        served = [asked for asked in self.asked if self.ready or not isinstance(asked, do.Unsubscribe)]
        if served:
            asked = served[which % len(served)]
            self.asked.remove(asked)
            self.answers.append(self.cluster.answer(asked, 1 + page % 3))

    def answer(self, which: int) -> None:
        """An answer, or the next part of one, arrives."""
        if self.answers:
            place = which % len(self.answers)
            self.handle(self.answers[place].pop(0))
            if not self.answers[place]:
                del self.answers[place]

    def break_off(self, which: int) -> None:
        """A pull breaks off and begins again."""
        if self.answers:
            first = self.answers[which % len(self.answers)][0]
            if isinstance(first, ev.Pulled):
                del self.answers[which % len(self.answers)]
                self.asked.append(do.Pull(first.channel, first.position))

    def expire(self, channel: int, count: int) -> None:
        self.cluster.expire("AB"[channel % 2], count)

    def other(self, channel: int, kind: int, wants: bool) -> None:
        """Another broker, which has the same subscriptions under the same numbers."""
        key = ("AB"[channel % 2], KINDS[kind % 3])
        if wants and key[0] in self.cluster.logs:
            self.cluster.want(*key, OTHER)
        elif key in self.cluster.numbers:
            self.cluster.unwant(self.cluster.numbers[key], OTHER)

    def drop(self, channel: int) -> None:
        """A channel is dropped. Clients that are away would not know it if they came back to one of the same name."""
        name = "AB"[channel % 2]
        if name not in self.cluster.logs:
            return
        self.cluster.drop(name)
        self._settle()
        self.handle(ev.Dropped(name))
        for client in self.clients:
            self.read(client.name, len(client.inbox))
            client.subs = {
                key: sub
                for key, sub in client.subs.items()
                if sub.channel != name or (sub.cursor is None and client.peer)
            }

    def create(self, channel: int) -> None:
        self.cluster.create("AB"[channel % 2])

    # -- steps: time and crashes

    def tick(self, seconds: float) -> None:
        self.now += seconds
        for client in self.clients:
            if client.peer is not None:
                self.handle(ev.Received(client.peer, [wire.Pong()] if client.peer not in dict(self.tokens) else []))
        self.handle(ev.Tick())

    def crash(self, applied: bool, released: bool) -> None:
        """``applied``: what was on its way to the data cluster still gets there; ``released``: while the broker was
        dead, somebody took all its subscriptions from it."""
        for asked in self.asked if applied else ():
            if isinstance(asked, do.Subscribe | do.Unsubscribe):
                self.cluster.answer(asked, 1)
        for number in list(self.cluster.holders) if released else ():
            self.cluster.unwant(number, OURS)
        for client in self.clients:
            client.cut()
        self.boot()

    # -- the end

    def _settle(self) -> None:
        for _ in range(QUIET):
            if not (self.asked or self.answers or self.tokens):
                return
            self.authenticate(0)
            self.serve(0, 1)
            self.answer(0)
        raise AssertionError("the broker does not come to rest")

    def quiet(self) -> None:
        """Everybody comes back, everything is answered, and all have what they should."""
        for client in self.clients:
            self.connect(client.name)
            self.drained(client.name)
        for channel in self.cluster.logs:
            self.cluster.commit(channel)
        for _ in range(QUIET):
            self._settle()
            self.tell()
            for client in self.clients:
                self.read(client.name, len(client.inbox))
            if not (self.asked or self.answers or self.cluster.outbox or self.state.replay.fetches.early):
                break
            if not self.asked:
                self.tick(0.0)
        else:
            raise AssertionError("the broker does not come to rest")
        for client in self.clients:
            for sub in client.subs.values():
                assert sub.number is not None and sub.live, "still waiting"
                sub.check(self.cluster.logs[sub.channel])

    def leave(self) -> None:
        """Everybody goes, and nothing is left behind."""
        for client in self.clients:
            self.disconnect(client.name)
            self.log_out(client.name)
        self._settle()
        for _ in range(3):
            self.tick(GRACE)
            self._settle()
        state = self.state
        assert not [number for number, holders in self.cluster.holders.items() if "ours" in holders]
        for part in (
            state.sessions.by_peer,
            state.be_subscriptions.by_id,
            state.be_subscriptions.channels,
            state.be_subscriptions._by_key,
            state.sessions.by_user,
            state.users.durable.by_user,
            state.sessions._hello_deadlines,
        ):
            assert not part
        assert not state.sessions._addresses and not state.be_subscriptions._idle and not any(state.sessions._beats)
        assert not state.replay.fetches.jobs and not state.replay.fetches.queue
        assert not state.cache.messages and not state.cache.bytes and len(state.cache._order) < 100

    def replay(self) -> None:
        for life in self.lives:
            state = BrokerState(CONFIG)
            for event, now, out in life:
                assert [repr(each) for each in state.handle(event, now)] == out
