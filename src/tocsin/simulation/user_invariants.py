"""What must be true of users: at any time, and once the network is quiet."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.simulation.ledger import Interest
from tocsin.simulation.nodes.client import ClientNode
from tocsin.simulation.nodes.deployment import Deployment
from tocsin.simulation.nodes.rest_client import RestUser
from tocsin.simulation.violation import Violation

#: Seconds that an execution may take when nothing new begins.
LAST_EXECUTION = 1.0


def of_users(world: Deployment) -> Iterator[Violation]:
    """Each broker and each application has noted what was wrong when it happened."""
    for broker in world.brokers.values():
        for complaint in broker.witness.complaints if broker.witness is not None else ():
            yield Violation(*complaint)
    for app in world.apps:
        for complaint in app.account.complaints if app.account is not None else ():
            yield Violation(*complaint)


def unsettled_users(world: Deployment) -> Iterator[Violation]:
    if world.coordinator.identity is None:
        return
    yield from _tokens(world)
    for user in world.rest_users.values():
        yield from _served(world, user)
    for app in world.apps:
        if app.account is not None:
            yield from _positions(world, app)


def _tokens(world: Deployment) -> Iterator[Violation]:
    for broker in world.brokers.values():
        for claims in broker.witness.connected() if broker.up and broker.witness is not None else ():
            if any(each.voids(claims) for each in world.people.revoked):
                yield Violation("nothing after a revocation", f"{claims['sid']} is connected with a revoked token")


def _served(world: Deployment, user: RestUser) -> Iterator[Violation]:
    if not user.ready:
        yield Violation("no client is lost", f"{user.name} has no token or no broker")
    for interest in user.interests.values():
        what = f"{user.name} {interest.channel}({interest.kind})"
        if not world.people.allows(interest.channel, interest.kind, user.account.device):
            if not interest.ended:
                yield Violation("nothing without a grant", f"{what} is served")
        elif interest.wanted and interest.ended:
            yield Violation("no client is lost", f"{what} is not confirmed")
        elif interest.wanted and user.caught_up.get(interest.handle, 0.0) < world.calm_since + LAST_EXECUTION:
            yield Violation("it settles", f"{what} has not received everything")


def _positions(world: Deployment, app: ClientNode | RestUser) -> Iterator[Violation]:
    """The store has what was acknowledged, and nothing that the application has not consumed."""
    identity = world.coordinator.identity
    assert identity is not None and app.account is not None
    session = app.account.device.session
    rows = {each.subscription: each.after for each in identity.records.durable(session)}
    for interest in app.interests.values():
        if interest.ended or not interest.wanted:
            continue
        id, consumed = _consumed(app, interest)
        what = f"{app.name} {interest.channel}({interest.kind})"
        if id not in rows:
            yield Violation("durable subscriptions are stored", f"{what} is not stored as #{id}, but {sorted(rows)}")
        elif rows[id] > consumed:
            yield Violation("positions are stored", f"{what} is at {consumed}, and the store says {rows[id]}")
        elif rows[id] < _acknowledged(app, interest):
            yield Violation("positions are stored", f"{what} acknowledged more than {rows[id]}")


def _consumed(app: ClientNode | RestUser, interest: Interest) -> tuple[int | None, int]:
    """The id of its BE subscription, and the execution up to which it has consumed everything."""
    if isinstance(app, RestUser):
        return interest.id, 0 if interest.position is None else interest.position.execution
    state = app.state.subscriptions.by_handle.get(interest.handle)
    if state is None or state.consumed is None:
        return None, 0
    return state.current_id, state.consumed.execution


def _acknowledged(app: ClientNode | RestUser, interest: Interest) -> int:
    if isinstance(app, RestUser):
        return app.acked.get(interest.handle, 0)
    received = interest.spans[-1].received
    return received[-1].execution if received else 0
