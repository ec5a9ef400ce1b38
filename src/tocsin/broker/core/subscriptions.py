"""FE subscriptions, and the BE subscriptions they share."""

from __future__ import annotations

import msgspec

from tocsin.broker.core import events as ev
from tocsin.broker.core.be_subscription import Asker, BESubscription, Channel, Holder
from tocsin.broker.core.cache import Recent
from tocsin.broker.core.delivery import Executions
from tocsin.broker.core.events import Args, Peer, Problem
from tocsin.broker.core.instructions import Forget, Remember, Renumber, Unwant, Want
from tocsin.broker.core.rate import Rate
from tocsin.broker.core.session import LIVE, Session
from tocsin.wire import messages as wire

#: BE subscriptions in one request to the data cluster.
MOST_WANTED = 10_000

_encode_args = msgspec.json.Encoder(order="sorted").encode


class Subscriptions(Executions):
    """Who wants what. One request to the data cluster a channel at a time, so that order is kept."""

    def _subscribe(self, front: Session, message: wire.Subscribe) -> None:
        if len(front.subscriptions) + front.unanswered >= self.limits.subscriptions:
            most = self.limits.subscriptions
            hint = "unsubscribe from something first"
            self._refuse(front, message.id, Problem("limit_exceeded", f"at most {most} subscriptions", hint))
            return
        front.unanswered += 1
        self._ask(message.channel, message.args, Asker(front.peer, message))

    def _ask(self, name: str, args: Args, asker: Asker | Holder) -> None:
        channel = self._channel(name)
        text = _encode_args(args)
        key = (channel.name.lower(), text)
        back = self._keys.get(key)
        if back is None:
            back = BESubscription(channel, args, [key], Recent(0), Rate(self._now))
            self._keys[key] = back
            channel.wanted[text] = back
        if back.id:
            self._attach(back, asker)
        else:
            back.asking.append(asker)
            self._talk(channel)

    def _attach(self, back: BESubscription, asker: Asker | Holder) -> None:
        """The BE subscription is there: the one who asked gets it."""
        self._idle.pop(back, None)
        for leaving in (back.channel.unwanted, back.channel.parting):  # it was about to be let go
            leaving.pop(back.id, None)
        if isinstance(asker, Holder):
            self._hold_on(back, asker)
            return
        front = self.fronts.get(asker.peer)
        if front is None:
            self._idle_if_unused(back)
            return
        front.unanswered -= 1
        request = asker.request
        through = back.through
        epoch = back.channel.epoch
        anew = bool(request.epoch and epoch and request.epoch != epoch)  # its numbers are another channel's
        after = through if request.after is None or anew else request.after
        if back.id in front.subscriptions:  # asked for again
            at = front.subscriptions[back.id]
            if request.after is None:  # it stays where it is
                self._send(
                    front,
                    wire.Subscribed(request.id, back.id, back.channel.name, through if at == LIVE else at, epoch),
                )
                return
            after = min(after, through if at == LIVE else at)  # both who asked get all of theirs
            self._detach(back, front.peer)
            self._idle.pop(back, None)
            front.behind -= front.subscriptions.pop(back.id) != LIVE
        # Somebody who is ahead of this broker gets some of it twice, and knows it by the number.
        after = min(after, through)
        self._send(front, wire.Subscribed(request.id, back.id, back.channel.name, after, epoch))
        if front.user is not None:
            self._keep(back, front.user, after)
        front.subscriptions[back.id] = after
        front.behind += 1
        self._touch(front)
        previous_ids = () if anew or request.after is None else self._formers(back, front, request.subscription, after)
        if previous_ids:
            self.catchup.former(back, front.peer, previous_ids, after)
        else:
            self._resume(back, front, after, quiet=request.after is None)

    def _formers(self, back: BESubscription, front: Session, said: int | None, after: int) -> tuple[int, ...]:
        """The numbers whose results may come before those of the present one: what the subscriber says that its cursor
        belongs to, and what is known of a user, who may have been away when it changed. Numbers grow."""
        known = back.holders.get(front.user, {}) if front.user is not None else {}
        found = {number for number, until in known.items() if after <= until}
        if said is not None and said != back.id and after <= back.born:
            found.add(said)
        return tuple(sorted(found))

    def _keep(self, back: BESubscription, user: str, after: int) -> None:
        if back.id not in self._held.get(user, {}):
            self._held.setdefault(user, {})[back.id] = back
            back.holders[user] = {}
            self._out.append(Remember(user, back.id, back.channel.name, back.args, after))

    def _hold_on(self, back: BESubscription, holder: Holder) -> None:
        """It is subscribed to again, maybe under another number: what it got under the one before is not lost."""
        previous_ids = dict(holder.previous_ids)
        if holder.subscription != back.id:
            previous_ids[holder.subscription] = back.born
            self._out.append(Renumber(holder.user, holder.subscription, back.id, back.born, back.through))
        else:
            self._keep(back, holder.user, min(holder.after, back.through))
        self._held.setdefault(holder.user, {})[back.id] = back
        back.holders[holder.user] = back.holders.get(holder.user, {}) | previous_ids

    def _unsubscribe(self, front: Session, message: wire.Unsubscribe) -> None:
        back = self.backs.get(message.subscription)
        mine = message.subscription in front.subscriptions
        kept = front.user is not None and message.subscription in self._held.get(front.user, {})
        if back is None or not (mine or kept):
            problem = Problem("not_found", f"no subscription {message.subscription} here")
            self._refuse(front, message.id, problem)
            return
        if mine:
            front.behind -= front.subscriptions.pop(back.id) != LIVE
            self._touch(front)
        if front.user is not None and kept:
            self._let_go(front.user, back)
            self._out.append(Forget(front.user, back.id))
        self._detach(back, front.peer)
        self._send(front, wire.Unsubscribed(message.id, back.id))

    def _detach(self, back: BESubscription, peer: Peer) -> None:
        if peer in back.live:
            del back.live[peer]
            back.audience = None
        back.waiting.pop(peer, None)
        back.slow.pop(peer, None)
        back.former.pop(peer, None)
        self._idle_if_unused(back)

    def _idle_if_unused(self, back: BESubscription) -> None:
        if back.id and back.unused and back not in self._idle:
            self._idle[back] = self._now + self.config.grace

    def _talk(self, channel: Channel) -> None:
        """One request about a channel at a time: what comes meanwhile goes together into the next.

        What is wanted may be something unwanted, written in another way: so it is asked for before that is let go.
        """
        if channel.busy:
            return
        if channel.wanted and not channel.parting:
            channel.busy = True
            texts = list(channel.wanted)[:MOST_WANTED]
            channel.asked = [channel.wanted.pop(text) for text in texts]
            self._out.append(Want(channel.name, [back.args for back in channel.asked]))
            channel.parting, channel.unwanted = channel.unwanted, {}
        elif channel.parting or channel.unwanted:
            channel.busy = True
            parting = channel.parting or channel.unwanted
            channel.released = list(parting)[:MOST_WANTED]
            self._out.append(Unwant(channel.name, channel.released))
            for number in channel.released:
                self._remove(parting.pop(number))

    def _wanted(self, event: ev.Wanted) -> None:
        channel = self._channel(event.channel)
        past = self._present(channel, event.epoch) is None
        asked, channel.asked, channel.busy = channel.asked, [], False
        for back, outcome in zip(asked, event.outcomes, strict=True):
            asking, back.asking = back.asking, []
            if past:
                outcome = Problem("not_found", f"the channel {channel.name} was dropped")
            if isinstance(outcome, Problem):
                for key in back.keys:
                    self._keys.pop(key, None)
                self._refuse_all(asking, outcome)
                continue
            known = self.backs.get(outcome)
            if known is not None:  # the same subscription, written in another way
                for key in back.keys:
                    self._keys[key] = known
                known.keys += back.keys
                back = known
            else:
                self._confirm(back, outcome, event.position)
            for asker in asking:
                self._attach(back, asker)
            self._idle_if_unused(back)
        self._talk(channel)
        self._tidy(channel)

    def _refuse_all(self, asking: list[Asker | Holder], problem: Problem) -> None:
        for asker in asking:
            if isinstance(asker, Holder):
                self._out.append(Forget(asker.user, asker.subscription))
                continue
            front = self.fronts.get(asker.peer)
            if front is not None:
                front.unanswered -= 1
                self._refuse(front, asker.request.id, problem)

    def _confirm(self, back: BESubscription, number: int, position: int) -> None:
        channel = back.channel
        back.id = number
        # Its line of the execution that is being pulled may have passed already, when nobody knew the number.
        passed = channel.told[0][0] if channel.pulling else 0
        back.born = back.start = max(position, passed, channel.lost)
        back.recent.floor = back.through
        self.backs[number] = back.channel.backs[number] = back

    def _unwanted(self, event: ev.Unwanted) -> None:
        channel = self._channel(event.channel)
        channel.busy, channel.released = False, []
        self._talk(channel)
        self._tidy(channel)

    def _inherited(self, event: ev.Inherited) -> None:
        channel = self._channel(event.channel)
        present = self._present(channel, event.epoch)
        if present is None:
            return
        channel = present
        for number, args in event.subscriptions:
            key = (channel.name.lower(), _encode_args(args))
            if number not in self.backs and number not in channel.released and key not in self._keys:
                back = BESubscription(channel, list(args), [key], Recent(0), Rate(self._now))
                self._keys[key] = back
                self._confirm(back, number, event.position)
                self._idle_if_unused(back)
        self._tidy(channel)

    def _release(self) -> None:
        """Lets go of what nobody has wanted for a while."""
        due: list[BESubscription] = []
        for back, deadline in self._idle.items():
            if deadline > self._now:
                break
            due.append(back)
        touched: dict[str, Channel] = {}
        for back in due:
            del self._idle[back]
            if back.unused:
                back.channel.unwanted[back.id] = back
                touched[back.channel.name] = back.channel
        for channel in touched.values():
            self._talk(channel)
