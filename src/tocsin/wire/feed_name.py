"""The names of feeds as channels: a content subscription is one to a channel whose name begins with ``feed:``."""

from __future__ import annotations

PREFIX = "feed:"
#: The one parameter of such a channel: the condition, in either notation.
WHERE = "where"
#: The condition that every publication meets.
ALL = "TRUE"


def channel_of(feed: str) -> str:
    return PREFIX + feed


def feed_of(channel: str) -> str | None:
    """The feed's name; None for any other channel."""
    return channel[len(PREFIX) :] if channel[: len(PREFIX)].lower() == PREFIX else None
