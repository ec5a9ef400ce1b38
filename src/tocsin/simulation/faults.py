"""What goes wrong, and when. A script is drawn before the run begins, so that parts of it can be left out."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec import Struct, structs

from tocsin.coordinator.core import events as coordinating
from tocsin.simulation.network.connection import BROKEN
from tocsin.simulation.network.network import LinkQuality, Partition
from tocsin.simulation.network.node import Node
from tocsin.simulation.nodes.broker import BrokerNode
from tocsin.simulation.nodes.client import ClientNode
from tocsin.simulation.nodes.deployment import Deployment
from tocsin.simulation.scenario import ChannelPlan
from tocsin.wire.reports import MigrationOrder


class Fault(Struct, frozen=True):
    """``who`` and ``how`` are numbers that each kind reads in its own way. ``amid``: it waits for the next move."""

    at: float
    kind: str
    who: int
    how: float
    seconds: float
    amid: bool = False

    def __str__(self) -> str:
        when = "amid the next move after" if self.amid else "at"
        return f"{self.kind} {when} {self.at:.2f} for {self.seconds:.1f} s (who {self.who}, how {self.how:.2f})"


Strike = Callable[[Deployment, Fault], None]
KINDS: dict[str, Strike] = {}
WEIGHTS: dict[str, int] = {}
#: What may strike in the middle of a move.
AMID: set[str] = set()
#: What happens to users only.
OF_USERS: set[str] = set()


def kind(*, weight: int = 2, amid: bool = False, of_users: bool = False) -> Callable[[Strike], Strike]:
    """The function is a kind of fault, which has its name."""

    def register(strike: Strike) -> Strike:
        name = strike.__name__.replace("_", " ")
        KINDS[name], WEIGHTS[name] = strike, weight
        if amid:
            AMID.add(name)
        if of_users:
            OF_USERS.add(name)
        return strike

    return register


def script(rng: Random, until: float, tight: bool) -> list[Fault]:
    """``tight``: brokers take only so many, so that none of them may be missing for good."""
    kinds = [kind for kind in KINDS if kind not in OF_USERS and not (tight and kind in ("retire", "drain"))]
    return drawn(rng, until, kinds, rng.randint(1, 9))


def drawn(rng: Random, until: float, kinds: list[str], number: int) -> list[Fault]:
    weights = [WEIGHTS[kind] for kind in kinds]
    found = []
    for _ in range(number):
        kind = rng.choices(kinds, weights)[0]
        amid = kind in AMID and rng.random() < 0.4
        seconds = rng.choice((0.5, 2.0, 6.0, 15.0)) * rng.uniform(0.5, 1.5)
        found.append(Fault(rng.uniform(3.0, until), kind, rng.randrange(10_000), rng.random(), seconds, amid))
    return sorted(found, key=lambda fault: fault.at)


def plant(world: Deployment, faults: list[Fault], until: float) -> None:
    """All of them are over at ``until``."""
    for fault in faults:
        world.clock.at(fault.at, _begin, world, structs.replace(fault, seconds=min(fault.seconds, until - fault.at)))


def _begin(world: Deployment, fault: Fault) -> None:
    if not fault.amid:
        _strike(world, fault)
        return

    def moving(source: BrokerNode, order: MigrationOrder) -> None:
        client = next((each for each in world.clients.values() if each.subscriber == order.subscriber), None)
        if client is None:  # a user over REST
            return
        world.on_migration.remove(moving)
        world.clock.after(fault.how * 0.5, _strike, world, _aimed(world, fault, source.name, order.broker, client))

    world.on_migration.append(moving)


def _aimed(world: Deployment, fault: Fault, source: str, target: str, client: ClientNode) -> Fault:
    """Aims a fault at the machines that take part in the migration."""
    if fault.kind.endswith("client"):
        return structs.replace(fault, who=list(world.clients.values()).index(client))
    name = source if fault.who % 2 else target
    return structs.replace(fault, who=list(world.brokers).index(name))


def _strike(world: Deployment, fault: Fault) -> None:
    if world.trace:
        world.trace.say("FAULT", str(fault))
    KINDS[fault.kind](world, fault)


# -- kinds


def _broker(world: Deployment, who: int) -> BrokerNode:
    return list(world.brokers.values())[who % len(world.brokers)]


def _client(world: Deployment, who: int) -> ClientNode:
    return list(world.clients.values())[who % len(world.clients)]


def _kill(world: Deployment, node: Node, fault: Fault) -> None:
    if node.up:
        node.die(silent=fault.how < 0.4)
        world.clock.after(fault.seconds, revive, world, node)


def revive(world: Deployment, node: Node) -> None:
    if not node.up and node.life and node.name not in world.retired:
        node.boot()


@kind(weight=5, amid=True)
def kill_broker(world: Deployment, fault: Fault) -> None:
    _kill(world, _broker(world, fault.who), fault)


@kind(amid=True)
def stop_broker(world: Deployment, fault: Fault) -> None:
    broker = _broker(world, fault.who)
    if broker.up:
        broker.stop()
        world.clock.after(fault.seconds, revive, world, broker)


@kind()
def retire(world: Deployment, fault: Fault) -> None:
    """Stops a broker for good if two others run; in half of the cases the coordinator is notified."""
    broker = _broker(world, fault.who)
    open_ = [each for each in world.brokers.values() if each.up and each.name not in world.draining]
    if not broker.up or len([each for each in open_ if each is not broker]) < 2:
        return
    world.retired.add(broker.name)
    broker.die(silent=True) if fault.how < 0.5 else broker.stop()
    if int(fault.how * 100) % 2:
        order = coordinating.Forget(None, broker.name)
        world.clock.after(8.0, world.coordinator.take, world.coordinator.handle, order)


@kind(weight=3)
def join(world: Deployment, fault: Fault) -> None:
    for broker in world.brokers.values():
        if not broker.life:
            broker.boot()
            return


@kind(amid=True)
def freeze_broker(world: Deployment, fault: Fault) -> None:
    broker = _broker(world, fault.who)
    if broker.up:
        broker.freeze(min(fault.seconds, 12.0))


@kind()
def slow_broker(world: Deployment, fault: Fault) -> None:
    """Its processor has other things to do."""
    broker = _broker(world, fault.who)
    broker.service, broker.delivery = 0.02 * fault.how, 0.01 * fault.how
    world.clock.after(fault.seconds, broker.usual)


@kind(weight=4)
def drain(world: Deployment, fault: Fault) -> None:
    """A coordinator that dies before it executes the command has not confirmed it, so the command does not count."""
    world.coordinator.take(_drain_now, world, fault)


def _drain_now(world: Deployment, fault: Fault) -> None:
    broker = _broker(world, fault.who)
    others = [each for each in world.brokers.values() if each.up and each.name not in {*world.draining, broker.name}]
    if not others or broker.name not in world.coordinator.state.members:
        return
    world.draining[broker.name] = None
    world.coordinator.handle(coordinating.Drain(None, broker.name))
    if fault.how < 0.6:
        world.clock.after(fault.seconds, world.coordinator.take, _undrain, world, broker.name)


def _undrain(world: Deployment, name: str) -> None:
    if world.draining.pop(name, 0) is None:
        world.coordinator.handle(coordinating.Drain(None, name, undo=True))


def _separate(world: Deployment, inside: list[str], fault: Fault) -> None:
    partition_ = Partition(frozenset(inside), one_way=fault.how > 0.75)
    world.network.partitions.append(partition_)
    world.clock.after(fault.seconds, world.network.remove_partition, partition_)


@kind(weight=3)
def partition(world: Deployment, fault: Fault) -> None:
    """Separates a random group of machines from the rest."""
    names = ["cluster", "coordinator", *world.brokers, *world.clients, *world.rest_users]
    rng = Random(fault.who)
    _separate(world, rng.sample(names, rng.randint(1, len(names) // 2)), fault)


@kind(amid=True)
def part_broker(world: Deployment, fault: Fault) -> None:
    """Separates a broker from all other machines, in one or both directions."""
    _separate(world, [_broker(world, fault.who).name], fault)


@kind()
def part_center(world: Deployment, fault: Fault) -> None:
    """Separates the coordinator or the data cluster from all other machines."""
    _separate(world, ["coordinator" if fault.who % 2 else "cluster"], fault)


@kind(weight=3, amid=True)
def part_client(world: Deployment, fault: Fault) -> None:
    _separate(world, [_client(world, fault.who).name], fault)


@kind(amid=True)
def kill_coordinator(world: Deployment, fault: Fault) -> None:
    _kill(world, world.coordinator, fault)


@kind()
def freeze_coordinator(world: Deployment, fault: Fault) -> None:
    world.coordinator.freeze(min(fault.seconds, 12.0))


@kind()
def kill_cluster(world: Deployment, fault: Fault) -> None:
    _kill(world, world.cluster, fault)


@kind(amid=True)
def kill_client(world: Deployment, fault: Fault) -> None:
    _kill(world, _client(world, fault.who), fault)


@kind(amid=True)
def slow_client(world: Deployment, fault: Fault) -> None:
    """Its line is thin, or its application takes its time."""
    client = _client(world, fault.who)
    if fault.how < 0.5:
        client.usual(100.0 + 2_000.0 * fault.how)
        world.clock.after(fault.seconds, client.usual, 1e6)
    else:
        client.pace = fault.how


@kind(weight=3, amid=True)
def reset_client(world: Deployment, fault: Fault) -> None:
    """Connections break: for both sides, or one of them does not hear of it."""
    for side in list(_client(world, fault.who).sides.values()):
        if side.other.alive:
            if fault.how < 0.7:
                side.end(BROKEN)
            if not 0.4 < fault.how < 0.7:
                side.other.end(BROKEN)


@kind(weight=3, amid=True)
def weather(world: Deployment, fault: Fault) -> None:
    rng = Random(fault.who)
    furthest = rng.choice((0.03, 0.3, 1.0))
    world.network.quality = LinkQuality(
        0.001, furthest, rng.choice((0.2, 3.0)), 0.3 * fault.how, rng.choice((0.0, 0.3))
    )
    world.clock.after(fault.seconds, setattr, world.network, "quality", LinkQuality())


@kind()
def more_of_client(world: Deployment, fault: Fault) -> None:
    client, channels = _client(world, fault.who), world.scenario.channels
    channel = channels[fault.who // 7 % len(channels)]
    kind = list(channel.size)[fault.who // 31 % len(channel.size)]
    client.subscribe(world.interest(channel.name, kind))


@kind()
def less_of_client(world: Deployment, fault: Fault) -> None:
    client = _client(world, fault.who)
    wanted = [each for each in client.interests.values() if each.wanted]
    if len(wanted) > 1:
        client.unsubscribe(wanted[fault.who % len(wanted)])


@kind(weight=5)
def surge(world: Deployment, fault: Fault) -> None:
    """A channel finds much more or much less from now on, and other kinds of it."""
    workload, rng = _workload(world, fault.who), Random(fault.who)
    workload.chance = rng.choice((0.1, 0.5, 1.0))
    workload.period = rng.choice((0.2, 0.5, 2.0))
    for kind in workload.size:
        workload.size[kind] = rng.choice((60, 300, 3_000))


@kind(weight=3)
def damage_results(world: Deployment, fault: Fault) -> None:
    """The files of a channel's newest executions become unreadable."""
    channels = list(world.cluster.data.channels.values())
    if channels:
        channel = channels[fault.who % len(channels)]
        for execution in channel.executions[-1 - int(3 * fault.how) :]:
            execution.damaged = True


def _workload(world: Deployment, who: int) -> ChannelPlan:
    return list(world.cluster.workloads.values())[who % len(world.cluster.workloads)]


@kind(weight=4)
def drop_channel(world: Deployment, fault: Fault) -> None:
    """A data cluster that is down drops nothing. It is created again at once, or after a while."""
    workload = _workload(world, fault.who)
    if world.cluster.up and workload.name.lower() in world.cluster.data.channels:
        world.cluster.data.drop_channel(workload.name)
        world.clock.after(0.0 if fault.how < 0.4 else fault.seconds, _create_channel, world, workload)


def _create_channel(world: Deployment, workload: ChannelPlan) -> None:
    if not world.cluster.up:
        world.clock.after(1.0, _create_channel, world, workload)
    elif workload.name.lower() not in world.cluster.data.channels:
        world.cluster.create(workload)
