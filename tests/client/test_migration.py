"""The client on asyncio with several brokers: real migrations over WebSockets, and a coordinator over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from scripted_broker import ScriptedBroker
from test_client import looped, when

from tocsin.cli.sub import follow
from tocsin.client import Unreachable, connect
from tocsin.client.sync import connect as connect_sync
from tocsin.errors import UserError
from tocsin.wire import messages as wire

SUBSCRIBER = "subscriber-with-22-char"


class Coordinator:
    """A small HTTP server: answers each request for a broker with the next of ``answers``, else with 503.

    ``brokers`` is its list of brokers.
    """

    def __init__(self, *answers: dict[str, Any], brokers: Sequence[tuple[str, str]] = ()) -> None:
        self.answers = list(answers)
        self.brokers = {"brokers": [{"broker": name, "url": url, "lat": None, "lon": None} for name, url in brokers]}
        self.requests: list[dict[str, Any]] = []

    async def __aenter__(self) -> Coordinator:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        await self.server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        status, answer = 200, self.brokers
        if not head.startswith("get /brokers "):
            assert head.startswith("post /requestbroker ")
            length = int(head.partition("content-length:")[2].split()[0])
            self.requests.append(msgspec.json.decode(await reader.readexactly(length)))
            status, answer = (200, self.answers.pop(0)) if self.answers else (503, REFUSAL)
        body = msgspec.json.encode(answer)
        writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (status, len(body), body))
        await writer.drain()
        writer.close()


REFUSAL = {"error": {"code": "not_ready", "message": "no broker has room"}}


def placed(broker: ScriptedBroker, ticket: str = "ticket") -> dict[str, Any]:
    return {"broker": "somewhere", "url": broker.url, "ticket": ticket}


@looped
async def test_a_reader_does_not_notice_a_migration():
    async with (
        ScriptedBroker(broker="first") as first,
        ScriptedBroker(broker="second") as second,
        connect(first.url) as client,
    ):
        async with client.subscribe("C") as found:
            await first.notify(11)
            await first.send(wire.Migrate("second", second.url, "ticket"))
            resume = await second.until(wire.Subscribe)
            assert resume.after == 11 and second.all(wire.Hello)[0].ticket == "ticket"
            await first.notify(12)
            await second.notify(12, 13)
            await first.notify(13)
            await second.send(wire.Live(5, 13))
            assert await first.until_closed() == 1000
            await second.notify(14)
            assert [(await found.get()).execution for _ in range(4)] == [11, 12, 13, 14]
        assert (client.status.broker, client.status.url, client.status.migrations) == ("second", second.url, 1)
        assert {hello.subscriber for hello in first.all(wire.Hello) + second.all(wire.Hello)} == {client.subscriber}


@looped
async def test_a_client_migrates_there_and_back_while_it_publishes():
    async with (
        ScriptedBroker(broker="first") as first,
        ScriptedBroker(broker="second") as second,
        connect(first.url) as client,
    ):
        for here, there, name in ((first, second, "second"), (second, first, "first")):
            sent = [asyncio.create_task(client.publish("F", {"n": n})) for n in range(20)]
            await here.send(wire.Migrate(name, there.url, name))
            await when(client, lambda name=name: client.status.broker == name)
            sent += [asyncio.create_task(client.publish("F", {"n": n})) for n in range(20)]
            assert sum(receipt.accepted for receipt in await asyncio.gather(*sent)) == 40
        assert client.status.migrations == 2 and len(first.all(wire.Publish)) + len(second.all(wire.Publish)) == 80


@looped
@pytest.mark.parametrize("how", ["no server", "invalid address", "bad ticket", "no room"])
async def test_a_client_stays_on_its_broker_after_a_failed_migration(how):
    async with (
        ScriptedBroker(broker="first") as first,
        ScriptedBroker(wire.Hello) as second,
        connect(first.url) as client,
        client.subscribe("C") as found,
    ):
        url = {"no server": "http://127.0.0.1:1", "invalid address": "gopher:what"}.get(how, second.url)
        await first.send(wire.Migrate("second", url, "ticket"))
        if url == second.url:
            await second.until(wire.Hello)
            await second.sockets[-1].close(4006 if how == "bad ticket" else 1013, "no")
        failure = await first.until(wire.MigrationFailed)
        assert failure.ticket == "ticket" and failure.reason
        await first.notify(11)
        assert (await found.get()).execution == 11
        assert (client.status.broker, client.status.migrations, client.status.state) == ("first", 0, "connected")


@looped
async def test_if_the_old_broker_dies_during_a_migration_the_new_one_takes_over():
    async with ScriptedBroker(broker="second") as second:
        async with ScriptedBroker(broker="first") as first:
            client = await connect(first.url).open()
            found = client.subscribe("C")
            await found.confirmed()
            await first.send(wire.Migrate("second", second.url, "ticket"))
            await second.until(wire.Subscribe)
            first.cut()
            await when(client, lambda: client.status.broker == "second")
        await second.notify(11)
        assert (await found.get()).execution == 11
        await client.close()


@looped
async def test_closing_the_client_during_a_migration_closes_both_connections():
    async with ScriptedBroker(broker="first") as first, ScriptedBroker(wire.Subscribe, broker="second") as second:
        async with connect(first.url) as client:
            await client.subscribe("C").confirmed()
            await first.send(wire.Migrate("second", second.url, "ticket"))
            await second.until(wire.Subscribe)
        assert await first.until_closed() == await second.until_closed() == 1000


# -- the coordinator -----------------------------------------------------------------------------------------------


@looped
async def test_the_coordinator_chooses_the_broker():
    async with ScriptedBroker() as broker, Coordinator(placed(broker)) as coordinator:
        async with connect(coordinator=coordinator.url, location=(33.6, -117.8), subscriber=SUBSCRIBER) as client:
            assert client.subscriber == SUBSCRIBER and client.status.url == broker.url
        (request,) = coordinator.requests
        assert (request["subscriber"], request["lat"], request["lon"]) == (SUBSCRIBER, 33.6, -117.8)
        assert broker.all(wire.Hello)[0].ticket == "ticket"


@looped
async def test_with_nearest_the_client_sends_its_measured_round_trips():
    async with ScriptedBroker() as broker:
        brokers = [("here", broker.url), ("gone", "ws://127.0.0.1:1")]
        async with Coordinator(placed(broker), brokers=brokers) as coordinator:
            async with connect(coordinator=coordinator.url, nearest=True) as client:
                assert client.status.url == broker.url
            (request,) = coordinator.requests
            assert list(request["distances"]) == ["here"] and request["distances"]["here"] > 0


@looped
async def test_a_client_requests_another_broker_when_its_own_is_gone():
    async with ScriptedBroker(broker="second") as second, Coordinator() as coordinator:
        async with ScriptedBroker(broker="first") as first:
            coordinator.answers.append(placed(first))
            client = await connect(coordinator=coordinator.url).open()
            coordinator.answers.append(placed(second, "another"))
        await second.until(wire.Hello)
        await when(client, lambda: client.status.broker == "second")
        assert coordinator.requests[1]["avoid"] == ["first"] and second.all(wire.Hello)[0].ticket == "another"
        await client.close()


@looped
async def test_a_client_uses_its_known_brokers_when_the_coordinator_is_down():
    async with ScriptedBroker() as broker:
        async with Coordinator(placed(broker)) as coordinator:
            client = await connect(coordinator=coordinator.url).open()
        for times in (2, 3):
            broker.cut()
            await broker.until(wire.Hello, times)
            await when(client, lambda: client.status.state == "connected")
        await client.close()


@looped
async def test_a_client_uses_the_given_addresses_when_the_coordinator_does_not_answer():
    async with ScriptedBroker() as broker, connect(broker.url, coordinator="http://127.0.0.1:1") as client:
        assert client.status.url == broker.url


@looped
async def test_an_unreachable_coordinator_or_one_without_brokers_is_an_error():
    with pytest.raises(Unreachable, match="no coordinator answers"):
        await connect(coordinator="http://127.0.0.1:1").open()
    async with Coordinator() as coordinator:
        with pytest.raises(Exception, match="no broker has room"):
            await connect(coordinator=coordinator.url).open()


def test_the_sub_command_requests_a_broker_from_the_coordinator(capsys):
    @looped
    async def run() -> None:
        async with ScriptedBroker() as broker, Coordinator(placed(broker)) as coordinator:
            sub = asyncio.create_task(follow(None, coordinator.url, "C", {}, None, None, 1, json=False))
            await broker.until(wire.Subscribe)
            await broker.notify(11)
            await sub

    run()
    assert capsys.readouterr().out.startswith("C 11 ")


@pytest.mark.parametrize("answer", [{"broker": "b"}, {"broker": "b", "url": "gopher:x", "ticket": "t"}])
def test_a_malformed_answer_is_an_error(answer):
    @looped
    async def run() -> None:
        async with Coordinator(answer) as coordinator:
            with pytest.raises(Exception, match=r"like a coordinator|not the address"):
                await connect(coordinator=coordinator.url).open()

    run()


@pytest.mark.parametrize("subscriber", ["short", f"{SUBSCRIBER} space", "x" * 65, f"{SUBSCRIBER}ü", f"{SUBSCRIBER}\n"])
def test_a_malformed_subscriber_is_refused_at_once(subscriber):
    with pytest.raises(UserError, match="not a subscriber id"):
        connect("http://127.0.0.1:1", subscriber=subscriber)


def test_without_any_address_connect_raises():
    with pytest.raises(UserError, match="give the address"):
        connect()
    with pytest.raises(UserError, match="give the address"):
        connect_sync()
