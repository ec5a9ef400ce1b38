"""From being told of an execution to the frames that go out."""

from __future__ import annotations

from tocsin.broker.core import events as ev
from tocsin.broker.core.be_subscription import Channel
from tocsin.broker.core.channel_lifecycle import Endings
from tocsin.broker.core.events import Line
from tocsin.broker.core.instructions import Pull, Send
from tocsin.wire.frames import frame

#: Notifications that may be delivered and not booked; one of more bytes than this is booked at once.
UNBOOKED = 256
UNBOOKED_BYTES = 4096


class Executions(Endings):
    """Each execution is pulled once, and delivered in the order of the numbers of its channel."""

    def _told(self, event: ev.Told) -> None:
        channel = self.channels.get(event.channel.lower())
        if channel is None:
            channel = self._channel(event.channel)
        if event.epoch != channel.epoch:
            present = self._present(channel, event.epoch)
            if present is None:
                return
            channel = present
        execution, lines = event.execution, event.lines
        if channel.name != event.channel:
            channel.spell(event.channel)  # as the data cluster does, not as the first who asked
        if execution <= channel.newest:
            return  # told again
        channel.newest = execution
        if lines is not None and not channel.told:
            self._deliver(lines)
            channel.position = execution
        else:
            channel.told.append((execution, lines))
            self._pull(channel)
        if not channel.backs:
            self._tidy(channel)

    def _pull(self, channel: Channel) -> None:
        while channel.told and not channel.pulling:
            execution, lines = channel.told[0]
            if lines is None:
                channel.pulling = True
                self._out.append(Pull(channel.name, execution, channel.epoch))
            else:
                channel.told.popleft()
                self._deliver(lines)
                channel.position = max(channel.position, execution)

    def _pulled(self, event: ev.Pulled) -> None:
        channel = self._channel(event.channel)
        if not channel.pulling or not channel.told or channel.told[0][0] != event.execution:
            return
        if event.epoch and event.epoch != channel.epoch:
            return
        self._deliver(event.lines)
        if event.last:
            channel.told.popleft()
            channel.pulling = False
            channel.position = max(channel.position, event.execution)
            self._pull(channel)
            self._tidy(channel)

    def _deliver(self, lines: list[Line]) -> None:
        """Runs for every subscription of every execution: what is touched here is cold, and costs."""
        backs, ledger, now = self.backs, self._ledger, self._now
        for line in lines:
            number, execution, results = line.subscription, line.execution, line.results
            back = backs.get(number)
            if back is None or execution <= back.start or execution <= back.last:
                self._counters.bytes_in += len(memoryview(results))
                continue
            back.last = execution
            data = frame(back.channel.template % (number, execution, line.rows, results))
            peers = back.audience or back.targets()
            ledger.append((back, execution, data, results, len(peers), now))
            if peers:
                self._out.append(Send(peers, data))
            if len(ledger) >= UNBOOKED or len(data) > UNBOOKED_BYTES:
                self._enter()
                ledger = self._ledger
