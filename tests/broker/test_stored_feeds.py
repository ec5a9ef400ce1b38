"""Content subscriptions to stored feeds on real processes: by SDK, REST, SSE and the command line, and kill -9."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from broker_lab import Broker
from rest_user import RestUser, events

from served import environment
from tocsin.client import Client, Notification, connect
from tocsin.cluster.model import Post
from tocsin.errors import LimitExceeded, NotFound, ParseError, TocsinError, TypeMismatch

HERE = Path(__file__).parent
FEED = "LocationFeed"
_keys = count(1)


@pytest.fixture
def publish(cluster: Any) -> Any:
    """Publishes to the shared data cluster; each user is new, so that tests do not meet."""

    def send(user: str, *values: float) -> None:
        rows = [{"user": user, "lat": value, "lon": 0.0} for value in values]
        for row in rows:
            cluster.publish(Post(FEED, msgspec.json.encode(row))).result(60)

    return send


@pytest.fixture
def who() -> str:
    return f"who{next(_keys)}"


def values(*items: Notification) -> list[float]:
    return [row["lat"] for item in items for row in item.results]


async def take(subscription: Any, number: int) -> list[Notification]:
    return [await subscription.get(60) for _ in range(number)]


def test_a_publication_reaches_the_subscribers_whose_condition_it_meets(served_broker, publish, who):
    async def main() -> None:
        async with (
            connect(served_broker.url) as client,
            client.subscribe_feed(FEED, f"user = '{who}' AND lat >= 3") as high,
            client.subscribe_feed(FEED, f"[user,eq,'{who}'],[lat,<,3]") as low,
        ):
            await asyncio.to_thread(publish, who, 1, 3, 2, 4)
            assert values(*await take(high, 2)) == [3, 4]
            assert values(*await take(low, 2)) == [1, 2]
            assert high.warnings == ()

    asyncio.run(main())


def test_a_publisher_and_a_subscriber_share_a_connection(served_broker, who):
    async def main() -> None:
        async with connect(served_broker.url) as client, client.subscribe_feed(FEED, f"user = '{who}'") as mine:
            await client.publish(FEED, [{"user": who, "lat": 1, "lon": 2}, {"user": "another", "lat": 1}])
            (found,) = await take(mine, 1)
            assert found.results == [{"user": who, "lat": 1.0, "lon": 2.0}]

    asyncio.run(main())


def test_a_subscriber_resumes_after_what_it_has(served_broker, publish, who):
    async def main() -> None:
        where = f"user = '{who}'"
        async with connect(served_broker.url) as client:
            async with client.subscribe_feed(FEED, where) as first:
                await asyncio.to_thread(publish, who, 1, 2)
                seen, _ = await take(first, 2)
                id = first.id
            await asyncio.to_thread(publish, who, 3)
            async with client.subscribe_feed(FEED, where, after=seen.position, subscription=id) as again:
                assert values(*await take(again, 2)) == [2, 3]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("feed", "where", "error", "message"),
    [
        (FEED, "height > 3", ParseError, r"there is no attribute 'height' \(line 1, column 1\)"),
        (FEED, "lat > 1 AND\nuser > 3", TypeMismatch, r"user is of type string.*\(line 2, column 8\)"),
        (FEED, "lat >", ParseError, "condition"),
        (FEED, " OR ".join(["lat = 1"] * 10_000), LimitExceeded, "at most 4096 are allowed"),
        ("Nothing", "TRUE", NotFound, "there is no feed 'Nothing'"),
    ],
)
def test_a_wrong_condition_is_refused_with_its_place(served_broker, feed, where, error, message):
    async def main() -> None:
        async with connect(served_broker.url) as client:
            with pytest.raises(error, match=message):
                async with client.subscribe_feed(feed, where):
                    raise AssertionError

    asyncio.run(main())


def test_a_condition_that_is_never_true_is_a_warning(served_broker):
    async def main() -> None:
        async with connect(served_broker.url) as client, client.subscribe_feed(FEED, "lat > 3 AND lat < 2") as never:
            assert never.warnings == ("this condition is never true: no publication can match it",)
            with pytest.raises(TocsinError, match="a condition is a text"):
                client.subscribe_feed(FEED, 7)  # type: ignore[arg-type]

    asyncio.run(main())


# -- REST and SSE


def test_a_user_subscribes_durably_over_rest_and_polls(served_broker, publish, who):
    user = RestUser(served_broker.url)
    answer = user.post("/subscribe", feed=FEED, where=f"user = '{who}' AND lat > 1")
    assert answer.status_code == 201 and answer.json()["channel"] == f"feed:{FEED}"
    subscription = answer.json()["subscription"]
    publish(who, 1, 2, 3)
    found: list[dict[str, Any]] = []
    after = answer.json()["after"]
    while len(found) < 2:
        polled = user.results(subscription, after=after, wait=20)
        found += polled["results"]
        after = polled["after"]
    assert [row["lat"] for result in found for row in result["results"]] == [2, 3]
    assert user.http.get("/listsubscriptions").json()["subscriptions"][0]["channel"] == f"feed:{FEED}"
    never = user.post("/subscribe", feed=FEED, where="lat > 3 AND lat < 2").json()
    assert never["warnings"] == ["this condition is never true: no publication can match it"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"feed": FEED, "where": "height > 3"}, "syntax"),
        ({"feed": FEED, "where": "user > 3"}, "type_mismatch"),
        ({"feed": "Nothing"}, "not_found"),
        ({"feed": FEED, "channel": "OfKind"}, "malformed"),
        ({"channel": "OfKind", "where": "TRUE"}, "malformed"),
        ({"feed": FEED, "args": ["TRUE"]}, "malformed"),
        ({}, "malformed"),
    ],
)
def test_a_wrong_subscription_over_rest_is_refused(rest_user, body, code):
    answer = rest_user.post("/subscribe", **body)
    assert 400 <= answer.status_code < 500
    assert answer.json()["error"]["code"] == code


@pytest.fixture(scope="module")
def rest_user(served_broker: Broker) -> RestUser:
    return RestUser(served_broker.url)


def test_server_sent_events_of_a_condition_resume(served_broker, publish, who):
    query = {"feed": FEED, "where": f"user = '{who}'"}
    with httpx.Client(base_url=served_broker.url, timeout=60, trust_env=False) as http:
        with http.stream("GET", "/events", params=query) as stream:
            publish(who, 1)
            mark, kind, data = next(events(stream))
            assert (kind, data["results"][0]["lat"]) == ("notify", 1.0)
        publish(who, 2)
        with http.stream("GET", "/events", params=query, headers={"last-event-id": mark}) as stream:
            missed = next(data for _, kind, data in events(stream) if kind == "notify")
            assert missed["results"][0]["lat"] == 2.0
        assert http.get("/events").status_code == 400


# -- the command line


def test_the_command_line_prints_what_meets_the_condition(served_broker, cluster, publish, who):
    command = [sys.executable, "-m", "tocsin.cli", "sub", "--feed", FEED, "--where", f"user = '{who}' AND lat > 1"]
    options = ["--broker", served_broker.url, "--count", "1"]
    with subprocess.Popen(
        [*command, *options], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as sub:
        assert sub.stderr is not None and sub.stdout is not None
        assert b"subscribed to feed:LocationFeed" in sub.stderr.readline()
        publish(who, 1, 5)
        channel, _, text = sub.stdout.read().decode().strip().split(" ", 2)
        assert channel == f"feed:{FEED}" and who in text and "5.0" in text
    assert sub.returncode == 0


@pytest.mark.parametrize(
    "arguments", [["--feed", FEED, "Channel"], ["--where", "TRUE", "Channel"], ["--where", "TRUE"], []]
)
def test_the_command_line_takes_a_channel_or_a_feed(arguments):
    command = [sys.executable, "-m", "tocsin.cli", "sub", *arguments]
    assert subprocess.run(command, env=environment(), capture_output=True, check=False).returncode == 2


# -- kill -9


class ClusterProcess:
    """A data cluster that can be killed and started again on its port."""

    def __init__(self, home: Path) -> None:
        self.home, self.port = home, 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, str(HERE.parent / "sparkless.py"), str(self.home), str(self.port)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
        assert self.process.stdout is not None
        self.url = str(json.loads(self.process.stdout.readline())["url"])
        self.port = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def publish(self, http: httpx.AsyncClient, number: int) -> None:
        """Once, however often it has to be sent."""
        row = {"user": f"u{number % 7}", "lat": number % 6, "lon": number}
        while True:
            try:
                answer = await http.post(
                    f"{self.url}/feeds/{FEED}", json=row, headers={"idempotency-key": f"publication {number}"}
                )
                if answer.status_code < 300:
                    return
            except httpx.HTTPError:
                await asyncio.sleep(0.05)


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[tuple[ClusterProcess, list[Broker]]]:
    cluster = ClusterProcess(tmp_path / "cluster")
    brokers = [Broker(tmp_path / f"b{n}", cluster.url, f"b{n}") for n in range(2)]
    try:
        for each in brokers:
            each.event("ready")
        yield cluster, brokers
    finally:
        for each in brokers:
            if not each.killed:
                each.kill()
        cluster.kill()


@pytest.mark.parametrize("publications", [120, pytest.param(1_000, marks=pytest.mark.slow)])
def test_subscribers_receive_each_publication_once_and_in_order_despite_kills(killable, publications):
    cluster, brokers = killable
    urls = [each.url for each in brokers]
    conditions = {"lat >= 3": lambda n: n % 6 >= 3, "[user,eq,'u1']": lambda n: n % 7 == 1}
    got: dict[tuple[int, str], list[float]] = {}

    async def follow(client: Client, place: int, where: str, ready: asyncio.Event, last: int) -> None:
        mine = got[place, where] = []
        async with client.subscribe_feed(FEED, where) as subscription:
            ready.set()
            while not mine or mine[-1] < last:
                mine += [row["lon"] for row in (await subscription.get(200)).results]

    def kill_and_start(broker: Broker) -> None:
        broker.kill()
        broker.start()

    def restart_cluster() -> None:
        cluster.kill()
        cluster.start()

    async def main() -> None:
        ends = {where: max(n for n in range(1, publications + 1) if meets(n)) for where, meets in conditions.items()}
        async with (
            connect(urls, wait_for_broker=True) as one,
            connect(urls[::-1], wait_for_broker=True) as two,
            httpx.AsyncClient(timeout=60, trust_env=False) as http,
        ):
            tasks, ready = [], []
            for place, client in enumerate((one, two)):
                for where in conditions:
                    ready.append(asyncio.Event())
                    tasks.append(asyncio.create_task(follow(client, place, where, ready[-1], ends[where])))
            await asyncio.gather(*(each.wait() for each in ready))
            victims = {
                publications // 5: lambda: kill_and_start(brokers[0]),
                2 * publications // 5: restart_cluster,
                3 * publications // 5: lambda: kill_and_start(brokers[1]),
                4 * publications // 5: lambda: (restart_cluster(), kill_and_start(brokers[0])),
            }
            killing: list[asyncio.Task[Any]] = []
            for number in range(1, publications + 1):
                if number in victims:
                    killing.append(asyncio.create_task(asyncio.to_thread(victims[number])))
                await cluster.publish(http, number)
            await asyncio.gather(*killing)
            await asyncio.gather(*tasks)

    asyncio.run(main())
    for (_, where), numbers in got.items():
        assert numbers == [n for n in range(1, publications + 1) if conditions[where](n)]
