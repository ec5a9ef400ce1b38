"""Channels that are dropped or made anew, and what ends with them."""

from __future__ import annotations

from tocsin.broker.core import events as ev
from tocsin.broker.core.be_subscription import BESubscription, Channel
from tocsin.broker.core.instructions import Forget
from tocsin.broker.core.replay import Behind
from tocsin.broker.core.session import LIVE
from tocsin.wire import messages as wire


class Endings(Behind):
    """BE subscriptions end with their channel, or when they are let go."""

    def _present(self, channel: Channel, epoch: int) -> Channel | None:
        """The channel of this epoch; None if it is of the past. One that was made anew ends the one before."""
        if epoch == channel.epoch or not epoch:
            return channel
        if epoch < channel.epoch:
            return None
        if channel.epoch:
            self._dropped(ev.Dropped(channel.name))
            channel = self._channel(channel.name)
        channel.epoch = epoch
        return channel

    def _dropped(self, event: ev.Dropped) -> None:
        channel = self.channels.get(event.channel.lower())
        if channel is None or (event.epoch and event.epoch != channel.epoch):
            return
        for front in self.fronts.values():
            for number in [number for number in front.subscriptions if number in channel.backs]:
                front.behind -= front.subscriptions.pop(number) != LIVE
                self._send(front, wire.Ended(number, "not_found", f"the channel {channel.name} was dropped"))
        for back in list(channel.backs.values()):
            for user in list(back.holders):
                self._let_go(user, back)
                self._out.append(Forget(user, back.id))
            self._remove(back)
            back.live, back.waiting, back.slow, back.former, back.holders, back.audience = {}, {}, {}, {}, {}, None
        channel.told.clear()
        channel.unwanted.clear()
        channel.parting.clear()
        channel.pulling = False
        # One that is made anew under the name counts from the beginning.
        channel.newest = channel.position = channel.lost = channel.epoch = 0
        self._tidy(channel)

    def _remove(self, back: BESubscription) -> None:
        self._idle.pop(back, None)
        for key in back.keys:
            self._keys.pop(key, None)
        self.backs.pop(back.id, None)
        back.channel.backs.pop(back.id, None)
        self.cache.forget(back.recent)

    def _let_go(self, user: str, back: BESubscription) -> None:
        back.holders.pop(user, None)
        mine = self._held.get(user, {})
        mine.pop(back.id, None)
        if not mine:
            self._held.pop(user, None)
