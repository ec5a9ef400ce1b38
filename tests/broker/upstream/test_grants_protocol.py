"""The broker follows the grants of the data cluster."""

from __future__ import annotations

from random import Random
from typing import Any

from tocsin.broker.core.events import GrantsChanged
from tocsin.broker.upstream.effects import Lost, Refused
from tocsin.broker.upstream.protocol import POLL, FetchGrants, UntilRegistered, UpstreamProtocol
from tocsin.effects import Pause
from tocsin.identity.grants import Grant, GrantTable

FIRST, SECOND = GrantTable(), GrantTable((Grant("user", "subscribe", "C"),), ("C",))


def test_every_version_of_the_grants_is_handled_once() -> None:
    events: list[Any] = []
    protocol = UpstreamProtocol(events.append, dict, Random(1), settle=lambda settled: None, ready=lambda: None)
    effects = protocol.follow_grants()
    assert next(effects) == UntilRegistered()
    assert effects.send(None) == FetchGrants("")
    assert effects.send(FIRST) == FetchGrants(FIRST.version)
    assert effects.send(FIRST) == FetchGrants(FIRST.version)  # nothing changed while the data cluster waited
    assert isinstance(effects.throw(Lost()), Pause)
    assert effects.send(None) == FetchGrants(FIRST.version)
    assert effects.throw(Refused({"code": "forbidden"}, 403)) == Pause(POLL)
    assert effects.send(None) == FetchGrants(FIRST.version)
    assert effects.send(SECOND) == FetchGrants(SECOND.version)
    assert events == [GrantsChanged(FIRST), GrantsChanged(SECOND)]
