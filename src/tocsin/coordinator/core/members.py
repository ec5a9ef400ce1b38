"""The registered brokers: what is known of each, and which of them are alive."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from tocsin.balancing.model.load import Status
from tocsin.config import CoordinatorConfig
from tocsin.coordinator.core.events import BrokerRow
from tocsin.coordinator.core.network_model import NetworkModel
from tocsin.errors import NotFound, Unauthorized
from tocsin.wire.reports import LoadReport, PeerAddress

#: The longest timeout of a broker, as a multiple of ``gone_after``.
LONGEST_TIMEOUT = 3.0
#: Other brokers that a broker gets to know.
MOST_ALTERNATIVES = 8
#: A report is missed after this many report intervals.
MISSED = 2.5
#: Seconds between two ticks, and above which the coordinator itself must have been suspended.
TICK, SUSPENDED = 1.0, 2.5
#: Seconds without a report after which other brokers serve the durable subscriptions of a broker's users. A restart is
#: faster, and the data cluster keeps a broker's subscriptions for longer.
ORPHANED = 60.0
#: The share of the coordinator's own lag that still counts a tick later.
LAG_DECAY = 0.8


class StartBudget(Struct):
    """A token bucket: limits how many migrations begin at one broker in a second."""

    tokens: float = 0.0
    refilled_at: float = 0.0

    def refill(self, now: float, per_second: float) -> None:
        """The bucket holds the tokens of one second, and at least one."""
        self.tokens = min(max(per_second, 1.0), self.tokens + (now - self.refilled_at) * per_second)
        self.refilled_at = now


class Member(Struct, eq=False):
    """A broker; alive from its first full report on.

    ``number`` is its index in the load. ``token`` is that of its last registration: reports with an older one are
    refused. ``reported_at`` is None until it reports to this process of the coordinator.
    """

    row: BrokerRow
    number: int
    restored: bool = False  # from the store
    reported_at: float | None = None
    gap: float = 0.0  # seconds between two reports, smoothed
    jitter: float = 0.0  # how much the gaps differ, smoothed
    alive: bool = False
    token: str = ""
    inside: str = ""  # its inner port, if it balances with other brokers
    knows: int = 0  # the version of the list of brokers that it has
    incarnation: str = ""  # of its process; a ticket is valid for one incarnation
    report: int = 0  # number of the last report
    interval: float = 0.0  # seconds until its next report, as the exchanger said; 0: the configured interval
    needs_full: bool = True  # the next report has to be full
    last: LoadReport | None = None
    placed: int = 0  # subscribers placed here since its last report
    superseded: dict[str, None] = field(default_factory=dict)  # subscribers whose connection here is outdated
    budget: StartBudget = field(default_factory=StartBudget)

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def state(self) -> str:
        if not self.alive:
            return "gone"
        return "draining" if self.row.draining else "up"

    @property
    def status(self) -> Status:
        if not self.alive:
            return Status.GONE
        return Status.DRAINING if self.row.draining else Status.OPEN

    @property
    def position(self) -> tuple[float, float] | None:
        lat, lon = self.row.lat, self.row.lon
        return (lat, lon) if lat is not None and lon is not None else None

    def reported(self, now: float, alive: bool) -> None:
        """Note the time of a report; the regularity is estimated as TCP does it (RFC 6298)."""
        if alive and self.reported_at is not None:
            gap = now - self.reported_at
            self.jitter += (abs(gap - self.gap) - self.jitter) / 4 if self.gap else gap / 2
            self.gap += (gap - self.gap) / 8 if self.gap else gap
        self.reported_at = now

    def timeout(self, gone_after: float, lag: float) -> float:
        """Seconds of silence after which it is dead: longer if its reports are irregular, within limits."""
        return min(LONGEST_TIMEOUT * gone_after, max(gone_after, self.gap + 4 * self.jitter + lag))

    def missed(self, now: float, interval: float, lag: float) -> bool:
        """A report is overdue: until the next one, or its eviction, nothing is placed there and nothing is planned."""
        if not self.alive or self.reported_at is None:
            return False
        return now - self.reported_at > max(MISSED * (self.interval or interval), self.gap + 4 * self.jitter + lag)


class Members(Mapping[str, Member]):
    """All registered brokers by name, and the failure detector."""

    def __init__(self, config: CoordinatorConfig, model: NetworkModel) -> None:
        self._config, self._model = config, model
        self._members: dict[str, Member] = {}
        self.version = 0  # of the list of brokers, for brokers that balance among themselves
        self.started: float | None = None
        self._ticked: float | None = None
        self._lag = 0.0  # seconds by which ticks come late, the worst of the last ones

    def __getitem__(self, name: str) -> Member:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def by_number(self, number: int) -> Member:
        return self._members[self._model.brokers.name(number)]

    def known(self, name: str) -> Member:
        member = self._members.get(name)
        if member is None:
            names = ", ".join(sorted(self._members)) or "none"
            raise NotFound("broker", name, hint=f"there are: {names}")
        return member

    def serving(self, now: float) -> list[str] | None:
        """The brokers that users' sessions belong to: those that are alive or were so lately. None while brokers of
        before the start may not have reported yet."""
        if self.started is None or now - self.started < ORPHANED:
            return None
        return [
            each.name
            for each in self._members.values()
            if each.alive or (each.reported_at is not None and now - each.reported_at < ORPHANED)
        ]

    def authenticated(self, name: str, token: str) -> Member:
        """The member whose current token this is: a broker reports only for itself."""
        member = self._members.get(name)
        if member is None or not member.token or not hmac.compare_digest(token.encode(), member.token.encode()):
            raise Unauthorized("register first", hint="POST /registerbroker")
        return member

    def alternatives(self, member: Member) -> dict[str, str]:
        """Other brokers that accept subscribers, with their addresses; for each broker those that follow its name."""
        names = sorted(self._members, key=lambda name: (name <= member.name, name))
        others = [self._members[name] for name in names if name != member.name]
        found = [each for each in others if each.status is Status.OPEN]
        return {each.name: each.row.url for each in found[:MOST_ALTERNATIVES]}

    def news_for(self, member: Member, *, full: bool) -> dict[str, PeerAddress]:
        """All other brokers that balance among themselves, if the list has changed since this one got it."""
        if member.knows == self.version and not full:
            return {}
        member.knows = self.version
        others = [each for each in self._members.values() if each.inside and each is not member]
        return {each.name: PeerAddress(each.row.url, each.inside) for each in others}

    def admit(self, row: BrokerRow) -> Member:
        member = self._members.get(row.name)
        if member is None:
            member = self._members[row.name] = Member(row, self._model.brokers.number(row.name))
        member.row = row
        self.publish(member)
        return member

    def publish(self, member: Member) -> None:
        """Bring the load model up to date."""
        row = member.row
        self._model.load.broker(member.number, row.capacity, row.max_subscribers, member.status)

    def forget(self, member: Member) -> None:
        del self._members[member.name]
        self._model.brokers.forget(member.name)

    # The failure detector.

    def tick(self, now: float) -> None:
        """After a suspension the silence of the others is not their fault: their reports wait to be read."""
        slept = 0.0 if self._ticked is None else now - self._ticked
        self._ticked = now
        self._lag = max(slept - TICK, self._lag * LAG_DECAY)
        if slept > SUSPENDED:
            for member in self._members.values():
                if member.reported_at is not None:
                    member.reported_at = min(now, member.reported_at + slept)

    def missed(self, member: Member, now: float) -> bool:
        return member.missed(now, self._config.interval, self._lag)

    def silent(self, now: float) -> list[tuple[Member, float]]:
        """Members that are dead, with the seconds since their last report."""
        found = []
        for member in self._members.values():
            if member.alive and member.reported_at is not None:
                silence = now - member.reported_at
                if silence > member.timeout(self._config.gone_after, self._lag):
                    found.append((member, silence))
        return found

    def complete(self, now: float) -> bool:
        """Whether all brokers have reported, or had the time to: an incomplete model leads to needless migrations."""
        assert self.started is not None
        early = now - self.started < self._config.gone_after
        if early and any(each.reported_at is None for each in self._members.values()):
            return False
        return not any((each.alive and each.needs_full) or self.missed(each, now) for each in self._members.values())
