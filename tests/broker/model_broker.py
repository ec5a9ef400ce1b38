"""A broker's state machine between a reference data cluster and model clients, with every kind of fault.

Every step takes integers modulo the number of choices, so that any sequence of steps is a history.
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
    silence=6.0,
    hello_timeout=90.0,
    anonymous="all",
    fetches=2,
    limits=BrokerLimits(cache_results=2, cache_bytes=1_000),
)
QUIET = 2_000


class BrokerModel:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.clients = [Client(0, None), Client(1, None), Client(2, "ann"), Client(3, "bob", forgetful=True)]
        self.store: dict[str, dict[int, DurableSubscription]] = {}
        self.now = 0.0
        self.runs: list[list[tuple[ev.Event, float, list[str]]]] = []
        self._peer = 0
        self.boot()

    def boot(self) -> None:
        """Starts the broker: it knows what the data cluster and the store kept."""
        self.state = BrokerState(CONFIG)
        self.runs.append([])
        self.open: dict[int, Client] = {}
        self.granted: dict[int, set[int]] = {}
        self.left: dict[int, float] = {}
        self.asked: list[do.Subscribe | do.Unsubscribe | do.Pull | do.Fetch] = []
        self.answers: list[list[ev.Event]] = []
        self.tokens: list[tuple[int, str]] = []
        for user, held in sorted(self.store.items()):
            self.handle(ev.Restored(user, list(held.values())))
        for channel, log in self.cluster.logs.items():
            ours = [(id_, [kind]) for id_, kind in self.cluster.ours(channel)]
            self.answers.append([ev.Recovered(channel, ours, Position(0, log.last))])

    # -- the driver

    def handle(self, event: ev.Event) -> None:
        # The driver has two entry points; a run is replayed through one of them with the same outcome.
        notified = isinstance(event, ev.Notified)
        out = self.state.on_notify([event], self.now) if notified else self.state.handle(event, self.now)
        self.runs[-1].append((event, self.now, [repr(each) for each in out]))
        for instruction in out:
            self._carry_out(instruction)

    def _carry_out(self, it: do.Instruction) -> None:
        match it:
            case do.Send():
                for peer in it.peers:
                    assert peer in self.open, "sent to a closed connection"
                    for text in it.messages:
                        for message in decode_answers(text):
                            self._sent(peer, message)
            case do.Close():
                self._gone(it.peer)
            case do.Authenticate():
                self.tokens.append((it.peer, it.token))
            case do.Remember():
                here = [client.user for client in self.open.values()]
                assert it.user in self.store or it.user in here, "stored for a user who has logged out"
                held = DurableSubscription(it.subscription, it.channel, it.args, it.position.execution)
                self.store.setdefault(it.user, {}).setdefault(it.subscription, held)
                self.answers.append([ev.Stored([ev.Remembered(it.user, it.subscription)])])
            case do.ChangeId():
                held = self.store.get(it.user, {}).pop(it.previous_id, None)
                if held is not None:
                    previous_ids = held.previous_ids | {it.previous_id: it.until.execution}
                    after = min(held.after, it.position.execution)
                    self.store[it.user][it.subscription] = DurableSubscription(
                        it.subscription, held.channel, held.args, after, previous_ids
                    )
            case do.Acknowledge():
                for id_, (_, after) in it.positions.items():
                    held = self.store.get(it.user, {}).get(id_)
                    if held is not None:
                        previous_ids = {each: until for each, until in held.previous_ids.items() if until >= after}
                        after = max(held.after, after)
                        self.store[it.user][id_] = DurableSubscription(
                            id_, held.channel, held.args, after, previous_ids
                        )
            case do.Forget():
                self.store.get(it.user, {}).pop(it.subscription, None)
            case do.Unsubscribe():
                for id_ in it.subscriptions:
                    assert not self._users_of(id_), f"{id_} expires although it has subscribers"
                    assert self.now >= self.left.get(id_, -GRACE) + GRACE, "expires too early"
                self.asked.append(it)
            case do.Subscribe() | do.Pull() | do.Fetch():
                self.asked.append(it)

    def _users_of(self, id_: int) -> list[Any]:
        peers = [peer for peer, ids in self.granted.items() if id_ in ids]
        return [*peers, *[user for user, held in self.store.items() if id_ in held]]

    def _sent(self, peer: int, message: wire.FromBroker) -> None:
        match message:
            case wire.Subscribed():
                self.granted[peer].add(message.subscription)
            case wire.Unsubscribed() | wire.Ended():
                self.granted[peer].discard(message.subscription)
                self.left[message.subscription] = self.now
            case wire.Notify() | wire.Live() | wire.Lagging() | wire.Gap():
                assert message.subscription in self.granted[peer], "the subscription was not granted, or has ended"
                if isinstance(message, wire.Gap):
                    self._justified(self.open[peer], message)
        self.open[peer].inbox.append(message)

    def _justified(self, client: Client, gap: wire.Gap) -> None:
        """A gap must not contain stored results of an id that the client or the broker knows."""
        keys = {id_: key for key, id_ in self.cluster.ids.items()}
        key = keys.get(gap.subscription, ("", ""))
        if key not in client.subs:
            return
        sub, log = client.subs[key], self.cluster.logs[key[0]]
        inside = range(max(gap.after + 1, log.first), min(gap.next, log.last + 1))
        kept = [n for n in inside if {gap.subscription, sub.known} & set(log.stored[n])]
        assert not kept, f"the gap contains {kept}, which are stored"

    def _gone(self, peer: int) -> None:
        client = self.open.pop(peer, None)
        for id_ in self.granted.pop(peer, ()):
            self.left[id_] = self.now
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
        positions = {sub.id: sub.cursor or 0 for sub in client.subs.values() if sub.id is not None}
        if positions and client.user is not None:
            self._say(client, wire.Ack(positions))

    def _say(self, client: Client, message: wire.FromClient | None) -> None:
        if client.peer is not None and message is not None:
            self.handle(ev.Received(client.peer, [message]))

    def read(self, who: int, count: int) -> None:
        client = self.clients[who % len(self.clients)]
        for _ in range(min(count, len(client.inbox))):
            if client.inbox:
                client.receive(client.inbox.pop(0), self.cluster.logs)

    def congested(self, who: int) -> None:
        client = self.clients[who % len(self.clients)]
        if client.peer is not None:
            self.handle(ev.Congested(client.peer))

    def drained(self, who: int) -> None:
        client = self.clients[who % len(self.clients)]
        if client.peer is not None:
            self.handle(ev.Drained(client.peer))

    def log_out(self, who: int) -> None:
        """Ends all subscriptions of the user; the client starts again without any."""
        client = self.clients[who % len(self.clients)]
        if client.user is None:
            return
        for id_ in self.store.pop(client.user, {}):
            if id_ in self.state.users.durable.by_user.get(client.user, {}):
                self.left[id_] = self.now
        self.handle(ev.UserEnded(client.user))
        self.disconnect(client.name)  # it may still wait for its token
        client.subs.clear()

    # -- steps: the data cluster

    def execute(self, channel: int, kinds: set[str]) -> None:
        self.cluster.execute("AB"[channel % 2], kinds)

    def begin(self, channel: int, kinds: set[str]) -> None:
        """Begins an execution, which is committed later."""
        self.cluster.begin("AB"[channel % 2], kinds)

    @property
    def ready(self) -> bool:
        """The driver holds notifications and unsubscribes until the broker has recovered its subscriptions."""
        return not any(isinstance(parts[0], ev.Recovered) for parts in self.answers)

    def notify(self) -> None:
        if self.cluster.outbox and self.ready:
            channel, execution = self.cluster.outbox.pop(0)
            self.cluster.notified.append((channel, execution))
            self.handle(ev.Notified(channel, execution))

    def push(self) -> None:
        """Notifies with all results, as a push channel does."""
        if self.cluster.outbox and self.ready:
            channel, execution = self.cluster.outbox.pop(0)
            *parts, _ = self.cluster.answer(do.Pull(channel, Position(0, execution)), 100)
            if not all(isinstance(part, ev.Pulled) for part in parts):
                return
            lines = [line for part in parts for line in part.lines]  # type: ignore[union-attr]
            if lines:
                self.cluster.notified.append((channel, execution))
                self.handle(ev.Notified(channel, execution, lines))

    def notify_again(self, back: int) -> None:
        """Repeats the last notifications in order: the answer was lost."""
        for channel, execution in self.cluster.notified[-(back % 4) :] if self.ready else ():
            self.handle(ev.Notified(channel, execution))

    def give_up(self) -> None:
        """The data cluster discards its outbox, and reports this when the broker is back."""
        if not self.ready:
            return
        self.cluster.outbox.clear()
        self.handle(ev.Missed({channel: Position(0, log.last) for channel, log in self.cluster.logs.items()}))

    def serve(self, which: int, page: int) -> None:
        """The data cluster serves a request; the answer is in flight."""
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

    def other(self, channel: int, kind: int, subscribes: bool) -> None:
        """Another broker shares BE subscriptions with this one."""
        key = ("AB"[channel % 2], KINDS[kind % 3])
        if subscribes and key[0] in self.cluster.logs:
            self.cluster.subscribe(*key, OTHER)
        elif key in self.cluster.ids:
            self.cluster.unsubscribe(self.cluster.ids[key], OTHER)

    def drop(self, channel: int) -> None:
        """Drops a channel. Offline clients forget it: they could confuse it with a later channel of the same name."""
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
        """``applied``: requests in flight to the data cluster still arrive; ``released``: while the broker was dead, an
        operator removed all its subscriptions."""
        for asked in self.asked if applied else ():
            if isinstance(asked, do.Subscribe | do.Unsubscribe):
                self.cluster.answer(asked, 1)
        for id_ in list(self.cluster.holders) if released else ():
            self.cluster.unsubscribe(id_, OURS)
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
        raise AssertionError("the broker does not become idle")

    def quiet(self) -> None:
        """All clients reconnect, every request is answered, and each client has exactly its results."""
        for client in self.clients:
            self.connect(client.name)
            self.drained(client.name)
        for channel in self.cluster.logs:
            self.cluster.commit(channel)
        for _ in range(QUIET):
            self._settle()
            self.notify()
            for client in self.clients:
                self.read(client.name, len(client.inbox))
            if not (self.asked or self.answers or self.cluster.outbox or self.state.replay.fetches.early):
                break
            if not self.asked:
                self.tick(0.0)
        else:
            raise AssertionError("the broker does not become idle")
        for client in self.clients:
            for sub in client.subs.values():
                assert sub.id is not None and sub.live, "still waiting"
                sub.check(self.cluster.logs[sub.channel])

    def leave(self) -> None:
        """All clients leave, and the broker keeps nothing."""
        for client in self.clients:
            self.disconnect(client.name)
            self.log_out(client.name)
        self._settle()
        for _ in range(3):
            self.tick(GRACE)
            self._settle()
        state = self.state
        assert not [id_ for id_, holders in self.cluster.holders.items() if "ours" in holders]
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
        for run in self.runs:
            state = BrokerState(CONFIG)
            for event, now, out in run:
                assert [repr(each) for each in state.handle(event, now)] == out
