"""What happens to users: their tokens, passwords, roles and grants end or change, and clocks differ."""

from __future__ import annotations

from random import Random

from tocsin.identity import messages as it
from tocsin.identity.tokens import session_prefix
from tocsin.simulation.faults import KINDS, OF_USERS, Fault, Strike, drawn, kind, revive
from tocsin.simulation.identity.account import Account
from tocsin.simulation.identity.people import Person, Rule
from tocsin.simulation.nodes.deployment import Deployment
from tocsin.simulation.nodes.identity import Identity

#: Seconds after which a person or an operator tries again while the coordinator is down.
AGAIN = 0.7


def script(rng: Random, until: float) -> list[Fault]:
    """In networks with users, beside what happens to others."""
    return drawn(rng, until, [kind for kind in KINDS if kind in OF_USERS], rng.randint(0, 5))


def _account(world: Deployment, who: int) -> Account:
    accounts = [app.account for app in world.apps if app.account is not None]
    return accounts[who % len(accounts)]


def _identity(world: Deployment, fault: Fault, again: Strike, person: Person) -> Identity | None:
    """None while the coordinator is down, or there is no such user: it happens later."""
    if world.coordinator.up and person.registered:
        return world.coordinator.identity
    world.clock.after(AGAIN, again, world, fault)
    return None


@kind(weight=4, of_users=True)
def revoke_user(world: Deployment, fault: Fault) -> None:
    """An operator ends all tokens of a user; what is durable stays."""
    person = _account(world, fault.who).device.person
    identity = _identity(world, fault, revoke_user, person)
    if identity is None:
        return
    identity.now(identity.accounts.revoke(person.name))
    identity.revoked(person.name)


@kind(weight=3, of_users=True)
def change_password(world: Deployment, fault: Fault) -> None:
    person = _account(world, fault.who).device.person
    identity = _identity(world, fault, change_password, person)
    if identity is None:
        return
    new = f"horse {fault.at:.3f} of {person.name}"
    identity.now(identity.accounts.call(it.ChangePassword(person.name, person.password, new), "a person"))
    identity.revoked(person.name)
    person.password = new


@kind(of_users=True)
def delete_user(world: Deployment, fault: Fault) -> None:
    """With all that is durable. The person registers again, later."""
    person = _account(world, fault.who).device.person
    identity = _identity(world, fault, delete_user, person)
    if identity is None:
        return
    identity.now(identity.accounts.call(it.DeleteUser(person.name, person.password), "a person"))
    identity.revoked(person.name)
    person.registered, person.roles = False, []
    world.people.lost[session_prefix(person.name)] = world.clock.now


@kind(of_users=True)
def log_out(world: Deployment, fault: Fault) -> None:
    """A device logs out, with what is durable for it."""
    device = _account(world, fault.who).device
    identity = _identity(world, fault, log_out, device.person)
    if identity is None:
        return
    session = identity.records.log_in(device.person.name, device.name)
    token, _ = identity.accounts.issuer.issue(session.user, session.device, session.roles)
    identity.now(identity.accounts.call(it.LogOut(token), "a person"))
    identity.revoked(device.person.name, device.session)
    world.people.lost[device.session] = world.clock.now


@kind(weight=3, of_users=True)
def change_roles(world: Deployment, fault: Fault) -> None:
    person = _account(world, fault.who).device.person
    identity = _identity(world, fault, change_roles, person)
    if identity is None:
        return
    kinds = list(world.scenario.channels[0].size)
    person.roles = Random(fault.who).sample(kinds, Random(fault.who).randint(0, len(kinds)))
    identity.now(identity.accounts.set_roles(person.name, person.roles))
    identity.revoked(person.name)
    world.people.lost[f"roles of {person.name}"] = world.clock.now


@kind(weight=4, of_users=True)
def change_grants(world: Deployment, fault: Fault) -> None:
    """Another rule for a channel: for a while, or for good. A data cluster that is down changes nothing."""
    rules = world.people.rules
    if rules is None or not world.cluster.up:
        return
    channel = list(rules)[fault.who % len(rules)]
    before: Rule = rules[channel]
    new: tuple[Rule, ...] = ("", "", "user", "sub", "roles", "anonymous")
    _rule(world, channel, new[fault.who // 7 % len(new)])
    if fault.how < 0.7:
        world.clock.after(fault.seconds, _rule, world, channel, before)


def _rule(world: Deployment, channel: str, rule: Rule) -> None:
    assert world.people.rules is not None
    if not world.cluster.up:
        world.clock.after(AGAIN, _rule, world, channel, rule)
        return
    world.people.rules[channel] = rule
    world.people.lost[channel] = world.clock.now
    world.cluster.allow(channel, rule)


@kind(weight=3, of_users=True)
def skew_clock(world: Deployment, fault: Fault) -> None:
    """The clock of a broker, or of the coordinator, is wrong by what the configuration allows."""
    skew = world.scenario.coordinator.identity.clock_skew
    nodes = [*world.brokers.values(), world.coordinator]
    node = nodes[fault.who % len(nodes)]
    node.skew = (2 * fault.how - 1) * skew / 2  # two clocks may be wrong
    world.clock.after(fault.seconds, setattr, node, "skew", 0.0)


@kind(weight=4, of_users=True)
def restart_user(world: Deployment, fault: Fault) -> None:
    """The application of a user ends, and begins again later."""
    node = _account(world, fault.who).node
    if node.up:
        node.die()
        world.clock.after(fault.seconds, revive, world, node)
