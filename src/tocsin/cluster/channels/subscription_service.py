"""The subscription desk: subscribe, unsubscribe, move; typed, checked, durable before they are confirmed."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any

import msgspec

from tocsin.cluster.context import ClusterContext
from tocsin.cluster.model import Broker, Channel
from tocsin.cluster.storage.catalog import Unwant, Want
from tocsin.cluster.storage.subscription_table import SubscriptionTable
from tocsin.errors import Conflict, LimitExceeded, NotFound

Arguments = Sequence[Any] | Mapping[str, Any]


class SubscriptionService:
    def __init__(self, context: ClusterContext) -> None:
        self.context = context
        self._lock = threading.Lock()
        self._promised: dict[tuple[int, str], int] = {}
        self._leaving: dict[int, Future[int]] = {}

    def subscribe(self, channel: str, broker: str, args: Sequence[Arguments]) -> Future[list[int]]:
        """Ids in the order of ``args``. Once they are there, every execution that starts includes them."""
        limit = self.context.config.limits.subscriptions_per_request
        if len(args) > limit:
            raise LimitExceeded(f"{len(args)} subscriptions in one request, at most {limit}", limit=limit)
        found, table = self._channel(channel)
        wanting = self.context.definitions.get(Broker, broker)
        texts = [table.canonical(values) for values in args]
        ids = self._identities(found, table, texts)
        wants = [Want(number, found.id, text, wanting.id) for number, text in zip(ids, texts, strict=True)]

        def applied(_: int) -> list[int]:
            for number, text in zip(ids, texts, strict=True):
                table.add(number, text, wanting.id)
            return ids

        future: Future[list[int]] = self.context.committer.submit(want=wants, applied=applied)
        future.add_done_callback(lambda _: self._settle(found.id, texts))
        return future

    def unsubscribe(self, channel: str, ids: Sequence[int], broker: str | None = None) -> Future[int]:
        """How many the broker (None: anybody) really had."""
        found, table = self._channel(channel)
        leaving = None if broker is None else self.context.definitions.get(Broker, broker).id
        for number in ids:
            self._known(table, found, number)

        def applied(_: int) -> int:
            return sum(table.discard(number, leaving) for number in ids)

        with self._lock:
            unwant = [Unwant(number, leaving) for number in ids]
            future: Future[int] = self.context.committer.submit(unwant=unwant, applied=applied)
            self._leaving.update(dict.fromkeys(ids, future))
        future.add_done_callback(lambda _: self._left(ids, future))
        return future

    def move(self, channel: str, number: int, args: Arguments | None, source: str | None, target: str) -> Future[int]:
        """To another broker, in one commit: no execution sees it on neither. Other ``args`` give another id."""
        found, table = self._channel(channel)
        self._known(table, found, number)
        subscription = table.get(number)
        to = self.context.definitions.get(Broker, target)
        if source is not None:
            origin = self.context.definitions.get(Broker, source).id
            if origin not in subscription.brokers:
                raise Conflict(f"broker {source!r} has no subscription {number}", subscription=number)
        elif len(subscription.brokers) == 1:
            origin = next(iter(subscription.brokers))
        else:
            holders = sorted(self.context.definitions.by_id(item).name for item in subscription.brokers)
            hint = f"say which: FROM {' or FROM '.join(holders)}"
            raise Conflict(f"several brokers have subscription {number}", hint=hint, brokers=holders)
        before = msgspec.json.encode(list(subscription.args)).decode()
        text = table.canonical(args) if args is not None else table.canonical(msgspec.json.decode(before))
        (other,) = self._identities(found, table, [text])

        def applied(_: int) -> int:
            table.add(other, text, to.id)
            if (other, to.id) != (number, origin):
                table.discard(number, origin)
            return other

        unwant = [] if (other, to.id) == (number, origin) else [Unwant(number, origin)]
        want = [Want(other, found.id, text, to.id)]
        future: Future[int] = self.context.committer.submit(want=want, unwant=unwant, applied=applied)
        future.add_done_callback(lambda _: self._settle(found.id, [text]))
        return future

    def _channel(self, name: str) -> tuple[Channel, SubscriptionTable]:
        channel = self.context.definitions.get(Channel, name)
        return channel, self.context.tables[channel.id]

    @staticmethod
    def _known(table: SubscriptionTable, channel: Channel, number: int) -> None:
        if not table.brokers(number):
            raise NotFound("subscription", str(number), hint=f"SELECT * FROM {channel.name}Subscriptions lists them")

    def _identities(self, channel: Channel, table: SubscriptionTable, texts: Sequence[str]) -> list[int]:
        """Identical subscriptions share an id, also those that are being committed at this moment.

        An id whose last broker may just be leaving is not handed out: the commit that decides it is waited for.
        """
        while True:
            with self._lock:
                known = [table.find(text) or self._promised.get((channel.id, text)) for text in texts]
                busy = {self._leaving[number] for number in known if number is not None and number in self._leaving}
                if not busy:
                    for place, text in enumerate(texts):
                        number = known[place] or self._promised.get((channel.id, text)) or self.context.catalog.new_id()
                        known[place] = self._promised[channel.id, text] = number
                    return [number for number in known if number is not None]
            wait(busy)

    def _settle(self, channel: int, texts: Sequence[str]) -> None:
        with self._lock:
            for text in texts:
                self._promised.pop((channel, text), None)

    def _left(self, ids: Sequence[int], future: Future[int]) -> None:
        with self._lock:
            for number in ids:
                if self._leaving.get(number) is future:
                    del self._leaving[number]
