"""Peal's second gear, coarsely: at which brokers each group is served, before anybody is asked.

Each group gets a few hosts, first of all the brokers that have most of it, as long as there is room. How much of it is
where follows from the sizes of the groups and the capacities alone, by scaling rows and columns in turn. So this is
arithmetic on groups × brokers, whatever the number of people. Then everybody whose broker is a host of its group stays
as far as its share goes, and the others fill what is missing.
"""

from __future__ import annotations

import numpy as np

from tocsin.balancing.model.arrays import Flags, Floats, Longs, summed
from tocsin.balancing.model.load import Status
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.peal.groups import Groups

#: A host with at least this share of the room that a part of a group needs will do.
TIGHT = 0.8
#: Scalings of rows and columns; they stop changing long before.
SCALINGS = 60


def hosted(view: WhatIf, groups: Groups, hosts: int) -> tuple[Longs, Longs]:
    """Who moves where, if every group is served by this many brokers, or as many more as it needs."""
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
    room = np.minimum(room, view.most[brokers] * (load.sum() / len(us)))
    wanted = shares(load, room, chosen(load, room, hosts))
    order = np.argsort(cells, kind="stable")
    targets = dealt(cells[order], view.u[us[order]], load, wanted)
    return us[order], brokers[targets]


def chosen(load: Floats, room: Floats, hosts: int) -> Flags:
    """Group × broker: the hosts. The largest parts that can stay where they are come first, the rest where room is."""
    size = load.sum(axis=1)
    parts = np.maximum(hosts, np.ceil(size / max(float(room.max()), 1e-300))).clip(1, load.shape[1]).astype(np.int64)
    part = size / parts
    left, is_host = room.copy(), np.zeros(load.shape, dtype=np.bool_)
    stays = np.minimum(load, part[:, None])
    for cell in np.argsort(-stays, axis=None, kind="stable").tolist():
        g, j = divmod(cell, load.shape[1])
        if stays[g, j] <= 0:
            break
        if parts[g] and left[j] >= TIGHT * part[g]:
            is_host[g, j], left[j], parts[g] = True, left[j] - part[g], parts[g] - 1
    for g in np.argsort(-part, kind="stable").tolist():
        for _ in range(int(parts[g])):
            j = int(np.argmax(np.where(is_host[g], -np.inf, left)))
            is_host[g, j], left[j] = True, left[j] - part[g]
    return is_host


def shares(load: Floats, room: Floats, is_host: Flags) -> Floats:
    """How much of each group is where: rows sum up to the groups, columns as nearly as can be to the room."""
    size = load.sum(axis=1)
    count = np.maximum(is_host.sum(axis=1), 1)
    found = np.where(is_host, np.maximum(load, 0.1 * (size / count)[:, None]), 0.0)
    for _ in range(SCALINGS):
        columns = found.sum(axis=0)
        found = found * np.divide(room, columns, out=np.ones_like(room), where=columns > 0)
        rows = found.sum(axis=1)
        found = found * np.divide(size, rows, out=np.ones_like(size), where=rows > 0)[:, None]
    return found


def dealt(cells: Longs, weight: Floats, load: Floats, wanted: Floats) -> Longs:
    """The broker of each of these people, who are in the order of their cells (group × broker)."""
    groups, m = load.shape
    stays = np.minimum(load, wanted)
    total = np.cumsum(weight)
    before = np.concatenate([[0.0], np.cumsum(load.ravel())])[cells]
    targets: Longs = cells % m
    going = np.flatnonzero(total - before - weight / 2 > stays.ravel()[cells])
    # The lines of those who go and of the places that are free, group by group, each as long as 1.
    of = cells[going] // m
    line = np.cumsum(weight[going])
    length = summed(of, weight[going], groups)
    along = of + (line - weight[going] / 2 - (np.cumsum(length) - length)[of]) / np.maximum(length, 1e-300)[of]
    free = wanted - stays
    free[:, 0] += np.where(free.sum(axis=1) <= 0, 1.0, 0.0)
    ends = np.cumsum(free / free.sum(axis=1, keepdims=True), axis=1) + np.arange(groups)[:, None]
    ends[:, -1] = np.arange(1, groups + 1)
    found = np.searchsorted(ends.ravel(), along, side="left")
    targets[going] = np.clip(found, of * m, of * m + m - 1) % m
    return targets
