"""Users of a network of real processes: they register once, and are at home at every broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from broker_lab import Speaker
from process_network import Network, counts, looped, network, states
from rest_user import PASSWORD, RestUser, rows
from websockets.exceptions import ConnectionClosed

ANN = {"user": "ann", "password": PASSWORD}


async def registered(net: Network) -> None:
    async with httpx.AsyncClient(timeout=60) as http:
        answer = await http.post(f"{net.coordinator.url}/registeruser", json=ANN)
        assert answer.status_code == 201, answer.text


async def user_at(net: Network, broker: str, **options: Any) -> RestUser:
    return await asyncio.to_thread(RestUser, net.brokers[broker].url, "ann", **options)


@looped
async def test_a_user_registered_at_one_broker_connects_to_another(tmp_path: Path) -> None:
    async with network(tmp_path, "a", "b") as net:
        at_a = await asyncio.to_thread(RestUser, net.brokers["a"].url)
        taken = await asyncio.to_thread(at_a.post, "/registeruser", user=at_a.name, password="another one")
        assert taken.status_code == 409
        subscription = await asyncio.to_thread(at_a.subscribe, "kind1")
        net.execute()

        def elsewhere() -> None:
            again = httpx.post(f"{net.brokers['b'].url}/registeruser", json={"user": at_a.name, "password": PASSWORD})
            assert again.status_code == 409
            at_b = RestUser(net.brokers["b"].url, at_a.name)  # logs in with the password
            assert rows(at_b.results(subscription, wait=60)) == [1]
            at_b.http.headers["authorization"] = f"Bearer {at_a.token}"  # and the other broker's token is good here
            assert rows(at_b.results(subscription, wait=60)) == [1]
            speaker = Speaker(net.brokers["b"].url, token=at_a.token)
            assert [each["subscription"] for each in speaker.welcome["subscriptions"]] == [subscription]
            speaker.close()

        await asyncio.to_thread(elsewhere)


@looped
async def test_the_limits_of_a_user_hold_over_all_brokers(tmp_path: Path) -> None:
    async with network(tmp_path, "a", "b", identity_subscriptions=3) as net:
        await registered(net)

        def subscribes() -> None:
            phone = RestUser(net.brokers["a"].url, "ann", "phone")
            watch = RestUser(net.brokers["b"].url, "ann", "watch")
            first = [phone.subscribe("kind1"), phone.subscribe("kind2")][0]
            watch.subscribe("kind1")
            refused = watch.post("/subscribe", channel="OfKind", args={"kind": "kind2"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (413, "limit_exceeded")
            speaker = Speaker(net.brokers["b"].url, token=watch.token)
            answer = speaker.ask("subscribe", channel="OfKind", args=["kind3"])
            assert (answer["type"], answer["code"]) == ("error", "limit_exceeded")
            assert len(watch.http.get("/listsubscriptions").json()["subscriptions"]) == 1, "nothing of it is kept"
            assert phone.post("/unsubscribe", subscription=first).status_code == 200
            assert speaker.ask("subscribe", channel="OfKind", args=["kind3"])["type"] == "subscribed"
            speaker.close()

        await asyncio.to_thread(subscribes)


@looped
async def test_logged_in_clients_are_drained_like_all_others(tmp_path: Path) -> None:
    async with network(tmp_path, "a", "b", "c") as net:
        await registered(net)
        await net.join(9, **ANN)
        net.execute(5)
        await net.post("/brokers/a/drain")
        top = await net.flow(lambda top: counts(top)["a"] == 0 and top["pending"] == 0)
        assert sum(counts(top).values()) == 9
        await net.check_all_received()
        assert all(client.status.connects == 1 + client.status.migrations for client in net.clients)


@looped
async def test_users_of_a_killed_broker_lose_nothing_over_rest_and_websocket(tmp_path: Path) -> None:
    async with network(tmp_path, "a", "b", gone_after=4.0) as net:
        await registered(net)
        await net.join(6, **ANN)
        at_a = await user_at(net, "a")
        subscription = await asyncio.to_thread(at_a.subscribe, "kind1")
        await asyncio.to_thread(net.execute, 3)
        found = await asyncio.to_thread(at_a.results, subscription, wait=60)
        assert rows(found)[0] == 1
        acknowledged = found["after"]
        await asyncio.to_thread(at_a.post, "/ackresults", subscription=subscription, execution=acknowledged)
        net.brokers["a"].kill()
        net.execute(2)
        await net.flow(lambda top: states(top)["a"] == "gone" and counts(top).get("b") == 6)

        def rest_goes_on() -> list[int]:
            at_b = RestUser(net.brokers["b"].url, "ann")
            got: list[int] = []
            while len(got) < net.last - acknowledged:
                found = at_b.results(subscription, after=acknowledged + len(got), wait=60)
                assert not found["gaps"]
                got += rows(found)
            return got

        at_b = await user_at(net, "b")
        (durable,) = (await asyncio.to_thread(at_b.http.get, "/listsubscriptions")).json()["subscriptions"]
        assert durable["after"] == acknowledged
        assert await asyncio.to_thread(rest_goes_on) == list(range(acknowledged + 1, net.last + 1))
        await net.check_all_received()


@looped
async def test_users_go_on_while_the_coordinator_is_away(tmp_path: Path) -> None:
    async with network(tmp_path, "a", "b", gone_after=30.0) as net:
        await registered(net)
        await net.join(4, **ANN)
        at_a = await user_at(net, "a")
        subscription = await asyncio.to_thread(at_a.subscribe, "kind1")
        net.coordinator.kill()
        net.execute(3)

        def without_a_coordinator() -> None:
            assert rows(at_a.results(subscription, wait=60))[0] == 1  # this broker serves the user
            answer = at_a.post("/ackresults", subscription=subscription, execution=2)
            assert answer.status_code == 200, answer.text
            new = at_a.post("/subscribe", channel="OfKind", args=["kind2"])  # cannot be durable now
            assert (new.status_code, new.json()["error"]["code"]) == (503, "unreachable")
            other = httpx.get(f"{net.brokers['b'].url}/listsubscriptions", headers=at_a.http.headers, timeout=60)
            assert (other.status_code, other.json()["error"]["code"]) == (503, "unreachable")
            login = httpx.post(f"{net.brokers['b'].url}/login", json=ANN, timeout=60)
            assert login.status_code == 503

        await asyncio.to_thread(without_a_coordinator)
        net.coordinator.start()
        await net.until(lambda top: set(counts(top)) == {"a", "b"})
        await net.check_all_received()

        def afterwards() -> None:
            while True:  # until the broker has registered again
                again = at_a.post("/subscribe", channel="OfKind", args=["kind2"])
                if again.status_code != 503:
                    break
            assert again.status_code == 201, again.text
            at_b = httpx.get(f"{net.brokers['b'].url}/listsubscriptions", headers=at_a.http.headers, timeout=60)
            durable = {each["args"][0]: each for each in map(by_order, at_b.json()["subscriptions"])}
            assert durable["kind1"]["after"] == 2 and "kind2" in durable

        await asyncio.to_thread(afterwards)


def by_order(durable: dict[str, Any]) -> dict[str, Any]:
    args = durable["args"]
    return durable | {"args": list(args.values()) if isinstance(args, dict) else args}


@looped
async def test_revoked_and_logged_out_users_are_disconnected_at_every_broker_within_seconds(tmp_path: Path) -> None:
    async with network(tmp_path, "a", "b") as net:
        await registered(net)

        def check() -> None:
            http = httpx.Client(base_url=net.coordinator.url, timeout=60)
            tokens = [http.post("/login", json=ANN | {"device": f"d{n}"}).json()["token"] for n in range(3)]
            a, b = net.brokers["a"].url, net.brokers["b"].url
            speakers = [Speaker(a, token=tokens[0]), Speaker(b, token=tokens[1]), Speaker(b, token=tokens[2])]
            assert http.post("/logout", headers={"authorization": f"Bearer {tokens[0]}"}).status_code == 200
            assert closed(speakers[0]) == 4005
            new = {"user": "ann", "password": PASSWORD, "new_password": "another horse"}
            assert httpx.post(f"{a}/changepassword", json=new, timeout=60).status_code == 200
            assert [closed(each) for each in speakers[1:]] == [4001, 4001]
            for url, token in ((a, tokens[0]), (a, tokens[1]), (b, tokens[2])):
                headers = {"authorization": f"Bearer {token}"}
                assert httpx.get(f"{url}/listsubscriptions", headers=headers, timeout=60).status_code == 401
            assert httpx.post(f"{b}/login", json=ANN, timeout=60).status_code == 401
            fresh = httpx.post(f"{b}/login", json=ANN | {"password": "another horse"}, timeout=60).json()["token"]
            Speaker(a, token=fresh).close()
            anonymous = Speaker(a)
            gone = {"user": "ann", "password": "another horse"}
            user = Speaker(b, token=fresh)
            assert httpx.post(f"{a}/deleteuser", json=gone, timeout=60).status_code == 200
            assert closed(user) == 4005
            anonymous.send({"type": "ping"})
            anonymous.next("pong")

        await asyncio.to_thread(check)


def closed(speaker: Speaker) -> int:
    """The code with which the broker closes the connection."""
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            speaker.socket.recv(60)
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code


@looped
async def test_a_client_refreshes_its_token_and_a_token_alone_ends_with_its_time(tmp_path: Path) -> None:
    identity = {"token_seconds": 3, "clock_skew": 0}
    async with network(tmp_path, "a", identity=identity, of_brokers={"identity": {"clock_skew": 0}}) as net:
        await registered(net)
        await net.join(1, **ANN)
        (client,) = net.clients
        first = client.token

        def alone() -> int:
            tokens = httpx.post(f"{net.coordinator.url}/login", json=ANN, timeout=60).json()
            assert tokens["seconds"] == 3
            return closed(Speaker(net.brokers["a"].url, token=tokens["token"]))

        assert await asyncio.to_thread(alone) == 4001
        net.execute(3)
        await net.check_all_received()
        assert client.token != first and client.status.connects == 1  # the connection stayed


@looped
async def test_a_flood_of_logins_does_not_keep_users_from_connecting(tmp_path: Path) -> None:
    async with network(tmp_path, "a") as net:
        await registered(net)
        at_a = await user_at(net, "a")
        url = net.brokers["a"].url
        limits = httpx.Limits(max_connections=100)
        connected, codes = asyncio.Event(), set[int]()
        async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as http:

            async def guess(bot: int) -> None:
                """One guess after the other, until the user has connected."""
                while not connected.is_set():
                    answer = await http.post("/login", json={"user": f"bot-{bot}", "password": "wrong horse"})
                    codes.add(answer.status_code)

            guesses = [asyncio.create_task(guess(bot)) for bot in range(100)]
            speaker = await asyncio.to_thread(Speaker, url, token=at_a.token)
            connected.set()
            speaker.close()
            await asyncio.gather(*guesses)
        assert codes and codes <= {401, 429, 503}
