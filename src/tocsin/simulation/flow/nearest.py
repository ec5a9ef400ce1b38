"""The nearest broker of many at once: what ``tocsin.balancing.placement.Nearest`` answers for one."""

from __future__ import annotations

import numpy as np

from tocsin.balancing.model.arrays import Floats, Ints

#: People × brokers looked at together.
CHUNK = 1 << 20


def nearest(people: Floats, brokers: Floats) -> Ints:
    """Of equally near ones the first; the half-way formula needs no arcs to compare."""
    out = np.empty(len(people), dtype=np.int32)
    lat, lon = np.radians(brokers[:, 0]), np.radians(brokers[:, 1])
    step = max(1, CHUNK // max(1, len(brokers)))
    for begin in range(0, len(people), step):
        here = np.radians(people[begin : begin + step])
        up = np.sin((here[:, :1] - lat) / 2) ** 2
        across = np.cos(here[:, :1]) * np.cos(lat) * np.sin((here[:, 1:] - lon) / 2) ** 2
        out[begin : begin + step] = np.argmin(up + across, axis=1)
    return out
