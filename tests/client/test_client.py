"""The client on asyncio, with a real WebSocket server in place of the broker."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest
from scripted_broker import ScriptedBroker

from tocsin.client import Client, Gap, Unauthorized, Uncertain, Unreachable, connect
from tocsin.client import client as module
from tocsin.client.core.login import Tokens
from tocsin.client.http_post import Credentials
from tocsin.config import LEAST_FRAME
from tocsin.errors import Conflict, ConnectionLost, Malformed, NotFound, UserError
from tocsin.wire import messages as wire
from tocsin.wire.position import Position
from tocsin.wire.reports import Placement


def looped(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def limited() -> None:
            async with asyncio.timeout(120):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return run


async def when(client: Client, condition: Callable[[], bool]) -> None:
    """Waits until the condition holds after a step of the client."""
    stepped, state = asyncio.Event(), client._state
    handle = state.handle

    def step(event: Any, now: float) -> Any:
        stepped.set()
        return handle(event, now)

    state.handle = step
    while not condition():
        stepped.clear()
        await stepped.wait()
    state.handle = handle


@looped
async def test_a_loop_over_a_subscription_gives_its_notifications():
    async with ScriptedBroker() as broker, connect(broker.url) as client:
        found = client.subscribe("C", kind="fire")
        await found.confirmed()
        await broker.notify(11, 12)
        got = []
        async for notification in found:
            got.append(notification)
            if len(got) == 2:
                break
        assert (got[0].channel, got[0].subscription, got[0].execution) == ("C", 5, 11)
        assert [row["n"] for row in got[1]] == [12] and len(got[1]) == 1
        assert broker.all(wire.Subscribe)[0].args == {"kind": "fire"}


@looped
async def test_arguments_may_be_a_list_a_mapping_or_names():
    async with ScriptedBroker() as broker, connect(broker.url) as client:
        client.subscribe("C", ["fire", 1.5])
        client.subscribe("D", {"after": 3})
        client.subscribe("E")
        await broker.until(wire.Subscribe, 3)
        assert [message.args for message in broker.all(wire.Subscribe)] == [["fire", 1.5], {"after": 3}, {}]
        with pytest.raises(UserError):
            client.subscribe("C", [1], kind="fire")


@looped
async def test_a_subscription_as_a_context_manager_is_confirmed_and_unsubscribed():
    async with ScriptedBroker() as broker, connect(broker.url) as client:
        async with client.subscribe("C") as found:
            assert (found.channel, found.id, found.position, found.lag, found.gaps) == ("C", 5, Position(0, 10), 0, 0)
        assert len(broker.all(wire.Unsubscribe)) == 1


@looped
async def test_a_subscription_resumes_after_a_break():
    async with ScriptedBroker() as broker, connect(broker.url) as client:
        async with client.subscribe("C") as found:
            await broker.notify(11)
            assert (await found.get()).execution == 11
            broker.cut()
            resume = await broker.until(wire.Subscribe, 2)
            assert (resume.after, resume.subscription) == (11, 5)
            await broker.notify(11, 12)
            assert (await found.get()).execution == 12
        assert (client.status.connects, client.status.duplicates) == (2, 1)


@looped
async def test_a_client_uses_its_second_broker_when_the_first_stops():
    async with ScriptedBroker() as second:
        async with ScriptedBroker() as first:
            client = connect([first.url, second.url])
            await client.open()
            found = client.subscribe("C", after=3)
            await found.confirmed()
        await second.until(wire.Subscribe)
        await when(client, lambda: client.status.state == "connected")
        assert client.status.url == second.url
        await client.close()


@looped
async def test_a_gap_is_an_event_and_counts():
    async with ScriptedBroker() as broker, connect(broker.url) as client, client.subscribe("C") as found:
        await broker.send(wire.Gap(5, 10, 15, "retention"))
        await broker.notify(15)
        assert await found.event() == Gap("C", 5, Position(0, 10), Position(0, 15), "retention")
        assert (await found.get()).execution == 15
        assert found.gaps == client.status.gaps == 1


@looped
async def test_a_refused_subscription_raises_its_error():
    async with ScriptedBroker(wire.Subscribe) as broker, connect(broker.url) as client:
        found = client.subscribe("Nowhere")
        request = await broker.until(wire.Subscribe)
        await broker.send(wire.Error(request.id, "not_found", "there is no channel 'Nowhere'"))
        with pytest.raises(NotFound):
            await found.confirmed()
        with pytest.raises(NotFound):
            await anext(found)


@looped
async def test_a_drained_subscription_delivers_what_has_arrived_and_ends():
    async with ScriptedBroker() as broker, connect(broker.url) as client:
        found = client.subscribe("C")
        await found.confirmed()
        await broker.notify(11, 12)
        await found.drain()
        assert [notification.execution async for notification in found] == [11, 12]
        with pytest.raises(Conflict):
            await found.get()


@looped
async def test_unsubscribing_ends_the_subscription_at_once():
    async with ScriptedBroker() as broker, connect(broker.url) as client:
        found = client.subscribe("C")
        await found.confirmed()
        await broker.notify(11, 12)
        await when(client, lambda: found.pending == 2)
        await found.unsubscribe()
        assert [notification async for notification in found] == []


@looped
async def test_notifications_can_be_read_after_the_client_was_drained():
    async with ScriptedBroker() as broker:
        client = await connect(broker.url).open()
        first, second = client.subscribe("C"), client.subscribe("D")
        await second.confirmed()
        await broker.notify(11, 12)
        await client.drain()
        assert [each.execution async for each in first] == [11, 12]
        assert [each async for each in second] == []
        assert client.status.state == "closed" and await broker.until_closed() == 1000


@looped
async def test_waiting_for_a_notification_may_have_a_timeout():
    async with ScriptedBroker() as broker, connect(broker.url) as client, client.subscribe("C") as found:
        with pytest.raises(TimeoutError):
            await found.get(timeout=0)
        await broker.notify(11)
        assert (await found.get(timeout=120)).execution == 11


@looped
async def test_a_full_subscription_pauses_reading_until_it_has_room():
    async with ScriptedBroker() as broker, connect(broker.url) as client, client.subscribe("C", max_pending=3) as found:
        text = "x" * 1_000_000
        sending = asyncio.create_task(send_all(broker, range(11, 61), text))
        await when(client, lambda: found.pending == 3)
        await broker.blocked.wait()
        assert found.pending == 3 and not sending.done()
        got = [(await found.get()).execution for _ in range(50)]
        assert got == list(range(11, 61))
        await sending


async def send_all(broker: ScriptedBroker, executions: range, text: str) -> None:
    for execution in executions:
        await broker.notify(execution, text=text)


@looped
async def test_publishing_between_two_notifications_never_blocks():
    async with ScriptedBroker() as broker, connect(broker.url) as client, client.subscribe("C", max_pending=1) as found:
        await send_all(broker, range(11, 111), "")
        for execution in range(11, 111):
            assert (await found.get()).execution == execution
            await client.publish("F", {"seen": execution})


@looped
async def test_records_are_published_with_a_receipt():
    async with ScriptedBroker() as broker, connect(broker.url) as client:
        assert (await client.publish("F", {"a": 1})).accepted == 1
        receipt = await client.publish("F", [{"a": 1}, {"a": 2}])
        assert (receipt.accepted, receipt.refused) == (2, [])
        assert bytes(broker.all(wire.Publish)[0].records[0]) == b'{"a":1}'
        with pytest.raises(Malformed):
            await client.publish("F", {"a": object()})


@looped
async def test_records_without_an_answer_are_uncertain_or_retried():
    async with ScriptedBroker(wire.Publish) as broker, connect(broker.url) as client:
        once = asyncio.create_task(client.publish("F", {"a": 1}))
        again = asyncio.create_task(client.publish("F", {"a": 2}, retry=True))
        await broker.until(wire.Publish, 2)
        broker.silent = ()
        broker.cut()
        with pytest.raises(Uncertain):
            await once
        assert (await again).accepted == 1


@looped
async def test_a_publication_that_was_cancelled_without_a_connection_is_never_sent():
    async with ScriptedBroker() as broker, connect(broker.url) as client:
        broker.cut()
        await when(client, lambda: client.status.state == "waiting")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await client.publish("F", {"a": 1})
        await client.publish("F", {"a": 2})
        assert [bytes(each.records[0]) for each in broker.all(wire.Publish)] == [b'{"a":2}']


@looped
async def test_a_client_with_a_token_acknowledges_consumed_notifications_when_it_closes():
    async with ScriptedBroker(user="ann") as broker:
        async with connect(broker.url, token="t") as client:
            found = client.subscribe("C")
            await found.confirmed()
            await broker.notify(11, 12, 13)
            await found.get()
            await found.get()
        assert await broker.until_closed() == 1000
        assert broker.all(wire.Ack)[-1].positions == {5: 12}
        assert broker.all(wire.Hello)[0].token == "t"


@looped
async def test_a_notification_whose_handling_failed_is_not_acknowledged():
    async with ScriptedBroker(user="ann") as broker:
        with pytest.raises(ZeroDivisionError):
            async with connect(broker.url, token="t") as client:
                found = client.subscribe("C")
                await found.confirmed()
                await broker.notify(11, 12)
                await found.get()
                await found.get()
                raise ZeroDivisionError
        await broker.until_closed()
        assert broker.all(wire.Ack)[-1].positions == {5: 11}


@looped
async def test_the_users_durable_subscriptions_are_listed():
    held = wire.DurableSubscription(5, "C", ["fire"], 8)
    async with ScriptedBroker(user="ann", subscriptions=[held]) as broker, connect(broker.url, token="t") as client:
        assert client.durable_subscriptions == [held]
        assert client.status.user == "ann"


@looped
async def test_many_subscriptions_resume_in_frames_that_the_broker_accepts():
    async with ScriptedBroker(frame_bytes=LEAST_FRAME) as broker, connect(broker.url) as client:
        broker.id_of = lambda message: int(message.args[0])
        found = [client.subscribe("C", [f"{number:0200d}"]) for number in range(1, 501)]
        await asyncio.gather(*(each.confirmed() for each in found))
        broker.frame_sizes.clear()
        broker.cut()
        await broker.until(wire.Subscribe, 2 * len(found))
        assert max(broker.frame_sizes) <= LEAST_FRAME < sum(broker.frame_sizes)


@looped
async def test_a_server_that_is_not_there_is_unreachable():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(Unreachable, match=r"no broker answers at .*: connection refused \("):
        async with connect(f"tocsin://127.0.0.1:{port}"):
            raise AssertionError


@looped
async def test_wait_for_broker_waits_for_its_broker():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    client = connect(f"ws://127.0.0.1:{port}", wait_for_broker=True)
    opening = asyncio.create_task(client.open())
    await when(client, lambda: client.status.state == "waiting")
    async with ScriptedBroker(port=port):
        await opening
        await client.close()


@looped
async def test_a_server_with_another_subprotocol_is_an_error():
    async with ScriptedBroker(subprotocol="other") as broker:
        with pytest.raises(Unreachable):
            await connect(broker.url).open()


@looped
async def test_a_close_code_that_means_stop_ends_all_subscriptions():
    async with ScriptedBroker() as broker, connect(broker.url) as client:
        found = client.subscribe("C")
        await found.confirmed()
        await broker.sockets[-1].close(4002, "connected again")
        with pytest.raises(ConnectionLost, match="4002 replaced: connected again") as caught:
            await anext(found)
        assert caught.value.fields["close"] == 4002
        with pytest.raises(Conflict):
            await client.publish("F", {})


@looped
async def test_a_malformed_message_breaks_only_the_connection():
    async with ScriptedBroker() as broker, connect(broker.url) as client, client.subscribe("C") as found:
        await broker.sockets[-1].send("nonsense")
        await broker.until(wire.Subscribe, 2)
        await broker.notify(11)
        assert (await found.get()).execution == 11


@looped
async def test_a_token_that_is_refused_is_replaced_by_a_new_login(monkeypatch):
    logins: list[tuple[str, Credentials]] = []

    async def login(url: str, credentials: Credentials, context: object) -> Tokens:
        logins.append((url, credentials))
        return Tokens(f"t{len(logins)}")

    monkeypatch.setattr(module, "login", login)
    async with ScriptedBroker() as broker, connect(broker.url, user="ann", password="secret", device="phone") as client:
        await broker.sockets[-1].close(4001)
        assert (await broker.until(wire.Hello, 2)).token == "t2"
        assert logins == [(broker.url, Credentials("ann", "secret", "phone"))] * 2
        assert client.token == "t2" and "secret" not in repr(logins[0])


@looped
async def test_a_password_goes_to_the_coordinator_and_only_the_token_to_brokers(monkeypatch):
    logins: list[str] = []

    async def login(url: str, credentials: Credentials, context: object) -> Tokens:
        logins.append(url)
        return Tokens("t")

    async with ScriptedBroker() as broker:

        async def place(url: str, request: Any, context: object) -> Placement:
            return Placement("b", broker.url, "ticket")

        monkeypatch.setattr(module, "login", login)
        monkeypatch.setattr(module, "request_broker", place)
        async with connect(coordinator="http://127.0.0.1:1", user="ann", password="secret"):
            assert (await broker.until(wire.Hello)).token == "t"
    assert logins == ["http://127.0.0.1:1"]


@looped
async def test_a_token_is_refreshed_without_the_password_and_by_it_if_the_session_has_ended(monkeypatch):
    calls: list[str] = []

    async def login(url: str, credentials: Credentials, context: object) -> Tokens:
        calls.append("login")
        return Tokens(f"t{len(calls)}", refresh="r")

    async def refresh(url: str, token: str, context: object) -> Tokens:
        calls.append(token)
        if len(calls) > 2:
            raise Unauthorized("the session has ended")
        return Tokens(f"t{len(calls)}", refresh="r")

    monkeypatch.setattr(module, "login", login)
    monkeypatch.setattr(module, "refresh", refresh)
    async with ScriptedBroker() as broker, connect(broker.url, user="ann", password="secret"):
        for number, token in ((2, "t2"), (3, "t4")):
            await broker.sockets[-1].close(4001)
            assert (await broker.until(wire.Hello, number)).token == token
    assert calls == ["login", "r", "r", "login"]


@looped
async def test_a_refused_token_without_a_password_stops_the_client():
    async with ScriptedBroker(wire.Hello) as broker:
        opening = asyncio.create_task(connect(broker.url, token="t").open())
        await broker.until(wire.Hello)
        await broker.sockets[-1].close(4001)
        with pytest.raises(Unauthorized):
            await opening
