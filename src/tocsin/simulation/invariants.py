"""What must be true: of every application's ledger, and of the whole network once it is quiet.

``promises`` holds at any time, up to what each application has received; ``unsettled`` only after faults have ended.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from tocsin.balancing.central_host import plan_for
from tocsin.client.core.connection_state import Stage
from tocsin.client.core.session import Phase
from tocsin.client.notification import Notification, Receipt
from tocsin.simulation.ledger import Interest, RecordedGap, Span
from tocsin.simulation.nodes.broker import BrokerNode
from tocsin.simulation.nodes.cluster import DataCluster
from tocsin.simulation.nodes.deployment import Deployment
from tocsin.simulation.nodes.publisher import FEED
from tocsin.simulation.reference_cluster import Channel, Execution, canonical
from tocsin.simulation.user_invariants import of_users, unsettled_users
from tocsin.simulation.violation import Violation

#: By how much λ may differ between a broker and the coordinator: what is no news, and what decays between reports.
STALE = 0.15


# -- every confirmed subscription got exactly its notifications, in order


def promises(world: Deployment, *, whole: bool) -> Iterator[Violation]:
    """``whole``: everything must have arrived by now."""
    for app in world.apps:
        for interest in app.interests.values():
            for span in interest.spans:
                goes_on = interest.wanted and not interest.ended and span is interest.spans[-1]
                yield from _kept(world.cluster, app.name, interest, span, whole and goes_on)
    yield from _published(world, whole)
    yield from of_users(world)
    for complaint in world.coordinator.complaints:
        yield Violation("a plan lowers the maximum", complaint)
    for complaint in world.cluster.notifier.complaints:
        yield Violation("no channel waits for another", complaint)


def _kept(cluster: DataCluster, name: str, it: Interest, span: Span, whole: bool) -> Iterator[Violation]:
    channel, _ = cluster.names[span.subscription]
    who = f"{name} {it.channel}({it.kind}) of epoch {channel.epoch}"
    last, got = span.begin, set()
    for item in span.received:
        if cluster.names[item.subscription][0] is not channel:
            yield Violation("epochs are announced", f"{who} got {item.execution} of another channel of the name")
            return
        if item.execution <= last:
            yield Violation("in order, and once", f"{who} got {item.execution} after {last}")
        last = max(last, item.execution)
        got.add(item.execution)
        if not _own(channel, it.kind, item):
            yield Violation("its own", f"{who} got {item.execution}, which is not its own: {item.results}")
    # What a dropped channel had found is gone with it.
    end = channel.last if whole and cluster.present(channel) else last
    for execution in channel.executions[span.begin : end]:
        if canonical([it.kind]) in execution.found and execution.number not in got:
            yield from _excused(cluster, it, span, who, execution)


def _own(channel: Channel, kind: str, item: Notification) -> bool:
    if item.execution > channel.last or canonical([kind]) not in channel.executions[item.execution - 1].found:
        return False
    if channel.feed:
        found: list[Any] = msgspec.json.decode(channel.executions[item.execution - 1].found[canonical([kind])])
        return item.results == found
    row = item.results[0]
    return (row["kind"], row["epoch"], row["n"]) == (kind, channel.epoch, item.execution)


def _excused(cluster: DataCluster, it: Interest, span: Span, who: str, execution: Execution) -> Iterator[Violation]:
    number = execution.number
    if cluster.names[span.subscription][0].feed:
        # Every commit after the confirmed one was promised, and the dataset keeps all of them.
        yield Violation("nothing is lost", f"{who} never got {it.channel}/{number}")
        return
    numbers = [each for each in execution.stored if cluster.names[each][1] == it.kind]
    if not numbers and execution.started < span.confirmed:
        return  # it had begun before anything was promised
    gaps = [gap for gap in span.missed if gap.after < number < gap.next]
    if not gaps:
        yield Violation("nothing is lost", f"{who} never got {it.channel}/{number}; no gap was declared")
    elif numbers and not any(_justified(gap, numbers, execution) for gap in gaps):
        yield Violation("no gap without need", f"{who} has a declared gap at {it.channel}/{number}, and it was kept")


def _justified(gap: RecordedGap, numbers: list[int], execution: Execution) -> bool:
    """It was kept no longer, is damaged, or was kept under a number of which neither side could know."""
    expired = execution.expired is not None and execution.expired <= gap.time
    return expired or execution.damaged or not {gap.subscription, gap.known} & set(numbers)


def _published(world: Deployment, whole: bool) -> Iterator[Violation]:
    """What was confirmed is stored, without those that were refused; twice only what may be sent twice."""
    rule, times = "published, and once", Counter(record.id for record in world.cluster.data.records[FEED])
    for client in world.clients.values():
        for number, publication in enumerate(client.publisher.publications):
            who = f"publication {number} of {client.name}"
            stored = [times[record.id] for record in publication.records if not record.wrong]
            if any(times[record.id] for record in publication.records if record.wrong):
                yield Violation(rule, f"{who} does not fit, and was stored")
            if not publication.retry and max(stored, default=0) > 1:
                yield Violation(rule, f"{who} was stored {max(stored)} times")
            if isinstance(publication.outcome, Receipt):
                refused = [each.index for each in publication.outcome.refused]
                if not all(stored) or publication.outcome.accepted != len(stored) or refused != publication.wrong:
                    yield Violation(rule, f"{who} was confirmed, {publication.outcome}, and stored {stored}")
            elif publication.outcome is None and whole and publication.life == client.life:
                yield Violation(rule, f"{who} was never answered")


# -- once it is quiet


def unsettled(world: Deployment) -> Iterator[Violation]:
    yield from _served(world)
    yield from _places(world)
    yield from _picture(world)
    yield from _brokers(world)
    yield from unsettled_users(world)


def _served(world: Deployment) -> Iterator[Violation]:
    for client in world.clients.values():
        if client.stopped is not None:
            yield Violation("no client is lost", f"{client.name} has stopped: {client.stopped.message}")
            continue
        state = client.state
        if state.stage is not Stage.READY or state.joining is not None or state.leaving is not None:
            yield Violation("no client is lost", f"{client.name} is {state.stage.value}, {state.problem}")
            continue
        session = state.current.session  # type: ignore[union-attr]
        for interest in client.interests.values():
            number = session.ids.get(interest.handle)
            live = number is not None and session.phases.get(number) is Phase.LIVE
            what = f"{client.name} {interest.channel}({interest.kind}) is"
            device = None if client.account is None else client.account.device
            if not world.people.allows(interest.channel, interest.kind, device):
                if live:
                    yield Violation("nothing without a grant", f"{what} live")
            elif interest.wanted and not live:
                yield Violation("no client is lost", f"{what} not live")


def _truth(world: Deployment) -> dict[str, list[tuple[str, list[int]]]]:
    """Subscriber: brokers that have it, with its BE subscriptions there."""
    found: dict[str, list[tuple[str, list[int]]]] = {}
    for broker in world.brokers.values():
        for session in broker.state.sessions.by_peer.values() if broker.up else ():
            if not session.rest:
                found.setdefault(session.subscriber, []).append((broker.name, sorted(session.subscriptions)))
        for user in broker.state.users.rest_users() if broker.up else ():
            found.setdefault(user, []).append((broker.name, sorted(broker.state.users.durable.by_user[user])))
    return found


def _places(world: Deployment) -> Iterator[Violation]:
    truth = _truth(world)
    for client in world.clients.values():
        at = [name for name, _ in truth.pop(client.subscriber, [])]
        here = client.state.welcome.broker if client.state.welcome is not None else "nowhere"
        if len(at) > 1:
            yield Violation("no subscriber is in two places", f"{client.name} is at {' and '.join(at)}")
        elif at != [here]:
            yield Violation("no client is lost", f"{client.name} believes to be at {here}, and is at {at or 'none'}")
    for user in world.rest_users.values():
        at = [name for name, _ in truth.pop(user.account.device.session, [])]
        if at not in ([], [user.at]):
            yield Violation("no subscriber is in two places", f"{user.name} polls {user.at}, and is at {at}")
    for subscriber in truth:
        yield Violation(
            "no subscriber is in two places", f"a subscriber that has left still has a connection: {subscriber!r}"
        )


def _picture(world: Deployment) -> Iterator[Violation]:
    """The coordinator knows who is where, and its loads are those of the formula."""
    state, now = world.coordinator.state, world.clock.now
    model, load = state.model, state.load
    if world.coordinator.name in world.retired:
        return
    if not world.coordinator.up:
        yield Violation("the coordinator is right", "it is down")
        return
    numbers = {member.name: member.number for member in state.members.values()}
    by_number = {number: name for name, number in numbers.items()}
    for broker in world.brokers.values():
        member = state.members.get(broker.name)
        if (member is not None and member.alive) != broker.up:
            wrong = "dead" if broker.up else "alive"
            yield Violation("the coordinator is right", f"it takes {broker.name} for {wrong}")
    truth = {subscriber: found[-1] for subscriber, found in _truth(world).items()}
    seen: dict[str, tuple[str, list[int]]] = {}
    for subscriber in model.subscribers:
        u = model.subscribers.find(subscriber)
        assert u is not None
        rows = sorted(model.subscriptions.name(k) for k in load.rows[u].tolist())
        seen[subscriber] = (by_number.get(int(load.at[u]), "nowhere"), rows)
    for subscriber in sorted({*truth, *seen}):
        if truth.get(subscriber) != seen.get(subscriber):
            what = f"{subscriber} is at {truth.get(subscriber)}, and it says {seen.get(subscriber)}"
            yield Violation("the coordinator is right", what)
    if model.in_transit:
        yield Violation("the coordinator is right", f"it waits for {sorted(model.in_transit)}")
    yield from _loads(world, truth, numbers)
    if state.host.pending:
        names = [model.subscribers.name(u) for u in state.host.pending]
        yield Violation("it settles", f"migrations are pending: {sorted(names)}")
    if now - world.coordinator.last_migration < 2.5 * world.scenario.coordinator.balance_every:
        yield Violation("it settles", f"a migration was decided on at {world.coordinator.last_migration:.1f}")
    elif planned := plan_for(state.host.snapshot(now)).migrations:
        yield Violation("it settles", f"{len(planned)} more migrations would be made")


def _loads(world: Deployment, truth: dict[str, tuple[str, list[int]]], numbers: dict[str, int]) -> Iterator[Violation]:
    """F_j = Σ_k z_jk (1 + n_jk) λ_k, from who is really where; λ_k is what one of those who serve it measures."""
    state = world.coordinator.state
    loads, model = state.load.loads, state.model
    lam = {k: float(state.load.lam[model.subscriptions.number(k)]) for _, row in truth.values() for k in row}
    for broker in world.brokers.values():
        if not broker.up or broker.name not in numbers:
            continue
        n: dict[int, int] = {}
        for name, row in truth.values():
            for k in row if name == broker.name else ():
                n[k] = n.get(k, 0) + 1
        F = sum((1 + n[k]) * lam[k] for k in n)
        its = float(loads.F[numbers[broker.name]])
        if not math.isclose(F, its, rel_tol=1e-9, abs_tol=1e-9):
            yield Violation("loads agree with the model", f"F of {broker.name} is {F}, and the coordinator says {its}")
    up = [each for each in world.brokers.values() if each.up]
    for k, rate in lam.items():
        serving = [each.state.be_subscriptions.by_id[k] for each in up if _serves(each, k)]
        measured = [back.lam.bytes_per_second(world.clock.now) for back in serving]
        if measured and not any(abs(rate - each) <= STALE * max(rate, each) for each in measured):
            what = f"λ of #{k} is {' or '.join(map(str, measured))}, and the coordinator says {rate}"
            yield Violation("loads agree with the model", what)


def _serves(broker: BrokerNode, k: int) -> bool:
    users = broker.state.users
    over_rest = any(k in users.durable.by_user[user] for user in users.rest_users())
    return over_rest or any(k in session.subscriptions for session in broker.state.sessions.by_peer.values())


def _brokers(world: Deployment) -> Iterator[Violation]:
    """Nothing is left over: no queue, no subscription without subscribers, no subscriber on a drained broker."""
    cluster, limits = world.cluster, world.scenario.broker.limits
    open_ = [each for each in world.brokers.values() if each.up and each.name not in world.draining]
    for broker in world.brokers.values():
        if not broker.up:
            continue
        state, by_id = broker.state, broker.state.be_subscriptions.by_id
        sessions = {each.subscriber: each for each in state.sessions.by_peer.values() if not each.rest}
        here = len(sessions) + len(state.users.rest_users())
        if (mine := cluster.data.brokers.get(broker.name)) and (left := cluster.data.entries(mine.id, 10)):
            yield Violation("it settles", f"{broker.name} was not notified of {left}")
        fetches, channels = state.replay.fetches, state.be_subscriptions.channels
        if any(channel.queue for channel in channels.values()) or fetches.jobs or fetches.queue:
            yield Violation("it settles", f"{broker.name} has something to fetch")
        if late := [each.subscriber for each in sessions.values() if each.not_live or each.congested]:
            yield Violation("it settles", f"{broker.name} has something left for {late}")
        if broker.name in world.draining and open_ and here:
            yield Violation("it settles", f"{broker.name} is drained, and has {here} subscribers")
        held = {each.id for name in cluster.data.channels for each in cluster.data.subscriptions(name, broker.name)}
        if held != set(by_id):
            what = f"{broker.name} has {sorted(by_id)}, and the data cluster says {sorted(held)}"
            yield Violation("subscriptions agree", what)
        if state.cache.bytes > limits.cache_bytes:
            yield Violation("memory is bounded", f"{broker.name} keeps {state.cache.bytes} bytes of results")
