"""Who gets the notifications of a BE subscription."""

from __future__ import annotations

from typing import Any

from tocsin.broker.core.events import Peer


class Audience(tuple[Peer, ...]):
    """Immutable: another one is made when a subscriber comes or goes. ``way`` is the driver's: how it gets there."""

    way: Any = None
