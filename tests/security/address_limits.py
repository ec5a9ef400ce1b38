"""The limits of one address in the servers of these tests."""

from __future__ import annotations

#: Connections to the broker.
CONNECTIONS = 30
#: Placements in a minute.
PLACEMENTS = 30
