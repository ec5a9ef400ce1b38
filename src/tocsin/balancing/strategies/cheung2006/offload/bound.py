"""How many subscribers of a subscription may go at most.

The thesis bounds them by the overload of "the offloading broker", and says of its experiment that no acceptor was ever
overloaded because of this bound. So it is the acceptor's: one less than would bring it to the lower threshold.
"""

from __future__ import annotations

from tocsin.balancing.strategies.cheung2006.offload.pair import Pair


def most(pair: Pair, number: int) -> int:
    """0 if the acceptor cannot take a single one."""
    return bounded(pair, pair.candidates[number], pair.extra(number), pair.output(number))


def bounded(pair: Pair, subscribers: int, extra: float, output: float) -> int:
    if fits(pair, subscribers, extra, output):
        return subscribers
    low, high = 0, subscribers  # low fits, high does not: each ratio grows with the number
    while high - low > 1:
        middle = (low + high) // 2
        if fits(pair, middle, extra, output):
            low = middle
        else:
            high = middle
    return low


def fits(pair: Pair, count: int, extra: float, output: float) -> bool:
    """Input, output, processor and memory of the acceptor stay below the lower overload threshold."""
    theirs, limit = pair.theirs, pair.parameters.lower_overload
    return (
        theirs.input_after(count, extra) < limit
        and theirs.output_after(output * count) < limit
        and theirs.cpu_after(count, extra) < limit
        and theirs.memory_after(count, extra, output * count) < limit
    )
