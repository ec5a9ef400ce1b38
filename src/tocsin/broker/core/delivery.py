"""From the notification of an execution to the messages for subscribers."""

from __future__ import annotations

from tocsin.broker.core import events as ev
from tocsin.broker.core.be_subscriptions import BESubscriptions
from tocsin.broker.core.context import Context, Out
from tocsin.broker.core.events import Line
from tocsin.broker.core.instructions import Pull, Send
from tocsin.broker.core.model.be_subscription import Channel
from tocsin.broker.core.model.session import LIVE
from tocsin.broker.core.replay import Replay
from tocsin.wire.feed_name import channel_of

#: Deliveries that may wait to be booked; a message of more bytes than this is booked at once.
UNBOOKED = 256
UNBOOKED_BYTES = 4096


class Delivery:
    """Pulls each execution once, and delivers in the order of the executions of its channel."""

    def __init__(self, context: Context, be_subscriptions: BESubscriptions, replay: Replay) -> None:
        self.context = context
        self.be_subscriptions = be_subscriptions
        self.replay = replay

    def notified(self, event: ev.Notified, out: Out) -> None:
        channels = self.be_subscriptions.channels
        channel = channels.get(event.channel.lower())
        if channel is None:
            channel = self.be_subscriptions.channel(event.channel)
        if event.epoch != channel.epoch:
            current = self.be_subscriptions.current(channel, event.epoch, out)
            if current is None:
                return
            channel = current
        execution, lines = event.execution, event.lines
        if event.records is not None:
            lines = [] if channel.matcher is None else channel.matcher.lines(execution, event.records)
        if channel.name != event.channel:
            channel.spell(event.channel)  # as the data cluster does, not as the first subscriber
        if execution <= channel.notified:
            return  # a duplicate
        channel.notified = execution
        if lines is not None and not channel.queue:
            self._deliver(lines, out)
            channel.delivered = execution
        else:
            channel.queue.append((execution, lines))
            self._pull(channel, out)
        if not channel.be_subscriptions:
            self.be_subscriptions.remove_unused(channel)

    def publications(self, event: ev.Publications, out: Out) -> None:
        """Numbered here, in the order in which they come."""
        channel = self.be_subscriptions.channels.get(channel_of(event.feed).lower())
        if channel is not None and channel.matcher is not None:
            channel.notified = channel.delivered = execution = channel.delivered + 1
            self._deliver(channel.matcher.lines(execution, event.records), out)

    def _pull(self, channel: Channel, out: Out) -> None:
        while channel.queue and not channel.pulling:
            execution, lines = channel.queue[0]
            if lines is None:
                channel.pulling = True
                out.append(Pull(channel.name, channel.position(execution)))
            else:
                channel.queue.popleft()
                self._deliver(lines, out)
                channel.delivered = max(channel.delivered, execution)

    def pulled(self, event: ev.Pulled, out: Out) -> None:
        channel = self.be_subscriptions.channel(event.channel)
        epoch, execution = event.position
        if not channel.pulling or not channel.queue or channel.queue[0][0] != execution:
            return
        if epoch and epoch != channel.epoch:
            return
        self._deliver(event.lines, out)
        if event.last:
            channel.queue.popleft()
            channel.pulling = False
            channel.delivered = max(channel.delivered, execution)
            self._pull(channel, out)
            self.be_subscriptions.remove_unused(channel)

    def _deliver(self, lines: list[Line], out: Out) -> None:
        """Runs for every BE subscription of every execution: what is touched here is cold, and costs."""
        ledger = self.context.ledger
        by_id, entries, now = self.be_subscriptions.by_id, ledger.entries, self.context.now
        for line in lines:
            id, execution, results = line.subscription, line.execution, line.results
            subscription = by_id.get(id)
            if subscription is None or execution <= subscription.live_after or execution <= subscription.last_delivered:
                ledger.ignored(results)
                continue
            subscription.last_delivered = execution
            peers = subscription.audience or subscription.targets()
            if line.gap:
                message = subscription.message(line)
                ledger.counters.gaps += len(peers)
                entries = ledger.entries
            else:
                message = subscription.channel.template % (id, execution, line.rows, results)
            entries.append((subscription, execution, message, results, len(peers), now))
            if peers:
                out.append(Send(peers, (message,)))
            if len(entries) >= UNBOOKED or len(message) > UNBOOKED_BYTES:
                ledger.book()
                entries = ledger.entries

    def missed(self, event: ev.Missed, out: Out) -> None:
        """Live subscribers of these channels are replayed what they may have missed."""
        before: dict[int, int] = {}
        for name, (epoch, execution) in event.positions.items():
            channel = self.be_subscriptions.channels.get(name.lower())
            if channel is None or (epoch and epoch != channel.epoch):
                continue
            channel.missed = max(channel.missed, execution)
            if execution <= channel.delivered:
                continue
            for subscription in channel.be_subscriptions.values():
                if subscription.delivered < execution:
                    before[subscription.id] = subscription.delivered
                    self.context.ledger.cache.forget(subscription.recent)
                    subscription.live_after = subscription.recent.complete_after = execution
            channel.notified = max(channel.notified, execution)
        self._replay(before, out)

    def recover(self, event: ev.Notified | ev.Pulled, out: Out) -> None:
        """The handler of the event failed, and its messages are dropped: live subscribers are replayed."""
        channel = self.be_subscriptions.channels.get(event.channel.lower())
        if channel is None:
            return
        execution = event.execution if isinstance(event, ev.Notified) else event.position.execution
        channel.delivered = min(channel.delivered, execution - 1)
        channel.notified = max(channel.notified, execution)
        channel.queue.clear()
        channel.pulling = False
        before: dict[int, int] = {}
        for subscription in channel.be_subscriptions.values():
            before[subscription.id] = max(subscription.live_after, channel.delivered)
            subscription.live_after = max(subscription.live_after, channel.notified)
            self.context.ledger.cache.forget(subscription.recent)
            subscription.recent.complete_after = subscription.delivered
        self._replay(before, out)

    def _replay(self, before: dict[int, int], out: Out) -> None:
        """Live subscribers of these BE subscriptions resume after the given executions."""
        for session in self.context.sessions.values() if before else ():
            for id in [id for id, execution in session.subscriptions.items() if execution == LIVE and id in before]:
                subscription = self.be_subscriptions.by_id[id]
                self.replay.stop_live(subscription, session)
                self.replay.resume(subscription, session, before[id], out)
