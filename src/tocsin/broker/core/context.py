"""What the parts of the broker's state machine share: settings, time, sessions, the ledger, and how to answer."""

from __future__ import annotations

from tocsin.broker.core.events import Line, Peer, Problem
from tocsin.broker.core.instructions import Instruction, Send
from tocsin.broker.core.model.be_subscription import BESubscription
from tocsin.broker.core.model.cache import Cache
from tocsin.broker.core.model.ledger import Ledger
from tocsin.broker.core.model.session import Session
from tocsin.config import BrokerConfig
from tocsin.wire import messages as wire
from tocsin.wire.messages import Error, Message

#: The instructions of one call, in order.
Out = list[Instruction]


class Context:
    """``changed`` and ``changed_users``: the subscribers and users of whom the next load report speaks. ``reporting``:
    the coordinator has a full report; otherwise the next one is full, and changes need not be noted.
    ``alternatives``: other brokers and their addresses, for the clients. ``newcomers``: subscribers that connected
    without a ticket, if brokers compare their load for them."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config, self.limits = config, config.limits
        self.now = 0.0
        self.sessions: dict[Peer, Session] = {}
        self.ledger = Ledger(Cache(self.limits.cache_bytes, self.limits.cache_results))
        self.reporting = False
        self.alternatives: dict[str, str] = {}
        self.newcomers: list[str] | None = None
        self.changed: dict[str, None] = {}
        self.changed_users: dict[str, None] = {}

    def touch(self, session: Session) -> None:
        if session.subscriber and self.reporting:
            self.changed[session.subscriber] = None

    def touch_user(self, user: str) -> None:
        if self.reporting:
            self.changed_users[user] = None

    def send(self, session: Session, message: Message, out: Out) -> None:
        self.send_all(session.alone, message, out)

    def send_all(self, peers: tuple[Peer, ...], message: Message, out: Out) -> None:
        data = wire.encode(message)
        self.ledger.counters.bytes_out += len(data) * len(peers)
        out.append(Send(peers, (data,)))

    def refuse(self, session: Session, id: int | None, problem: Problem, out: Out) -> None:
        self.ledger.counters.refusals += 1
        self.send(session, Error(id, problem.code, problem.message, problem.hint), out)

    def deliver(self, peers: tuple[Peer, ...], messages: tuple[bytes, ...], out: Out) -> None:
        """Notifications that come late."""
        counters = self.ledger.counters
        counters.deliveries += len(messages) * len(peers)
        counters.bytes_out += sum(map(len, messages)) * len(peers)
        out.append(Send(peers, messages))

    def deliver_lines(self, subscription: BESubscription, peers: tuple[Peer, ...], lines: list[Line], out: Out) -> None:
        """Results that were fetched, under the id that the subscription has now."""
        counters = self.ledger.counters
        counters.bytes_in += sum(len(memoryview(line.results)) for line in lines)
        counters.gaps += len(peers) * sum(bool(line.gap) for line in lines)
        self.deliver(peers, subscription.messages(lines), out)
