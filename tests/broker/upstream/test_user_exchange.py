"""A broker and the store of users: what goes on while the store is away, and that both have the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from broker_harness import BrokerHarness
from hypothesis import given
from hypothesis import strategies as st

from tocsin.broker.core import events as ev
from tocsin.broker.upstream.effects import Lost, Refused
from tocsin.broker.upstream.user_exchange import Found, SendExchange, UntilWoken, UserExchange
from tocsin.config import IdentityConfig
from tocsin.effects import Pause
from tocsin.errors import Unauthorized, Unreachable
from tocsin.identity import messages as it
from tocsin.identity.messages import Exchange, Exchanged, TrustedIssuer
from tocsin.identity.tokens import OWN, Issuer, SigningKey, Verifier
from tocsin.identity.user_store import UserStore
from tocsin.wire.messages import DurableSubscription
from tocsin.wire.position import Position


class Lab:
    """A broker's exchange with a real store, step by step. ``events`` are those for the broker's state machine."""

    def __init__(self, store: UserStore, name: str = "a") -> None:
        self.store, self.name, self.now = store, name, store.clock
        self.issuer = Issuer([SigningKey.new(0.0)], 3_600.0, store.clock)
        self.broker = BrokerHarness()
        self.events: list[ev.Event] = []
        self.exchange = UserExchange(
            self.broker.state.users, Verifier(store.clock), self._handle, store.clock, lambda: None, Random(1)
        )
        self._effects = self.exchange.run()
        self._effect: Any = None
        self.sent: list[Exchange] = []

    def _handle(self, event: ev.Event) -> None:
        self.events.append(event)
        self.broker.handle(event)

    def step(self, *, lost: bool = False, refused: bool = False) -> None:
        """One exchange; several until there is nothing left to send, if it is answered."""
        if self._effect is None:
            self._effect = next(self._effects)
        while isinstance(self._effect, UntilWoken | Pause):
            self._effect = self._effects.send(None)
        if lost or refused:
            self.sent.append(self._effect.exchange)
            self._effect = self._effects.throw(Lost() if lost else Refused({"code": "bad_request"}, 400))
            return
        while isinstance(self._effect, SendExchange):
            asked = self._effect.exchange
            self.sent.append(asked)
            outcomes, revocations = self.store.exchange(self.name, asked.revocation, asked.commands, None).result(60)
            issuers = [TrustedIssuer(OWN, OWN, "roles", self.issuer.jwks())]
            self._effect = self._effects.send(Exchanged(outcomes, revocations, issuers))

    def authenticate(self, token: str) -> list[Found]:
        found: list[Found] = []
        self.exchange.authenticate(token, found.append)
        return found

    def log_in(self, device: str = "phone") -> Found:
        found = self.authenticate(self.issuer.issue("ann", device, [])[0])
        self.step()
        assert found[0].claims is not None, found
        return found[0]


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[UserStore]:
    found = UserStore("", tmp_path / "users.db", IdentityConfig(), Clock())
    yield found
    found.close()


@pytest.fixture
def lab(store: UserStore) -> Lab:
    return Lab(store)


def remember(id: int, user: str = "ann/phone") -> it.Remember:
    return it.Remember(user, id, "C", ["fire"], Position(1, 0))


def test_what_was_durable_before_the_start_is_restored(lab: Lab, store: UserStore) -> None:
    other = Lab(store, "a")
    other.log_in()
    other.exchange.store(remember(7))
    other.step()
    lab.step()
    durable = [DurableSubscription(7, "C", ["fire"], 0, epoch=1)]
    assert lab.events == [ev.Restored("ann/phone", durable), ev.UsersRestored()]


def test_a_request_restores_what_is_durable_before_it_is_answered(lab: Lab, store: UserStore) -> None:
    other = Lab(store, "b")
    other.log_in()
    other.exchange.store(remember(7))
    other.step()
    lab.step()
    lab.events.clear()
    before: list[list[ev.Event]] = []
    for token in (lab.issuer.issue("ann", "phone", [])[0], "made up"):
        lab.exchange.restore(token, lambda found: before.append(list(lab.events)))
        lab.step()
        lab.events.clear()
    assert before == [[ev.Restored("ann/phone", [DurableSubscription(7, "C", ["fire"], 0, epoch=1)])], []]


def test_a_token_of_an_unknown_key_waits_for_the_keys(lab: Lab) -> None:
    found = lab.authenticate(lab.issuer.issue("ann", "phone", [])[0])
    assert not found
    lab.step()
    assert found[0].claims is not None and lab.sent[0].unknown_key == OWN


def test_a_token_is_never_called_invalid_while_the_store_is_away(lab: Lab) -> None:
    token = lab.issuer.issue("ann", "phone", [])[0]
    found = lab.authenticate(token)
    lab.step(lost=True)
    assert isinstance(found[0].problem, Unreachable)
    lab.step()
    found = lab.authenticate(token)
    lab.step(lost=True)  # the token is valid, but what is durable is not known
    assert isinstance(found[0].problem, Unreachable)
    (forged,) = lab.authenticate(token[:-4] + "AAAA")
    assert isinstance(forged.problem, Unauthorized)


def test_a_user_that_the_broker_serves_goes_on_while_the_store_is_away(lab: Lab) -> None:
    lab.log_in()
    lab.exchange.store(remember(7))
    lab.step()
    lab.exchange.acknowledge(it.Acknowledge("ann/phone", {7: Position(1, 4)}))
    found = lab.authenticate(lab.issuer.issue("ann", "phone", [])[0])
    lab.step(lost=True)
    assert found[0].durable == [DurableSubscription(7, "C", ["fire"], 4, epoch=1)]
    assert ev.UsersAway(True) in lab.events
    lab.step()
    assert lab.events[-1] == ev.UsersAway(False)
    assert lab.log_in().durable == [DurableSubscription(7, "C", ["fire"], 4, epoch=1)]


def test_what_waits_is_sent_in_order_and_acknowledgements_do_not_pile_up(lab: Lab) -> None:
    lab.log_in()
    lab.exchange.store(remember(7))
    for execution in range(1, 50):
        lab.exchange.acknowledge(it.Acknowledge("ann/phone", {7: Position(1, execution)}))
        if execution % 10 == 0:
            lab.step(lost=True)
    lab.exchange.store(it.Forget("ann/phone", 8))
    lab.step()
    kinds = [type(each) for each in lab.sent[-1].commands]
    assert kinds == [it.Remember, it.Acknowledge, it.Forget]
    assert lab.log_in().durable == [DurableSubscription(7, "C", ["fire"], 49, epoch=1)]


def test_a_command_that_cannot_be_stored_does_not_stop_the_others(lab: Lab) -> None:
    lab.log_in()
    for id in (7, 8, 9):
        lab.exchange.store(remember(id))
    while any(getattr(each, "subscription", 0) == 7 for each in lab.exchange.flush().commands):
        lab.step(refused=True)
    assert [each.subscription for each in lab.log_in().durable] == [8, 9]


def test_a_revocation_closes_connections_with_older_tokens_only(lab: Lab, store: UserStore) -> None:
    first = lab.log_in()
    store.revoke("ann").result(60)
    second = lab.log_in()
    assert first.claims is not None and second.claims is not None
    (revoked,) = [each for each in lab.events if isinstance(each, ev.UserRevoked)]
    assert revoked.user == "ann/phone" and first.claims.issued <= revoked.before < second.claims.issued
    (again,) = lab.authenticate(lab.issuer.issue("ann", "desk", [])[0]) or [Found()]
    assert again.problem is None


def test_a_logout_ends_the_session_at_every_broker(lab: Lab, store: UserStore) -> None:
    claims = lab.log_in().claims
    assert claims is not None
    other = Lab(store, "b")
    other.issuer = lab.issuer
    other.log_in()
    store.log_out("ann", "ann/phone", claims.issued).result(60)
    for each in (lab, other):
        each.step()
        assert ev.UserEnded("ann/phone") in each.events
        (found,) = each.authenticate(lab.issuer.issue("ann", "phone", [])[0]) or [Found()]
        assert found.problem is None


def test_a_session_that_begins_again_is_not_ended_by_a_logout_of_before(lab: Lab, store: UserStore) -> None:
    lab.log_in()
    claims = lab.log_in().claims
    assert claims is not None
    store.log_out("ann", "ann/phone", claims.issued).result(60)
    lab.log_in()  # this broker learns of the logout together with the new session
    lab.events.clear()
    lab.step()
    assert ev.UserEnded("ann/phone") not in lab.events


POSITIONS = st.integers(0, 9).map(lambda execution: Position(1, execution))
IDS = st.integers(1, 4)
COMMANDS = st.one_of(
    st.builds(it.Remember, st.just("ann/phone"), IDS, st.just("C"), st.just(["fire"]), POSITIONS),
    st.builds(it.Forget, st.just("ann/phone"), IDS),
    st.builds(it.Acknowledge, st.just("ann/phone"), st.dictionaries(IDS, POSITIONS, min_size=1)),
    st.builds(it.ChangeId, st.just("ann/phone"), IDS, st.integers(5, 6), POSITIONS, POSITIONS),
)


@given(st.lists(st.tuples(COMMANDS, st.booleans()), max_size=12))
def test_the_broker_has_the_same_as_the_store(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    store = UserStore("", tmp_path_factory.mktemp("users") / "users.db", IdentityConfig(), Clock())
    try:
        lab = Lab(store)
        lab.log_in()
        for command, exchanged in steps:
            if isinstance(command, it.Acknowledge):
                lab.exchange.acknowledge(command)
            else:
                lab.exchange.store(command)
            if exchanged:
                lab.step()
        lab.step()
        found = lab.authenticate(lab.issuer.issue("ann", "phone", [])[0])
        lab.step(lost=True)
        assert sorted(found[0].durable, key=lambda each: each.subscription) == lab.log_in().durable
    finally:
        store.close()


def test_a_token_that_ends_while_the_store_is_asked_is_refused(lab: Lab) -> None:
    lab.log_in()
    found = lab.authenticate(lab.issuer.issue("ann", "phone", [])[0])
    lab.store.clock.now += 4_000.0  # type: ignore[attr-defined]
    lab.step()
    assert isinstance(found[0].problem, Unauthorized) and found[0].claims is None


def test_a_token_that_is_revoked_while_the_store_is_asked_is_refused(lab: Lab) -> None:
    lab.log_in()
    lab.step(lost=True)
    found = lab.authenticate(lab.issuer.issue("ann", "phone", [])[0])
    lab.store.revoke("ann").result(60)
    lab.step()
    assert isinstance(found[0].problem, Unauthorized)


def test_what_is_stored_in_the_same_exchange_belongs_to_what_is_durable(lab: Lab) -> None:
    lab.log_in()
    found = lab.authenticate(lab.issuer.issue("ann", "phone", [])[0])
    lab.exchange.store(remember(7))
    lab.step()
    assert found[0].durable == [DurableSubscription(7, "C", ["fire"], 0, epoch=1)]


def test_the_broker_learns_when_a_subscription_is_stored_and_when_it_has_ended_elsewhere(lab: Lab) -> None:
    lab.log_in()
    lab.exchange.store(remember(7))
    lab.exchange.store(it.ChangeId("ann/phone", 5, 9, Position(1, 2), Position(1, 2)))
    assert not [each for each in lab.events if isinstance(each, ev.Stored)]
    lab.step()
    (together,) = (each for each in lab.events if isinstance(each, ev.Stored))
    stored, ended = together.outcomes
    assert (stored.subscription, stored.problem) == (7, None)
    assert ended.subscription == 9 and ended.problem is not None and ended.problem.code == "not_found"


def test_exchanges_are_numbered(lab: Lab) -> None:
    lab.step(lost=True)
    lab.step()
    assert [each.number for each in lab.sent] == [1, 2] and len({each.incarnation for each in lab.sent}) == 1
