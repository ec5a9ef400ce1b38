"""Hypothesis rules for what an application does with a client's state machine."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from client_harness import ClientHarness
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tocsin.client.core import events as ev
from tocsin.wire.position import Position


class ApplicationRules(RuleBasedStateMachine):
    """``log``: the results of each execution, from 1 on. ``values``: the argument of each subscription."""

    def __init__(self, harness: ClientHarness) -> None:
        super().__init__()
        self.harness = harness
        self.log: list[set[int]] = [set() for _ in range(10)]
        self.begins: dict[int, int] = {}
        self.values: dict[int, int] = {}
        self.taken: dict[int, int] = defaultdict(int)
        self.handles = 0

    def step(self, event: ev.Event) -> None:
        raise NotImplementedError

    @rule(x=st.integers(0, 2), named=st.booleans(), back=st.none() | st.integers(0, 8), most=st.integers(1, 4))
    def subscribe(self, x: int, named: bool, back: int | None, most: int) -> None:
        self.handles += 1
        self.values[self.handles] = x
        after = None if back is None else Position(0, len(self.log) - back)
        if after is not None:
            self.begins[self.handles] = after.execution
        args: Any = {"x": x} if named else [x]
        self.step(ev.SubscribeRequested(self.handles, "C", args, after, max_pending=most))

    @rule(data=st.data(), drain=st.booleans())
    @precondition(lambda self: self.handles)
    def unsubscribe(self, data: Any, drain: bool) -> None:
        self.step(ev.UnsubscribeRequested(data.draw(st.integers(1, self.handles)), drain))

    def consume_one(self, handle: int) -> None:
        if self.taken[handle] < len(self.harness.got(handle)):
            self.step(ev.Consumed(handle, Position(0, self.harness.got(handle)[self.taken[handle]])))
            self.taken[handle] += 1
