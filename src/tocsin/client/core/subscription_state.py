"""What a client keeps of one subscription of the application."""

from __future__ import annotations

import msgspec

from tocsin.client.core.events import Args, SubscribeRequested
from tocsin.client.notification import Gap, Notification
from tocsin.wire import messages as wire
from tocsin.wire.position import START, Position

_encoder = msgspec.json.Encoder(order="deterministic")


class SubscriptionState:
    """``position``: it has everything up to there. None until a broker has said where it begins.

    ``id`` is the BE subscription that the position belongs to, and ``id_broker`` the broker that said so. A resume
    names this id; it changes only when all results of the previous one are here. ``current_id`` is the id on the
    current connection, None while the client waits for an answer. ``expired``: up to there, a broker that the client
    did not migrate to had no results any more.
    """

    def __init__(self, request: SubscribeRequested) -> None:
        self.handle = request.handle
        self.channel = request.channel
        self.args: Args = request.args
        self.key = (request.channel.lower(), _encoder.encode(request.args))
        self.max_pending = request.max_pending
        self.position = request.after
        self.id = request.subscription
        self.id_broker: str | None = None
        self.current_id: int | None = None
        self.confirmed = False
        self.leaving = False
        self.pending = 0
        self.gaps = 0
        self.warnings: tuple[str, ...] = ()
        self.expired = START
        self._consumed = request.after

    @property
    def epoch(self) -> int:
        return 0 if self.position is None else self.position.epoch

    @property
    def execution(self) -> int:
        return 0 if self.position is None else self.position.execution

    @property
    def consumed(self) -> Position | None:
        """The application has finished with everything up to here."""
        return self.position if self.pending == 0 else self._consumed

    def at(self, execution: int) -> Position:
        return Position(self.epoch, execution)

    def begin(self, after: Position) -> None:
        self.position = self._consumed = after
        self.expired = START

    def set_epoch(self, epoch: int) -> None:
        """A broker has said which epoch the position is of."""
        if self.position is not None and not self.position.epoch:
            self.position = self.position._replace(epoch=epoch)
            self.expired = self.expired._replace(epoch=epoch)
            if self._consumed is not None:
                self._consumed = self._consumed._replace(epoch=epoch)

    def restart(self, id: int, after: Position) -> Gap:
        """The channel was dropped, and another one with its name counts from the beginning."""
        gap = Gap(self.channel, id, self.position or START, after._replace(execution=after.execution + 1), "dropped")
        self.position = after
        self.expired = START
        if not self.pending:
            self._consumed = after
        self.id = id
        self.gaps += 1
        return gap

    def accept(self, message: wire.Notify) -> Notification | None:
        """None for a duplicate."""
        if not self.advance(message.execution):
            return None
        self.pending += 1
        return Notification(message.channel, message.subscription, message.execution, message.results, self.epoch)

    def skip(self, message: wire.Gap) -> Gap | None:
        """None if the client already has what is missing there."""
        after = max(message.after, self.execution)
        # Of a compacted commit a part may be missing, even of the next one.
        partly = message.reason == "compacted" and message.next > self.execution
        if not self.advance(message.next - 1) and not partly:
            return None
        self.gaps += 1
        return Gap(self.channel, message.subscription, self.at(after), self.at(message.next), message.reason)

    def advance(self, execution: int) -> bool:
        """It has everything up to there. False if it already had."""
        if self.position is not None and execution <= self.position.execution:
            return False
        self._consumed = self.consumed
        self.position = self.at(execution)
        return True

    def consume(self, position: Position) -> None:
        if self.pending:
            self.pending -= 1
            self._consumed = position if position.epoch else self.at(position.execution)
