"""The workload of the DEBS paper's prototype (section 6.1.2 and the slides): an emergency application in a city.

What the paper gives: 5 brokers; 400 subscribers who walk and log in within 4 minutes; 7 channels with these parameters
and periods; 1 to 5 channels each and 1 to 3 subscriptions in each, made in the next 4 minutes; about 2,200 FE and 600
BE subscriptions; about 10,000 reports of 8 types and 200 to 700 bytes in 30 minutes from 8 moving publishers; 200
shelters; a scenario file with logins, logouts, subscriptions and unsubscriptions. Results of a channel are found here
by the same conditions as its query has.

What it leaves open, and what we take: near means within 2 km; there are 16 locations, the fields of a grid over the
city; a shelter adds 110 bytes, and a report names the 3 nearest; channels about oneself are taken 0.15 times as often
as the others, which makes 600 BE; people's places crowd around five hot spots, one for each broker, very unevenly; a
publisher rides at 90 km/h from one place to the next, every second of them where people are; after minute 8 a tenth of
the people log out and a tenth of the subscriptions end, at times that are equally likely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tocsin.balancing.model.arrays import Floats, Longs
from tocsin.demo.city.interests import ONESELF
from tocsin.simulation.flow.workload import Execution, Workload

SECONDS = 1_800
KINDS, ANY = 8, 8
PUBLISHERS, RAPIDLY = 8, 25.0
#: The share of people who log out, and of subscriptions that end, after all are made.
LEAVE = 0.1
FIELDS = 4  # of the grid, in each direction
SHELTER = 3 * 110
NEAR = 2_000.0
SOUTH, WEST, NORTH, EAST = 60.150, 24.860, 60.220, 25.050
METRES = np.array([111_195.0, 111_195.0 * np.cos(np.radians(60.185))])
#: Where the brokers are, in shares of the city from its south-west corner, and how many people are around each.
SITES = np.array([[0.35, 0.40], [0.70, 0.45], [0.30, 0.75], [0.75, 0.80], [0.65, 0.12]])
CROWDS = np.array([0.46, 0.24, 0.15, 0.10, 0.05])


@dataclass(frozen=True)
class Channel:
    """``about``: what a subscription names beside the kind: nothing, a location, or the subscriber itself."""

    name: str
    period: float
    about: str
    kind: bool = True
    shelter: bool = False


CHANNELS = (
    Channel("Emergency of Type", 10.0, ""),
    Channel("Emergency at Location", 20.0, "location", kind=False),
    Channel("Emergency Near Me", 10.0, "user"),
    Channel("Emergency of Type Near Me", 10.0, "user"),
    Channel("Emergency of Type at Location", 30.0, "location"),
    Channel("Emergency of Type with Shelter Near Me", 10.0, "user", shelter=True),
    Channel("Emergency of Type at Location with Shelter", 30.0, "location", shelter=True),
)
#: How common each kind of emergency is.
COMMON = 1.0 / np.arange(1, KINDS + 1) ** 1.0
#: How likely a channel is chosen; those about the subscriber itself are chosen less often.
TAKEN = np.array([ONESELF if channel.about == "user" else 1.0 for channel in CHANNELS])


def prototype(seed: int = 1, people: int = 400, reports: int = 10_000, seconds: int = SECONDS) -> Workload:
    rng = np.random.default_rng([610, seed])
    spots = np.array([SOUTH, WEST]) + SITES * (NORTH - SOUTH, EAST - WEST)
    homes = rng.choice(len(SITES), people, p=CROWDS)
    walks = wander(rng, spots, homes, seconds)
    interests = interests_of(rng, people)
    login = rng.uniform(0.0, seconds * 240 / SECONDS, people)
    different = dict.fromkeys(interest for each in interests for interest in each)
    subscriptions = {interest: number for number, interest in enumerate(different)}
    size = np.array([len(each) for each in interests])
    made = [np.sort(rng.uniform(seconds * 240 / SECONDS, seconds * 480 / SECONDS, len(each))) for each in interests]
    found = executions(rng, walks, list(subscriptions), reports, seconds)
    return Workload(
        float(seconds),
        np.ones(len(SITES)),
        spots,
        walks[np.minimum(login.astype(int), seconds), np.arange(people)],
        login,
        size,
        np.array([subscriptions[interest] for each in interests for interest in each], dtype=np.int32),
        np.concatenate(made),
        found,
        len(subscriptions),
        "D-proto",
        ended=leaving(rng, int(size.sum()), seconds),
        logout=leaving(rng, people, seconds),
    )


def leaving(rng: Generator, count: int, seconds: int) -> Floats:
    """When each of these ends, some after all subscriptions are made, most never."""
    some = rng.random(count) < LEAVE
    return np.where(some, rng.uniform(seconds * 481 / SECONDS, seconds, count), np.inf)


def wander(rng: Generator, spots: Floats, homes: Longs, seconds: int) -> Floats:
    """Second × person × (latitude, longitude): from place to place around one's hot spot, on foot or riding."""
    speed = rng.choice((1.4, 1.4, 5.0, 12.0), len(homes))
    return travelled(lambda: spots[homes] + rng.normal(0.0, 600.0, (len(homes), 2)) / METRES, speed, seconds)


