"""What goes wrong in the sessions of brokers that balance among themselves: at each step, to either side."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec import Struct

from tocsin.balancing.brokers.strategies import COMMON, STRATEGIES
from tocsin.balancing.host import messages as ms
from tocsin.balancing.host.actions import Migrate
from tocsin.broker.core.events import DrainSelf, PeerMessage, UseStrategy
from tocsin.config import BrokerBalancing
from tocsin.simulation.network.network import LinkQuality, Partition
from tocsin.simulation.nodes.broker import BrokerNode
from tocsin.simulation.nodes.deployment import Deployment

#: The steps of a session: a fault waits for the next message of this kind.
STEPS = {"request": ms.Request, "accept": ms.Accept, "decline": ms.Decline, "done": ms.Done, "advise": ms.Advise}


class SessionFault(Struct, frozen=True):
    """``side``: of the session, the sender of the message or its receiver."""

    at: float
    kind: str
    step: str
    side: str
    who: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.kind} the {self.side} of the next {self.step} after {self.at:.2f} for {self.seconds:.1f} s"


Strike = Callable[[Deployment, SessionFault, BrokerNode, BrokerNode, ms.Message], None]
KINDS: dict[str, Strike] = {}


def kind(strike: Strike) -> Strike:
    """The function is a kind of fault, which has its name."""
    KINDS[strike.__name__.replace("_", " ")] = strike
    return strike


def script(rng: Random, until: float) -> list[SessionFault]:
    """One kind at one step each."""
    found = []
    for _ in range(rng.randint(1, 5)):
        kind, step = rng.choice(list(KINDS)), rng.choice(list(STEPS))
        step = "accept" if kind == "replay" else step  # only there are tickets
        side, who = rng.choice(("sender", "receiver")), rng.randrange(10_000)
        seconds = rng.choice((0.5, 2.0, 6.0, 15.0)) * rng.uniform(0.5, 1.5)
        found.append(SessionFault(rng.uniform(2.0, until), kind, step, side, who, seconds))
    return sorted(found, key=lambda fault: fault.at)


def plant(world: Deployment, faults: list[SessionFault], until: float) -> None:
    """Those whose step has not come by ``until`` do not happen, and all are over then."""
    for fault in faults:
        world.clock.at(fault.at, _wait, world, fault, until)


def _wait(world: Deployment, fault: SessionFault, until: float) -> None:
    def sent(source: BrokerNode, target: BrokerNode, message: ms.Message) -> None:
        if not isinstance(message, STEPS[fault.step]):
            return
        world.peers.on_message.remove(sent)
        if world.clock.now >= until:
            return
        if world.trace:
            world.trace.say("FAULT", str(fault))
        # The message is on its way before anything happens to its sender.
        world.clock.after(0.0, KINDS[fault.kind], world, fault, source, target, message)

    world.peers.on_message.append(sent)


def _struck(fault: SessionFault, source: BrokerNode, target: BrokerNode) -> BrokerNode:
    return source if fault.side == "sender" else target


def _revive(world: Deployment, broker: BrokerNode) -> None:
    if not broker.up and broker.name not in world.retired:
        broker.boot()


@kind
def kill(world: Deployment, fault: SessionFault, source: BrokerNode, target: BrokerNode, message: ms.Message) -> None:
    broker = _struck(fault, source, target)
    if broker.up:
        broker.die(silent=fault.who % 2 == 0)
        world.clock.after(fault.seconds, _revive, world, broker)


@kind
def partition(
    world: Deployment, fault: SessionFault, source: BrokerNode, target: BrokerNode, message: ms.Message
) -> None:
    """The two cannot reach each other, in one or both directions; others reach both."""
    between = Partition(frozenset({_struck(fault, source, target).name}), one_way=fault.who % 3 == 0)
    world.network.partitions.append(between)
    world.clock.after(fault.seconds, world.network.remove_partition, between)


@kind
def delay(world: Deployment, fault: SessionFault, source: BrokerNode, target: BrokerNode, message: ms.Message) -> None:
    """Everything that follows takes long, or is lost and sent twice."""
    world.network.quality = LinkQuality(0.01, 1.5, 3.0, 0.2 * (fault.who % 2), 0.5)
    world.clock.after(fault.seconds, setattr, world.network, "quality", LinkQuality())


@kind
def duplicate(
    world: Deployment, fault: SessionFault, source: BrokerNode, target: BrokerNode, message: ms.Message
) -> None:
    """The message arrives again: at once, and when its session is long over."""
    for seconds in (0.05, fault.seconds):
        world.clock.after(seconds, _say, target, source.name, message)


@kind
def freeze(world: Deployment, fault: SessionFault, source: BrokerNode, target: BrokerNode, message: ms.Message) -> None:
    broker = _struck(fault, source, target)
    if broker.up:
        broker.freeze(min(fault.seconds, 12.0))


@kind
def lie(world: Deployment, fault: SessionFault, source: BrokerNode, target: BrokerNode, message: ms.Message) -> None:
    """One side says what is not true: it has accepted, it is done, units are to move that do not exist."""
    liar, victim = (source, target) if fault.side == "sender" else (target, source)
    session = getattr(message, "session", f"{victim.name}/0/1")
    clients = {each.subscriber: "forged" for each in world.clients.values()}
    unit = Migrate(victim.name, liar.name, 1.0, "a lie", ("no such unit",))
    lies: list[ms.Message] = [
        ms.Accept(session, (clients,)),
        ms.Accept(f"{victim.name}/life {victim.life}/1", (clients,)),
        ms.Done(session, (0, 1, 2)),
        ms.Advise("load", (unit,)),
        ms.Request(f"{liar.name}/forged/1", "load", (unit,)),
        ms.Request(f"{liar.name}/forged/2", "load", (Migrate(liar.name, victim.name, -1.0, "", ("x",)),)),
        ms.Report(1, ()),
    ]
    for seconds, each in enumerate(lies):
        if isinstance(each, ms.Accept):
            world.peers.accepted.add((each.session, liar.name))  # it said so
        world.clock.after(0.1 * seconds, _say, victim, liar.name, each)


@kind
def replay(world: Deployment, fault: SessionFault, source: BrokerNode, target: BrokerNode, message: ms.Message) -> None:
    """A thief shows the tickets of an acceptance again, which the subscribers have used by then."""
    for permits in message.permits if isinstance(message, ms.Accept) else ():
        for subscriber, ticket in permits.items():
            world.clock.after(fault.seconds, world.peers.show_again, source, subscriber, ticket)


def _say(target: BrokerNode, sender: str, message: ms.Message) -> None:
    if target.up:
        target.take(target.handle, PeerMessage(sender, message))


@kind
def drain(world: Deployment, fault: SessionFault, source: BrokerNode, target: BrokerNode, message: ms.Message) -> None:
    """By its own operator, and not for good."""
    broker = _struck(fault, source, target)
    if broker.up:
        broker.take(broker.handle, DrainSelf())
        world.clock.after(fault.seconds, _undrain, broker)


@kind
def swap(world: Deployment, fault: SessionFault, source: BrokerNode, target: BrokerNode, message: ms.Message) -> None:
    """Another strategy, while messages of the first are on their way; and back again.

    It comes at once, or just after the next pull, whose answers then find another strategy."""
    broker = _struck(fault, source, target)
    before = broker.config.balancing
    strategy = list(STRATEGIES)[fault.who // 2 % len(STRATEGIES)]
    common = {name: value for name, value in before.settings.items() if name in COMMON}
    changed = BrokerBalancing("peers", strategy, common)

    def pulled(sender: BrokerNode, receiver: BrokerNode, message: ms.Message) -> None:
        if sender is broker and isinstance(message, ms.Pull) and message.origin == broker.name:
            stop()
            world.clock.after(0.0, _use, world, broker, changed)

    def stop() -> None:
        if pulled in world.peers.on_message:
            world.peers.on_message.remove(pulled)

    if fault.who % 2:
        world.peers.on_message.append(pulled)
        world.clock.after(fault.seconds, stop)
    else:
        _use(world, broker, changed)
    world.clock.after(fault.seconds, _use, world, broker, before)


def _use(world: Deployment, broker: BrokerNode, balancing: BrokerBalancing) -> None:
    if broker.up:
        broker.take(world.peers.swap, broker, UseStrategy(balancing))


def _undrain(broker: BrokerNode) -> None:
    if broker.up:
        broker.take(broker.handle, DrainSelf(undo=True))
