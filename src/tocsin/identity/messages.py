"""The requests about users: what people ask for, and what brokers have stored for them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from tocsin.wire.messages import Arguments, DurableSubscription
from tocsin.wire.position import Position

UserName = Annotated[str, Meta(max_length=1_024, description="1 to 128 visible characters, without / and %")]
Password = Annotated[str, Meta(max_length=1_024, description="8 to 256 characters, 5 different ones")]

# -- from people -------------------------------------------------------------------------------------------------------


class Call(Struct, frozen=True, tag_field="call", forbid_unknown_fields=True):
    """A request of a person, which a broker passes on to the coordinator."""


class Register(Call, frozen=True, tag="registeruser"):
    """A new user."""

    user: UserName
    password: Password


class LogIn(Call, frozen=True, tag="login"):
    """One device of a user begins a session, or continues its own."""

    user: UserName
    password: Password
    device: Annotated[str, Meta(max_length=128)] = "default"


class Refresh(Call, frozen=True, tag="refresh"):
    """Another access token for the same session."""

    refresh: Annotated[str, Meta(max_length=256)]


class ChangePassword(Call, frozen=True, tag="changepassword"):
    """All tokens of the user end; durable subscriptions stay."""

    user: UserName
    password: Password
    new_password: Password


class DeleteUser(Call, frozen=True, tag="deleteuser"):
    """The user, its sessions and all that is kept for them."""

    user: UserName
    password: Password


class LogOut(Call, frozen=True, tag="logout"):
    """The session of this token ends, with its durable subscriptions."""

    token: Annotated[str, Meta(max_length=8_192)]


AnyCall = Register | LogIn | Refresh | ChangePassword | DeleteUser | LogOut


class Tokens(Struct, frozen=True):
    """``token`` authenticates the session, and ``refresh`` gets the next token."""

    token: str
    expires: Annotated[float, Meta(description="when the token expires, in seconds since 1970")]
    seconds: Annotated[float, Meta(description="for which the token is valid")]
    refresh: str


class Changed(Struct, frozen=True):
    user: str


class UserInfo(Struct, frozen=True):
    """What an operator sees of a user."""

    user: str
    roles: list[str]
    devices: Annotated[int, Meta(description="sessions that have not expired")]
    subscriptions: Annotated[int, Meta(description="that are durable, on all devices")]


class UserList(Struct, frozen=True):
    users: list[UserInfo]


class PassedOn(Struct, frozen=True, forbid_unknown_fields=True):
    """A call that came to a broker from ``address``."""

    call: AnyCall
    address: str = ""


# -- from brokers ------------------------------------------------------------------------------------------------------


class Command(Struct, frozen=True, tag=True):
    """Of a broker to the store of users. Each may be repeated."""


class Attach(Command, frozen=True):
    """This broker serves the session from now on; another one that did so releases it. ``issued``: its token's time."""

    session: str
    user: str
    issued: float


class Remember(Command, frozen=True):
    """Store a durable subscription of the user's session."""

    user: str
    subscription: int
    channel: str
    args: Arguments
    position: Position


class ChangeId(Command, frozen=True):
    """The durable subscription ``previous_id`` is ``subscription`` now. ``previous_id`` has no results after ``until``;
    the user is not further than ``position``."""

    user: str
    previous_id: int
    subscription: int
    until: Position
    position: Position


class Forget(Command, frozen=True):
    user: str
    subscription: int


class Acknowledge(Command, frozen=True):
    user: str
    positions: dict[int, Position]


class Served(Command, frozen=True):
    """All sessions that this broker served last."""


class Use(Command, frozen=True):
    """These sessions are connected to this broker: they do not expire. Those of ``offline`` may be elsewhere."""

    connected: list[str]
    offline: list[str]


AnyCommand = Attach | Remember | ChangeId | Forget | Acknowledge | Served | Use


class Outcome(Struct, frozen=True, omit_defaults=True):
    """Of one command. ``sessions``: those that this broker serves, with what is durable for each. ``elsewhere``: those
    that it has to release. ``error``: why the command was refused."""

    sessions: dict[str, list[DurableSubscription]] = field(default_factory=dict)
    elsewhere: list[str] = field(default_factory=list)
    error: dict[str, Any] | None = None


#: Of a command that has nothing to say.
NOTHING = Outcome()


class Revocation(Struct, frozen=True):
    """Tokens of the user that were issued before ``before`` are void: of one session, or of all ('').

    ``ended``: what was durable for the session has ended too.
    """

    number: int
    user: str
    session: str
    before: float
    until: Annotated[float, Meta(description="when the last of these tokens expires")]
    ended: bool = False


class Exchange(Struct, frozen=True, forbid_unknown_fields=True):
    """What a broker asks of the store, in order, and the last revocation that it knows."""

    revocation: int = 0
    unknown_key: Annotated[str, Meta(description="issuer of a token that is signed with a key that is not known")] = ""
    commands: Annotated[list[AnyCommand], Meta(max_length=10_000)] = field(default_factory=list)
    incarnation: Annotated[str, Meta(max_length=64, description="of the broker's process")] = ""
    number: Annotated[int, Meta(description="of the exchange; one that arrives after a later one is refused")] = 0


class TrustedIssuer(Struct, frozen=True):
    """Whose tokens are accepted: the network's own, and those of an identity provider. ``jwks`` are its keys."""

    issuer: str
    audience: str
    roles: str
    jwks: dict[str, Any]


class Exchanged(Struct, frozen=True):
    """The outcome of each command, the revocations since, and what verifies tokens."""

    outcomes: list[Outcome]
    revocations: list[Revocation]
    issuers: list[TrustedIssuer]
