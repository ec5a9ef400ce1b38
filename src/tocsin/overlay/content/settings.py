"""Times and sizes of heads and edges."""

from __future__ import annotations

from msgspec import Struct


class Settings(Struct, frozen=True):
    """Times are in seconds, counted from the last message of a neighbour where they are about silence."""

    hello_every: float = 0.5
    heartbeat_every: float = 1.0
    resend_after: float = 0.5
    #: A neighbour that is silent for this long is not chosen for clients, and another run may take over its name.
    silent_after: float = 3.0
    #: After this its announcements and all that waits for it are dropped.
    forget_after: float = 60.0
    #: A link that comes back without what waited on it: until then its paths are found again.
    settled_after: float = 3.0
    #: A refused link is tried again, because the reason may have ended.
    retry_refused_every: float = 10.0
    #: A client that did not follow a redirection gets it again.
    redirect_every: float = 5.0
    #: A client that was redirected this many times is accepted, and migrates once the roles are known.
    most_redirects: int = 4
    #: Messages in flight on a link.
    window: int = 64
    #: Publications that wait for one neighbour; more are discarded, each with an instruction.
    most_waiting: int = 10_000
    #: Heads that have left whose last publication is remembered.
    most_departed: int = 1_000
