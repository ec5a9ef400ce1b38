"""Peal's regrouping, coarse step: assigns brokers to each group, before single subscribers are considered.

Each group gets a few brokers, first those that have most of it, as long as there is room. How much of it goes to each
follows from the sizes of the groups and the capacities alone, by scaling rows and columns in turn. So this is
arithmetic on groups × brokers, whatever the number of subscribers. Then subscribers at an assigned broker stay as far
as its share goes, and the others fill what is missing.
"""

from __future__ import annotations

import numpy as np

from tocsin.balancing.model.arrays import Flags, Floats, Longs, summed
from tocsin.balancing.model.load import Status
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.peal.groups import Groups

#: A broker suffices if it has at least this share of the room that its part of a group needs.
TIGHT = 0.8
#: Scalings of rows and columns; they stop changing long before.
SCALINGS = 60


def assigned(view: WhatIf, groups: Groups, spread: int) -> tuple[Longs, Longs]:
    """Subscribers and their targets, if every group is served by this many brokers, or more if it needs them."""
    open_ = view.status == Status.OPEN
    brokers = np.flatnonzero(open_)
    us = np.flatnonzero((groups.of_subscriber >= 0) & (view.at >= 0) & open_[view.at])
    if not len(brokers) or not len(us):
        return us[:0], us[:0]
    place = np.full(view.m, -1)
    place[brokers] = np.arange(len(brokers))
    cells = groups.of_subscriber[us] * len(brokers) + place[view.at[us]]
    load = summed(cells, view.u[us], groups.count * len(brokers)).reshape(-1, len(brokers))
    room = view.capacity[brokers] / view.capacity[brokers].sum() * load.sum()
    room = np.minimum(room, view.max_subscribers[brokers] * (load.sum() / len(us)))
    share = shares(load, room, chosen(load, room, spread))
    order = np.argsort(cells, kind="stable")
    targets = dealt(cells[order], view.u[us[order]], load, share)
    return us[order], brokers[targets]


def chosen(load: Floats, room: Floats, spread: int) -> Flags:
    """Group × broker: the assignment. The largest parts that can stay come first, the rest goes where there is room."""
    size = load.sum(axis=1)
    parts = np.maximum(spread, np.ceil(size / max(float(room.max()), 1e-300))).clip(1, load.shape[1]).astype(np.int64)
    part = size / parts
    left, assigned_ = room.copy(), np.zeros(load.shape, dtype=np.bool_)
    stays = np.minimum(load, part[:, None])
    for cell in np.argsort(-stays, axis=None, kind="stable").tolist():
        g, j = divmod(cell, load.shape[1])
        if stays[g, j] <= 0:
            break
        if parts[g] and left[j] >= TIGHT * part[g]:
            assigned_[g, j], left[j], parts[g] = True, left[j] - part[g], parts[g] - 1
    for g in np.argsort(-part, kind="stable").tolist():
        for _ in range(int(parts[g])):
            j = int(np.argmax(np.where(assigned_[g], -np.inf, left)))
            assigned_[g, j], left[j] = True, left[j] - part[g]
    return assigned_


def shares(load: Floats, room: Floats, assigned_: Flags) -> Floats:
    """How much of each group is at each broker: rows sum to the groups, columns as nearly as possible to the room."""
    size = load.sum(axis=1)
    count = np.maximum(assigned_.sum(axis=1), 1)
    found = np.where(assigned_, np.maximum(load, 0.1 * (size / count)[:, None]), 0.0)
    for _ in range(SCALINGS):
        columns = found.sum(axis=0)
        found = found * np.divide(room, columns, out=np.ones_like(room), where=columns > 0)
        rows = found.sum(axis=1)
        found = found * np.divide(size, rows, out=np.ones_like(size), where=rows > 0)[:, None]
    return found


def dealt(cells: Longs, weight: Floats, load: Floats, share: Floats) -> Longs:
    """The broker of each of these subscribers, which are sorted by their cells (group × broker)."""
    groups, m = load.shape
    stays = np.minimum(load, share)
    total = np.cumsum(weight)
    before = np.concatenate([[0.0], np.cumsum(load.ravel())])[cells]
    targets: Longs = cells % m
    going = np.flatnonzero(total - before - weight / 2 > stays.ravel()[cells])
    # Leaving subscribers and free places as two lines of length 1 for each group.
    of = cells[going] // m
    line = np.cumsum(weight[going])
    length = summed(of, weight[going], groups)
    along = of + (line - weight[going] / 2 - (np.cumsum(length) - length)[of]) / np.maximum(length, 1e-300)[of]
    free = share - stays
    free[:, 0] += np.where(free.sum(axis=1) <= 0, 1.0, 0.0)
    ends = np.cumsum(free / free.sum(axis=1, keepdims=True), axis=1) + np.arange(groups)[:, None]
    ends[:, -1] = np.arange(1, groups + 1)
    found = np.searchsorted(ends.ravel(), along, side="left")
    targets[going] = np.clip(found, of * m, of * m + m - 1) % m
    return targets