def traverse(rng: Generator, seconds: int) -> Floats:
    """The same for the publishers. They stay on the streets, half of which are where the people are."""
    corner, extent = np.array([SOUTH, WEST]), np.array([NORTH - SOUTH, EAST - WEST])

    def goals() -> Floats:
        crowded = corner + SITES[rng.choice(len(SITES), PUBLISHERS, p=CROWDS)] * extent
        crowded += rng.normal(0.0, 800.0, (PUBLISHERS, 2)) / METRES
        anywhere = corner + rng.random((PUBLISHERS, 2)) * extent
        return np.asarray(np.where(rng.random(PUBLISHERS)[:, None] < 0.5, crowded, anywhere), dtype=np.float64)

    return travelled(goals, np.full(PUBLISHERS, RAPIDLY), seconds)


def travelled(draw: Callable[[], Floats], speed: Floats, seconds: int) -> Floats:
    """Straight from goal to goal, inside the city. ``draw`` draws the next goal of each."""
    low, high = np.array([SOUTH, WEST]), np.array([NORTH, EAST])

    def goals() -> Floats:
        return np.asarray(np.clip(draw(), low, high), dtype=np.float64)

    at, goal = goals(), goals()
    out = np.empty((seconds + 1, len(speed), 2))
    for second in range(seconds + 1):
        out[second] = at
        way = (goal - at) * METRES
        distance = np.hypot(way[:, 0], way[:, 1])
        there = distance <= speed
        at = np.where(there[:, None], goal, at + way / METRES * (speed / np.maximum(distance, 1e-9))[:, None])
        goal = np.where(there[:, None], goals(), goal)
    return out


Interest = tuple[int, int, int, int]  # channel, kind (-1: none), location (-1: none), person (-1: none)


def interests_of(rng: Generator, people: int) -> list[list[Interest]]:
    """What each person subscribes to: one to five channels, one to three times each, none twice."""
    found = []
    for person in range(people):
        channels = rng.choice(len(CHANNELS), rng.integers(1, 6), replace=False, p=TAKEN / TAKEN.sum())
        mine = []
        for c in channels.tolist():
            channel = CHANNELS[c]
            for _ in range(int(rng.integers(1, 4))):
                kind = int(rng.integers(KINDS)) if channel.kind else -1
                if channel.name == "Emergency Near Me" and rng.random() < 0.5:
                    kind = ANY
                location = int(rng.integers(FIELDS * FIELDS)) if channel.about == "location" else -1
                mine.append((c, kind, location, person if channel.about == "user" else -1))
        found.append([mine[i] for i in rng.permutation(len(mine))])
    return [list(dict.fromkeys(each)) for each in found]


def executions(
    rng: Generator, walks: Floats, subscriptions: list[Interest], reports: int, seconds: int
) -> list[Execution]:
    """Every run of every channel: the reports since its last run that a subscription asks for, in bytes."""
    time = np.sort(rng.uniform(0.0, seconds, reports))
    kind = rng.choice(KINDS, reports, p=COMMON / COMMON.sum())
    volume = rng.integers(200, 701, reports)
    corner, extent = np.array([SOUTH, WEST]), np.array([NORTH - SOUTH, EAST - WEST])
    place = traverse(rng, seconds)[time.astype(int), rng.integers(PUBLISHERS, size=reports)]
    place = np.clip(place, corner, corner + extent * 0.999)
    field = np.minimum(((place - corner) / extent * FIELDS).astype(int), FIELDS - 1) @ (FIELDS, 1)
    keys = np.array(subscriptions)
    found = []
    for c, channel in enumerate(CHANNELS):
        ks = np.flatnonzero(keys[:, 0] == c)
        if not len(ks):
            continue
        what = keys[ks]
        before = 0.0
        for at in np.arange(rng.uniform(0.0, channel.period), seconds, channel.period).tolist():
            some = slice(*np.searchsorted(time, (before, at), side="right"))
            each = volume[some] + (SHELTER if channel.shelter else 0)
            sizes = asked(channel, what, kind[some], field[some], each, place[some], walks[int(at)])
            found.append(Execution(at, ks, sizes))
            before = at
    return sorted(found, key=lambda execution: execution.time)


def asked(
    channel: Channel, what: Longs, kind: Longs, field: Longs, volume: Longs, place: Floats, people: Floats
) -> Longs:
    """The bytes of the reports that each subscription asks for."""
    fits = np.ones((len(what), len(kind)), dtype=bool)
    if channel.kind:
        fits &= (what[:, 1:2] == kind) | (what[:, 1:2] == ANY)
    if channel.about == "location":
        fits &= what[:, 2:3] == field
    if channel.about == "user":
        way = (people[what[:, 3], None, :] - place) * METRES
        fits &= np.hypot(way[..., 0], way[..., 1]) <= NEAR
    return np.asarray(fits @ volume, dtype=np.int64)
