"""A broker's load and what it can carry, and both after a change: equations 3.1 to 3.3 and 4.7 to 4.16."""

from __future__ import annotations

import msgspec


class Change(msgspec.Struct, frozen=True):
    """More subscriptions, publications a second that come in, and bytes a second that go out; or fewer."""

    subscriptions: int = 0
    input_rate: float = 0.0
    output: float = 0.0


class Resources(msgspec.Struct, frozen=True):
    """Bandwidths in bytes a second, memory in bytes. ``matching_slope``: seconds of matching for each subscription.

    Apart from ``engine_slope``, bytes of matching engine for each subscription, these are ten of the eleven fields
    of a reply (section 3.4.1); the covering subscription set is the eleventh.
    """

    cpu_ratio: float
    input_bandwidth: float
    input_queue_memory: float
    input_rate: float
    matching_slope: float
    total_memory: float
    total_output: float
    subscriptions: int
    output_used: float
    output_queue_memory: float
    engine_slope: float = 0.0

    @property
    def matching_delay(self) -> float:
        return self.matching_slope * self.subscriptions

    @property
    def input_ratio(self) -> float:
        """Equations 3.1 and 3.2."""
        return self.input_rate * self.matching_delay

    @property
    def output_ratio(self) -> float:
        return self.output_used / self.total_output

    @property
    def memory_ratio(self) -> float:
        used = self.input_queue_memory + self.output_queue_memory + self.engine_slope * self.subscriptions
        return used / self.total_memory

    # Single ratios after a change, without a copy: offload algorithms ask for thousands of them.

    def delay_after(self, subscriptions: int) -> float:
        """Equation 4.7."""
        return self.matching_slope * max(0, self.subscriptions + subscriptions)

    def input_after(self, subscriptions: int, input_rate: float) -> float:
        """Equation 4.8."""
        return max(0.0, self.input_rate + input_rate) * self.delay_after(subscriptions)

    def cpu_after(self, subscriptions: int, input_rate: float) -> float:
        """Equation 4.8 too. The processor of a broker with a backlog is busier than its input explains; it changes in
        proportion."""
        before, after = self.input_ratio, self.input_after(subscriptions, input_rate)
        return self.cpu_ratio * after / before if before > 0 else max(self.cpu_ratio, after)

    def output_after(self, output: float) -> float:
        """Equations 4.9 and 4.10."""
        return max(0.0, self.output_used + output) / self.total_output

    def memory_after(self, subscriptions: int, input_rate: float, output: float) -> float:
        """Equations 4.11 to 4.16."""
        return self.after(Change(subscriptions, input_rate, output)).memory_ratio

    def after(self, change: Change) -> Resources:
        """What the same broker would have; nothing falls below 0."""
        n = self.subscriptions
        subscriptions = max(0, n + change.subscriptions)
        rate = max(0.0, self.input_rate + change.input_rate)
        output = max(0.0, self.output_used + change.output)
        faster = rate / self.input_rate if self.input_rate > 0 else 1.0
        larger = subscriptions / n if n else 1.0
        cpu = self.cpu_after(change.subscriptions, change.input_rate)
        return msgspec.structs.replace(
            self,
            cpu_ratio=cpu,
            input_bandwidth=self.input_bandwidth * faster,
            input_queue_memory=self.input_queue_memory * faster * larger,
            input_rate=rate,
            subscriptions=subscriptions,
            output_used=output,
            output_queue_memory=self.output_queue_memory * (output / self.output_used if self.output_used > 0 else 1.0),
        )
