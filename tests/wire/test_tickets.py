"""Tickets that are forged, changed, expired, used twice or for another subscriber are refused."""

from __future__ import annotations

import pytest

from tocsin.wire.tickets import SKEW, Ticket, TicketVerifier, key_for, sign

SECRET = b"secret"
TICKET = Ticket("subscriber-1", "north", 1_000.0, "n1")


def verifier(now: float = 900.0, broker: str = "north") -> TicketVerifier:
    found = TicketVerifier(broker, lambda: now)
    found.key = key_for(SECRET, broker)
    return found


def signed(ticket: Ticket = TICKET, secret: bytes = SECRET) -> str:
    return sign(ticket, key_for(secret, ticket.broker))


def test_a_broker_accepts_its_own_tickets_once_with_and_without_a_coordinator():
    for key in (None, key_for(SECRET, "north")):
        tickets = TicketVerifier("north", lambda: 900.0, b"own key")
        tickets.key = key
        ticket = tickets.issue("subscriber-1", 45.0, "n1")
        assert tickets.refuses(ticket, "subscriber-2") == "the ticket is for another subscriber or broker"
        assert tickets.refuses(ticket, "subscriber-1") is None
        assert tickets.refuses(ticket, "subscriber-1") == "the ticket was used before"


def test_a_restarted_broker_and_another_one_refuse_the_ticket_of_a_broker():
    ticket = TicketVerifier("north", lambda: 900.0, b"own key").issue("subscriber-1", 45.0, "n1")
    for broker in ("north", "south"):
        tickets = TicketVerifier(broker, lambda: 900.0, b"another key")
        assert tickets.refuses(ticket, "subscriber-1") == "the signature is wrong"


def test_a_good_ticket_is_accepted_once():
    tickets = verifier()
    assert tickets.refuses(signed(), "subscriber-1") is None
    assert tickets.refuses(signed(), "subscriber-1") == "the ticket was used before"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the signature is wrong"),
        ("x", "this is not a ticket"),
        ("a.b.c", "this is not a ticket"),
        (signed() + "=", "this is not a ticket"),
        (signed()[:-2] + "AA", "the signature is wrong"),
        ("AAAA" + signed(), "the signature is wrong"),
        (signed(secret=b"other"), "the signature is wrong"),
        (sign(Ticket("subscriber-1", "north", 1_000.0, "n1"), key_for(SECRET, "south")), "the signature is wrong"),
        (signed(Ticket("subscriber-2", "north", 1_000.0, "n1")), "the ticket is for another subscriber or broker"),
        (signed(Ticket("subscriber-1", "north", 899.0 - SKEW, "n1")), "the ticket has expired"),
    ],
)
def test_a_bad_ticket_is_refused_with_the_reason(text, why):
    assert verifier().refuses(text, "subscriber-1") == why


def test_a_broker_refuses_a_ticket_for_another_broker():
    """Even if it knew the other broker's key."""
    tickets = verifier(broker="south")
    tickets.key = key_for(SECRET, "north")
    assert tickets.refuses(signed(), "subscriber-1") == "the ticket is for another subscriber or broker"


def test_a_broker_without_a_coordinator_refuses_all_tickets():
    assert TicketVerifier("north", lambda: 0.0).refuses(signed(), "subscriber-1") == "this broker has no coordinator"


def test_used_tickets_are_forgotten_once_they_have_expired():
    now = [900.0]
    tickets = TicketVerifier("north", lambda: now[0])
    tickets.key = key_for(SECRET, "north")
    for number in range(100):
        now[0] += 100.0
        ticket = Ticket("subscriber-1", "north", now[0] + 60.0, f"n{number}")
        assert tickets.refuses(signed(ticket), "subscriber-1") is None
    assert len(tickets._used) < 5
