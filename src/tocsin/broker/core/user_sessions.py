"""What is kept for users who are away."""

from __future__ import annotations

from tocsin.broker.core import events as ev
from tocsin.broker.core.be_subscription import Holder
from tocsin.broker.core.instructions import Acknowledge
from tocsin.broker.core.session import Session
from tocsin.broker.core.sessions import Connections
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.messages import DurableSubscription


class Users(Connections):
    """A user's subscriptions stay subscribed to until they end, whether or not the user is here."""

    def _authenticated(self, event: ev.Authenticated) -> None:
        front = self.fronts.get(event.peer)
        if front is None or front.waiting is None:
            return
        if event.user is None:
            self._close(front.peer, close_codes.UNAUTHORIZED, "the token is unknown or has expired")
            return
        before = self._users.get(event.user)
        if before is not None:
            self._close(before, close_codes.REPLACED, "connected again")
        (hello, *waiting), front.waiting = front.waiting, None
        assert isinstance(hello, wire.Hello)
        front.user = event.user
        self._users[event.user] = front.peer
        self._hold(event.user, event.held)
        self._welcome(front, hello.id, event.held)
        self._received(ev.Received(front.peer, waiting))

    def _restored(self, event: ev.Restored) -> None:
        self._hold(event.user, event.held)

    def _hold(self, user: str, held: list[DurableSubscription]) -> None:
        """Sees to it that what is kept for a user is subscribed to."""
        mine = self._held.get(user, {})
        for each in held:
            if each.subscription not in mine:
                self._ask(each.channel, each.args, Holder(user, each.subscription, each.after, each.previous_ids))

    def _user_ended(self, event: ev.UserEnded) -> None:
        user = event.user
        here = [self._users[user]] if user in self._users else []
        for peer in [*here, *self._callers.get(user, ())]:
            self._close(peer, close_codes.LOGGED_OUT)
        self._hold_no_more(user)

    def holders(self) -> list[str]:
        """Those for whom something is kept here, and who are not here themselves."""
        return [user for user in self._held if user not in self._users and user not in self._callers]

    def _elsewhere(self, event: ev.Elsewhere) -> None:
        """What is written down stays as it is: it is the other broker's."""
        if event.user not in self._users and event.user not in self._callers:
            self._hold_no_more(event.user)

    def _hold_no_more(self, user: str) -> None:
        for channel in self.channels.values():  # nobody asks for it any more
            for back in [*channel.wanted.values(), *channel.asked]:
                back.asking = [each for each in back.asking if not isinstance(each, Holder) or each.user != user]
        for back in self._held.pop(user, {}).values():
            back.holders.pop(user, None)
            self._idle_if_unused(back)

    def _ack(self, front: Session, message: wire.Ack) -> None:
        if front.user is None:
            return
        mine = self._held.get(front.user, {})
        positions = {number: execution for number, execution in message.positions.items() if number in mine}
        if positions:
            self._out.append(Acknowledge(front.user, positions))
