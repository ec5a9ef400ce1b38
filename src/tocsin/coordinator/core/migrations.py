"""Moves, from the plan to their end: every one is done, fails or is dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tocsin.balancing.model.migration import Migration
from tocsin.coordinator.core.base import Core
from tocsin.coordinator.core.events import Note
from tocsin.coordinator.core.members import Member, Transfer
from tocsin.wire.reports import MigrationOrder


class Moving(Core):
    """A move is queued at its source, handed out as fast as the limits allow, and looked after until it ends."""

    def _queue(self, move: Migration) -> None:
        name = self.picture.subscribers.name(move.subscriber)
        transfer = Transfer(name, move, self._by_number[move.source], self._by_number[move.target])
        self.transfers[name] = transfer
        transfer.source.orders[name] = transfer

    def _hand_out(self, member: Member) -> list[MigrationOrder]:
        """What may begin now. Its ticket is written only here: until now the target may have moved or filled up."""
        member.fill(self._now, self.config.limits.per_second)
        arriving = Counter(each.target.number for each in self._by_ticket.values())
        found = []
        while member.orders and member.allowance >= 1.0:
            name = next(iter(member.orders))
            transfer = member.orders.pop(name)
            target = transfer.target
            if not self.picture.takes(target.number, arriving[target.number]):
                self._call_off(transfer, f"{target.name} takes nobody any more")
                continue
            member.allowance -= 1.0
            arriving[target.number] += 1
            seconds = self.config.limits.move_seconds
            transfer.ticket, transfer.deadline = self._ticket(name, target, seconds), self._now + seconds
            self._by_ticket[transfer.ticket] = transfer
            self._out.append(Note("order", "begins", name, member.name, target.name))
            found.append(MigrationOrder(name, target.name, target.row.url, transfer.ticket))
        return found

    def _look_after(self, name: str) -> None:
        """Somebody has come or gone: what does it mean for the move?"""
        transfer = self.transfers.get(name)
        if transfer is None:
            return
        at = self.picture.at(name)
        if at == transfer.target.number:
            self.balancer.finished(transfer.move.subscriber, self._now)
            self._end(transfer, self.balancer.log[-1].reason.value)
        elif at != transfer.source.number:
            self._call_off(transfer, "it went elsewhere by itself")

    def _failed(self, ticket: str, reason: str) -> None:
        transfer = self._by_ticket.get(ticket)
        if transfer is not None:
            self.balancer.failed(transfer.move.subscriber, self._now)
            self._end(transfer, f"failed: {reason}")

    def _call_off(self, transfer: Transfer, reason: str) -> None:
        """One that is not under way does not begin; one that is ends by itself, and is seen like any newcomer."""
        self.balancer.pending.pop(transfer.move.subscriber, None)
        self._end(transfer, f"dropped: {reason}")

    def _call_off_all(self, which: Callable[[Transfer], bool], reason: str) -> None:
        for transfer in [each for each in self.transfers.values() if which(each)]:
            self._call_off(transfer, reason)

    def _end(self, transfer: Transfer, text: str) -> None:
        name = transfer.name
        del self.transfers[name]
        self._by_ticket.pop(transfer.ticket, None)
        transfer.source.orders.pop(name, None)
        self._out.append(Note("move", text, name, transfer.source.name, transfer.target.name))
        if name in self.picture.away:
            self._remove(name)

    def _give_up(self) -> None:
        """Moves whose time is over."""
        for ticket, transfer in list(self._by_ticket.items()):
            if transfer.deadline <= self._now:
                self._failed(ticket, "it did not arrive in time")

    def _left(self, member: Member, name: str) -> None:
        if not self.picture.leave(name, member.number):
            self._look_after(name)
        elif name in self.transfers and self.transfers[name].ticket:
            self.picture.away.add(name)  # the other broker will tell, or the time runs out
        else:
            self._remove(name)

    def _remove(self, name: str) -> None:
        """Nobody has it any more; its number may be another's from now on."""
        if name in self.transfers:
            self.picture.away.discard(name)
            self._call_off(self.transfers[name], "the subscriber has left")
        u = self.picture.subscribers.find(name)
        if u is not None:
            self.balancer.forget(u)
            self.picture.remove(name)
