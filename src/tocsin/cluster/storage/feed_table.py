"""The content subscriptions of one feed: BE subscriptions whose only argument is a condition on the feed's records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from tocsin.cluster.model import Channel
from tocsin.cluster.storage.segments import SegmentStore
from tocsin.cluster.storage.subscription_table import SubscriptionTable
from tocsin.content import Attributes, Condition
from tocsin.errors import TypeMismatch
from tocsin.wire.feed_name import ALL

#: Conditions that stay parsed.
PARSED = 1_000


class FeedTable(SubscriptionTable):
    """Conditions with the same canonical SQL are one subscription, in whichever notation they were written."""

    def __init__(self, channel: Channel, store: SegmentStore) -> None:
        super().__init__(channel, store)
        self.attributes = Attributes.of_columns(channel.columns)
        self._parsed = lru_cache(maxsize=PARSED)(lambda text: Condition.parse(text, self.attributes))

    def canonical(self, args: Sequence[Any] | Mapping[str, Any]) -> str:
        (text,) = self._by_name(args) if isinstance(args, Mapping) else self._by_position(args)
        if not isinstance(text, str):
            raise TypeMismatch(f"a condition is a text, not {type(text).__name__}", hint=self._signature())
        return msgspec.json.encode([Condition.parse(text.strip() or ALL, self.attributes).to_sql()]).decode()

    def condition(self, id: int) -> Condition:
        text = self.text(id)
        if text is None:
            raise self.missing(id)
        found: Condition = self._parsed(msgspec.json.decode(text)[0])
        return found
