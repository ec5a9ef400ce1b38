"""The two data clusters under one contract: the reference in memory, and the real one."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from random import Random
from typing import Any, Protocol

import msgspec
from cluster_harness import Listener, ManualCluster

from tocsin.cluster.model import Broker, Post
from tocsin.cluster.notify import dispatch as on
from tocsin.cluster.notify.dispatch import Dispatch, make_batch
from tocsin.cluster.notify.retry_policy import RetryPolicy
from tocsin.errors import Conflict
from tocsin.identity.grants import GrantTable
from tocsin.simulation.reference_cluster import ReferenceCluster, canonical

RETENTION = 60.0
NOWHERE = "http://127.0.0.1:9/notify"


#: The name of a claim, or None and a value.
Required = tuple[str | None, Any]


class Subject(Protocol):
    """A channel of the contract has one parameter ``kind`` and finds the numbers of new records of that kind."""

    def create(self, channel: str, *, push: bool = False) -> None: ...
    def drop(self, channel: str) -> None: ...
    def epoch(self, channel: str) -> int: ...
    def position(self, channel: str) -> int: ...
    def register(self, broker: str) -> None: ...
    def subscribe(self, channel: str, broker: str, *args: Any) -> list[int]: ...
    def unsubscribe(self, channel: str, id: int, broker: str) -> int: ...
    def change_broker(self, channel: str, id: int, source: str | None, target: str) -> int: ...
    def subscriptions(self, channel: str, broker: str) -> list[int]: ...
    def begins_after(self, channel: str, id: int) -> int | None: ...
    def publish(self, key: str, *records: Any) -> tuple[int, list[int]]: ...
    def execute(self, channel: str) -> None: ...
    def expire(self) -> None: ...
    def pull(self, channel: str, execution: int, broker: str) -> list[tuple[int, list[int]]]: ...
    def results(self, channel: str, id: int, after: int, same_as: int | None = None) -> list[tuple[int, list[int]]]: ...
    def outbox(self, broker: str) -> list[tuple[str, int]]: ...
    def notify(self, broker: str, count: int, *statuses: int) -> list[dict[str, Any]]: ...
    def create_role(self, name: str) -> None: ...
    def drop_role(self, name: str) -> None: ...
    def grant(self, channel: str | None, role: str, **conditions: Required) -> None: ...
    def revoke(self, channel: str | None, role: str, **conditions: Required) -> None: ...
    def grants(self) -> GrantTable: ...


class Reference:
    def __init__(self) -> None:
        self.cluster = ReferenceCluster()
        self.cluster.create_feed("reports", lambda record: isinstance(record.get("n"), int))
        self.clock = 0.0
        self._read: dict[int, int] = {}

    def create(self, channel: str, *, push: bool = False) -> None:
        made = self.cluster.create_channel(
            channel, ["kind"], push=push, retention=RETENTION, accepts=lambda args: isinstance(args[0], str)
        )
        self._read[made.id] = len(self.cluster.records["reports"])

    def drop(self, channel: str) -> None:
        self.cluster.drop_channel(channel)

    def epoch(self, channel: str) -> int:
        return self.cluster.channel(channel).epoch

    def position(self, channel: str) -> int:
        return self.cluster.channel(channel).last

    def register(self, broker: str) -> None:
        self.cluster.register_broker(broker, NOWHERE)

    def subscribe(self, channel: str, broker: str, *args: Any) -> list[int]:
        return self.cluster.subscribe(channel, broker, args)

    def unsubscribe(self, channel: str, id: int, broker: str) -> int:
        return self.cluster.unsubscribe(channel, [id], broker)

    def change_broker(self, channel: str, id: int, source: str | None, target: str) -> int:
        found = self.cluster.channel(channel).subscriptions[id]
        if source not in found.brokers and (source is not None or len(found.brokers) > 1):
            raise Conflict(f"subscription {id} is at {sorted(found.brokers)}")
        origin = source or next(iter(found.brokers))
        self.cluster.subscribe(channel, target, [msgspec.json.decode(found.args)])
        self.cluster.unsubscribe(channel, [id], origin)
        return id

    def subscriptions(self, channel: str, broker: str) -> list[int]:
        return [each.id for each in self.cluster.subscriptions(channel, broker)]

    def begins_after(self, channel: str, id: int) -> int | None:
        return self.cluster.begins_after(channel, id)

    def publish(self, key: str, *records: Any) -> tuple[int, list[int]]:
        receipt = self.cluster.publish("reports", records, key)
        return receipt.accepted, receipt.refused

    def execute(self, channel: str) -> None:
        at = self.cluster.channel(channel)
        records = self.cluster.records["reports"]
        found: dict[str, list[Any]] = {}
        for record in records[self._read[at.id] :]:
            found.setdefault(canonical([record["kind"]]), []).append({"n": record["n"]})
        self._read[at.id] = len(records)
        self.clock += 1.0
        self.cluster.begin(at)
        self.cluster.commit(at, {key: msgspec.json.encode(rows) for key, rows in found.items()}, self.clock, self.clock)

    def expire(self) -> None:
        self.cluster.expire(self.clock + 1_000.0)

    def pull(self, channel: str, execution: int, broker: str) -> list[tuple[int, list[int]]]:
        return [(each.subscription, numbers(each.results)) for each in self.cluster.pull(channel, execution, broker)]

    def results(self, channel: str, id: int, after: int, same_as: int | None = None) -> list[tuple[int, list[int]]]:
        found = self.cluster.results(channel, id, after, strict=True, same_as=same_as)
        return [(each.execution, numbers(each.results)) for each in found]

    def outbox(self, broker: str) -> list[tuple[str, int]]:
        names = {each.id: each.name for each in self.cluster.channels.values()}
        entries = self.cluster.entries(self.cluster.broker(broker).id, 100)
        return [(names[entry.channel], entry.execution) for entry in entries]

    def notify(self, broker: str, count: int, *statuses: int) -> list[dict[str, Any]]:
        """The production dispatch, with a broker that answers at once."""
        dispatch, left, received = Dispatch(RetryPolicy(1e9, Random(1)), batch=2), list(statuses), list[Any]()

        def handle(event: on.Event) -> None:
            for it in dispatch.handle(event, self.clock):
                match it:
                    case on.ReadOutbox():
                        found = self.cluster.broker(broker)
                        handle(on.OutboxRead(self.cluster.entries(found.id, it.limit, it.known), found))
                    case on.MakeBatch():
                        handle(make_batch(it.entries, lambda entry, it=it: self._message(it.broker, entry)))
                    case on.Connect():
                        handle(on.Connected())
                    case on.Post():
                        status = left.pop(0) if left else 204
                        if status == 204:
                            body = json.loads(it.body)
                            received.extend(body if isinstance(body, list) else [body])
                        handle(on.Answered(status))
                    case on.Delete():
                        self.cluster.delete(it.entries)
                        handle(on.Deleted(it.entries))
                    case on.Pause():
                        handle(on.PauseEnded(it.id))

        handle(on.Wake())
        assert len(received) == count
        return received

    def create_role(self, name: str) -> None:
        self.cluster.create_role(name)

    def drop_role(self, name: str) -> None:
        self.cluster.drop_role(name)

    def grant(self, channel: str | None, role: str, **conditions: Required) -> None:
        self.cluster.grant("subscribe", channel, role, conditions)

    def revoke(self, channel: str | None, role: str, **conditions: Required) -> None:
        self.cluster.revoke("subscribe", channel, role, conditions)

    def grants(self) -> GrantTable:
        return self.cluster.grant_table()

    def _message(self, broker: Broker, entry: Any) -> bytes | None:
        found = self.cluster.message(broker, entry)
        if found is None:
            return None
        message = {"channel": found.channel, "epoch": found.epoch, "execution": found.execution}
        if found.results is not None:
            message["results"] = [
                {"subscription": each.subscription, "results": json.loads(each.results)} for each in found.results
            ]
        return json.dumps(message).encode()


class Real:
    def __init__(self, cluster: ManualCluster) -> None:
        self.cluster = cluster
        self.run("""
            CREATE ACTIVE DATASET Reports (n bigint NOT NULL, kind string NOT NULL);
            CREATE FEED reports; CONNECT FEED reports TO DATASET Reports; START FEED reports;
        """)

    def run(self, script: str) -> None:
        for _ in self.cluster.run(script):
            pass

    def create(self, channel: str, *, push: bool = False) -> None:
        kind = "REPETITIVE PUSH" if push else "REPETITIVE"
        self.run(
            f'CREATE {kind} CHANNEL {channel}(kind string) PERIOD duration("PT1H") '
            "{ SELECT r.n FROM Reports r WHERE is_new(r) AND r.kind = kind }"
        )

    def drop(self, channel: str) -> None:
        self.run(f"DROP CHANNEL {channel}")

    def epoch(self, channel: str) -> int:
        return self.cluster.epoch(channel)

    def position(self, channel: str) -> int:
        return self.cluster.position(channel)

    def register(self, broker: str) -> None:
        self.cluster.register_broker(broker, NOWHERE)

    def subscribe(self, channel: str, broker: str, *args: Any) -> list[int]:
        return self.cluster.subscribe(channel, broker, list(args)).result(120)

    def unsubscribe(self, channel: str, id: int, broker: str) -> int:
        return self.cluster.unsubscribe(channel, [id], broker).result(120)

    def change_broker(self, channel: str, id: int, source: str | None, target: str) -> int:
        return self.cluster.migrate(channel, id, None, source, target).result(120)

    def subscriptions(self, channel: str, broker: str) -> list[int]:
        return [each["subscription"] for each in self.cluster.subscriptions(channel, broker, 0, 100)]

    def begins_after(self, channel: str, id: int) -> int | None:
        return self.cluster.subscription(channel, id)["begins_after"]

    def publish(self, key: str, *records: Any) -> tuple[int, list[int]]:
        post = Post("reports", msgspec.json.encode(records), idempotency_key=key)
        receipt = self.cluster.publish(post).result(120)
        return receipt.accepted, [each.index for each in receipt.refused]

    def execute(self, channel: str) -> None:
        run = self.cluster.run_channel(channel)
        self.cluster.channel_manager.notifier.wake(run.brokers)

    def expire(self) -> None:
        self.cluster.maintenance.expire(now=time.time() + 1_000.0)

    def pull(self, channel: str, execution: int, broker: str) -> list[tuple[int, list[int]]]:
        lines = json_lines(self.cluster.pull(channel, execution, broker))
        return [(each["subscription"], [row["n"] for row in each["results"]]) for each in lines]

    def results(self, channel: str, id: int, after: int, same_as: int | None = None) -> list[tuple[int, list[int]]]:
        lines = json_lines(self.cluster.results(channel, id, after, strict=True, same_as=same_as))
        return [(each["execution"], [row["n"] for row in each["results"]]) for each in lines]

    def outbox(self, broker: str) -> list[tuple[str, int]]:
        definitions = self.cluster.context.definitions
        entries = self.cluster.context.catalog.outbox(definitions.get(Broker, broker).id)
        return [(definitions.by_id(entry.channel).name, entry.execution) for entry in entries]

    def notify(self, broker: str, count: int, *statuses: int) -> list[dict[str, Any]]:
        """By its own notifier, over HTTP."""
        listener = Listener(*statuses)
        try:
            self.cluster.register_broker(broker, listener.url)
            return listener.wait(count)
        finally:
            listener.close()

    def create_role(self, name: str) -> None:
        self.run(f"CREATE ROLE {name}")

    def drop_role(self, name: str) -> None:
        self.run(f"DROP ROLE {name}")

    def grant(self, channel: str | None, role: str, **conditions: Required) -> None:
        self.run(f"GRANT {self._subject(channel, conditions)} TO {role}")

    def revoke(self, channel: str | None, role: str, **conditions: Required) -> None:
        self.run(f"REVOKE {self._subject(channel, conditions)} FROM {role}")

    @staticmethod
    def _subject(channel: str | None, conditions: dict[str, Required]) -> str:
        pairs = [
            f"{name} = {f'claim({claim!r})' if claim is not None else repr(value)}"
            for name, (claim, value) in conditions.items()
        ]
        on = "ALL CHANNELS" if channel is None else f"CHANNEL {channel}"
        return f"SUBSCRIBE ON {on}" + (f" WITH ({', '.join(pairs)})" if pairs else "")

    def grants(self) -> GrantTable:
        return self.cluster.grants


def numbers(text: bytes) -> list[int]:
    return [row["n"] for row in json.loads(text)]


def json_lines(chunks: Any) -> Sequence[Any]:
    return [json.loads(line) for line in b"".join(chunks).splitlines()]
