"""Several brokers on one data cluster, and several processes of a broker on one port."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from broker_lab import Speaker, alive, broker

from brokers import Broker
from eventually import eventually
from served import environment, tocsin
from sparkless import sparkless
from tocsin.cluster import service
from tocsin.errors import Conflict, Unauthorized
from tocsin.identity.part_keys import PartKey, Peer


def test_two_brokers_share_one_be_subscription(tmp_path):
    with (
        sparkless(tmp_path / "data") as (cluster, url),
        broker(tmp_path / "one", url, "one", grace=0.0) as one,
        broker(tmp_path / "two", url, "two") as two,
    ):
        speakers = [Speaker(each.url) for each in (one, one, two)]
        ids = {each.ask("subscribe", channel="OfKind", args=["fire"])["subscription"] for each in speakers}
        (id_,) = ids
        (kept,) = cluster.subscriptions("OfKind", None, 0, 100)
        assert (kept["subscription"], kept["brokers"]) == (id_, ["one", "two"])
        cluster.found("OfKind", (["fire"], [{"n": 1}]))
        assert [each.next("notify")["results"] for each in speakers] == [[{"n": 1}]] * 3
        for each in speakers[:2]:
            each.close()
        # The last subscriber of a broker has left: after the grace period, here 0 s, the broker unsubscribes.
        while "one" in cluster.subscriptions("OfKind", None, 0, 100)[0]["brokers"]:
            cluster.found("OfKind", (["fire"], [{"n": 2}]))
        assert speakers[2].next("notify")["results"] == [{"n": 2}]
        speakers[2].close()


def test_a_reconnect_within_the_grace_period_costs_the_data_cluster_nothing(tmp_path):
    with sparkless(tmp_path / "data") as (cluster, url), broker(tmp_path / "b", url) as b:
        first = Speaker(b.url)
        id_ = first.ask("subscribe", channel="OfKind", args=["fire"])["subscription"]
        commits = cluster.context.committer.commits
        for _ in range(5):
            first.close()
            first = Speaker(b.url)
            assert first.ask("subscribe", channel="OfKind", args=["fire"])["subscription"] == id_
        assert cluster.context.committer.commits == commits
        first.close()


def test_processes_share_a_port_and_end_together(tmp_path: Path):
    with sparkless(tmp_path / "data") as (cluster, url):
        command = [sys.executable, "-m", "tocsin.cli", "broker", "--json", "--name", "many", "--processes", "2"]
        command += ["--port", "0", "--cluster", url, "--home", str(tmp_path / "b")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())
        assert process.stdout is not None
        ready: dict[str, Any] = {}
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "ready":
                ready[event["name"]] = event
            if len(ready) == 2:
                break
        assert set(ready) == {"many-1", "many-2"}
        assert len({event["url"] for event in ready.values()}) == 1
        speakers = [Speaker(ready["many-1"]["url"]) for _ in range(40)]
        assert set(Counter(each.welcome["broker"] for each in speakers)) == set(ready)
        for each in speakers:
            each.ask("subscribe", channel="OfKind", args=["fire"])
        cluster.found("OfKind", (["fire"], [{"n": 1}]))
        assert all(each.next("notify")["results"] == [{"n": 1}] for each in speakers)
        for each in speakers:
            each.close()
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(120) == 0
        assert not any(alive(event["pid"]) for event in ready.values())


def test_worker_processes_end_when_their_parent_is_killed(tmp_path: Path):
    with sparkless(tmp_path / "data") as (_, url):
        command = [sys.executable, "-m", "tocsin.cli", "broker", "--json", "--name", "many", "--processes", "2"]
        command += ["--port", "0", "--cluster", url, "--home", str(tmp_path / "b")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())
        assert process.stdout is not None
        events = [json.loads(process.stdout.readline())["event"] for _ in range(4)]
        assert sorted(events) == ["listening", "listening", "ready", "ready"]
        process.kill()
        process.wait()
        # The pipe ends when the last process has closed it.
        rest = [json.loads(line)["event"] for line in process.stdout]
        assert rest == ["stopped", "stopped"]
        process.stdout.close()


def test_worker_processes_read_the_brokers_configuration_file(tmp_path: Path):
    (tmp_path / "broker.toml").write_text("[limits]\nsubscriptions = 1\n")
    with sparkless(tmp_path / "data") as (_, url):
        command = [sys.executable, "-m", "tocsin.cli", "broker", "--json", "--name", "many", "--processes", "2"]
        command += ["--port", "0", "--cluster", url, "--home", str(tmp_path / "b")]
        command += ["--config", str(tmp_path / "broker.toml")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as process:
            assert process.stdout is not None
            event = [json.loads(process.stdout.readline()) for _ in range(4)]
            speaker = Speaker(event[0]["url"])
            answers = [speaker.ask("subscribe", channel="OfKind", args=[kind])["type"] for kind in ("fire", "flood")]
            assert answers == ["subscribed", "error"]
            speaker.close()
            process.terminate()
            process.stdout.read()


def test_options_that_do_not_work_with_several_processes_are_refused(tmp_path: Path):
    for option in (["--inside-port", "8490"], ["--inside-url", "http://a:1"], ["--coordinator", "http://127.0.0.1:1"]):
        ran = tocsin("broker", "--processes", "2", "--port", "0", "--home", str(tmp_path), *option)
        error, hint = ran.stderr.decode().splitlines()
        assert (ran.returncode, error[:7], hint[:6]) == (1, "error: ", "hint: ")


def test_a_second_broker_with_the_name_of_a_running_one_is_refused_and_the_first_goes_on(tmp_path):
    with sparkless(tmp_path / "data") as (cluster, url), broker(tmp_path / "one", url, "b") as first:
        speaker = Speaker(first.url)
        speaker.ask("subscribe", channel="OfKind", args=["fire"])
        address = cluster.brokers()[0]["url"]
        second = Broker(tmp_path / "two", url, "b")
        inner = second.event("listening")["url"]
        facts = eventually(lambda: httpx.get(f"{inner}/readyz").json(), lambda found: found["cluster"] != "answers")
        assert facts == {
            "ready": False,
            "registered": False,
            "grants": False,
            "cluster": f"another broker has the name 'b', at {address}",
            "users": "known",
        }
        cluster.found("OfKind", (["fire"], [{"n": 1}]))
        assert speaker.next("notify")["results"] == [{"n": 1}]
        assert [each["url"] for each in cluster.brokers()] == [address]
        second.process.terminate()
        assert b"another broker has the name 'b'" in second.process.communicate()[1]
        speaker.close()


def test_a_second_broker_with_the_home_and_name_of_a_running_one_does_not_start(tmp_path):
    with sparkless(tmp_path / "data") as (_, url), broker(tmp_path / "one", url, "b"):
        second = Broker(tmp_path / "one", url, "b")
        errors = second.process.communicate(timeout=120)[1]
        assert second.process.returncode == 1
        assert b"a broker 'b' already uses" in errors


def test_a_broker_that_was_killed_registers_again_with_another_port(tmp_path):
    with sparkless(tmp_path / "data") as (cluster, url):
        with broker(tmp_path / "one", url, "b") as first:
            before = cluster.brokers()[0]["url"]
            first.kill()
        with broker(tmp_path / "one", url, "b"):
            assert cluster.brokers()[0]["url"] != before
            assert len(cluster.brokers()) == 1


def test_a_name_belongs_to_its_key_until_an_operator_forgets_it(tmp_path, monkeypatch):
    with sparkless(tmp_path / "data") as (cluster, url):
        one, two = "http://127.0.0.1:1/notify", "http://127.0.0.1:2/notify"
        first, second = (Peer("data cluster", PartKey(key * 32, "b"), "") for key in (b"1", b"2"))
        cluster.register_broker("b", one, join=first.join(one))

        def refuses_the_second():
            with pytest.raises(Conflict, match=f"another broker has the name 'b', at {one}") as caught:
                cluster.register_broker("b", two, join=second.join(two))
            assert "tocsin forget b" in caught.value.hint

        refuses_the_second()
        with pytest.raises(Unauthorized):
            cluster.register_broker("B", two)
        forget = ("forget", "b", "--url", url, "--coordinator", "")
        monkeypatch.setattr(service, "SILENT_SECONDS", 3_600.0)  # however slow the machine is
        done = tocsin(*forget)
        assert done.returncode == 1 and b"error: b registered" in done.stderr, done
        monkeypatch.setattr(service, "SILENT_SECONDS", 0.0)
        refuses_the_second()  # silence does not free the name
        done = tocsin(*forget)
        assert done.returncode == 0 and b"the name b at: data cluster" in done.stdout, done
        assert cluster.register_broker("b", two, join=second.join(two))["url"] == two
        with pytest.raises(Conflict):
            cluster.register_broker("b", one, join=first.join(one))
