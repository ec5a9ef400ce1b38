"""Parts exchange keys with a join secret that never travels, and verify each other's tokens."""

from __future__ import annotations

import socket
import stat

import jwt
import msgspec
import pytest

from tocsin.errors import StorageError, Unauthorized, UserError
from tocsin.identity.part_keys import LIFETIME, RENEWED, SKEW, PartGate, PartKey, Peer, require_join_secret
from tocsin.wire.join import Join, Joined

URL = "http://127.0.0.1:8490/notify"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Pair:
    """A broker and the data cluster that it joins."""

    def __init__(self, secret: str = "the secret", others: str | None = None) -> None:
        self.clock = Clock()
        self.own = PartKey(b"b" * 32, "north", self.clock)
        self.cluster = PartKey(b"c" * 32, "data cluster", self.clock)
        self.peer = Peer("data cluster", self.own, secret)
        self.gate = PartGate("data cluster", self.cluster, secret if others is None else others)

    def join(self) -> None:
        join = self.peer.join(URL)
        answer = self.gate.admit("north", URL, join, "")
        assert answer is not None
        self.peer.joined(join, answer)

    def sends(self, token: str | None = None, key: str | None = None) -> bool:
        """Whether the gate knows who sent a request with this token."""
        value = self.peer.headers["tocsin-part"] if token is None else token
        known = self.own.public if key is None else key
        found = self.gate.sender([(b"tocsin-part", value.encode())], lambda name: known if name == "north" else "")
        return found is not None and found == ("north", self.own.public)


@pytest.mark.parametrize("secret", ["", "the secret", "straße"])
def test_a_broker_joins_and_then_signs_its_requests(secret):
    pair = Pair(secret)
    assert pair.peer.headers == {}
    pair.join()
    assert pair.peer.key == pair.cluster.public and pair.sends()


def test_the_secret_never_travels():
    pair = Pair("the secret")
    join = pair.peer.join(URL)
    answer = pair.gate.admit("north", URL, join, "")
    assert b"the secret" not in msgspec.json.encode([join, answer])


@pytest.mark.parametrize(("mine", "theirs"), [("", "s"), ("s", ""), ("one", "other")])
def test_a_broker_with_another_secret_is_refused(mine, theirs):
    pair = Pair(mine, theirs)
    with pytest.raises(Unauthorized, match="does not know the join secret"):
        pair.gate.admit("north", URL, pair.peer.join(URL), "")


@pytest.mark.parametrize(
    "change", [{"key": PartKey(b"x" * 32, "x").public}, {"time": 1_000_001.0}, {"signature": "AAAA"}, {"key": "ä"}]
)
def test_a_join_that_was_changed_on_the_way_is_refused(change):
    pair = Pair("")
    with pytest.raises(Unauthorized):
        pair.gate.admit("north", URL, msgspec.structs.replace(pair.peer.join(URL), **change), "")


@pytest.mark.parametrize(("name", "url"), [("south", URL), ("north", "http://evil.example/notify")])
def test_a_join_is_valid_only_for_its_name_and_address(name, url):
    pair = Pair()
    with pytest.raises(Unauthorized):
        pair.gate.admit(name, url, pair.peer.join(URL), "")


def test_a_join_is_valid_only_at_the_part_that_it_names():
    pair = Pair()
    with pytest.raises(Unauthorized):
        PartGate("coordinator", pair.cluster, "the secret").admit("north", URL, pair.peer.join(URL), "")


@pytest.mark.parametrize("seconds", [LIFETIME + 1, -LIFETIME - 1])
def test_an_old_join_is_refused_and_the_error_names_the_clocks(seconds):
    pair = Pair()
    join = pair.peer.join(URL)
    pair.clock.now += seconds
    with pytest.raises(Unauthorized, match="clocks of north and the data cluster differ by 61 s"):
        pair.gate.admit("north", URL, join, "")


def test_a_known_key_needs_the_secret_no_more():
    pair = Pair("old", "new")
    assert pair.gate.admit("north", URL, pair.peer.join(URL), pair.own.public) is not None


def test_a_part_without_a_key_is_admitted_only_without_a_secret():
    assert Pair("").gate.admit("north", URL, None, "") is None
    with pytest.raises(Unauthorized):
        Pair("s").gate.admit("north", URL, None, "")
    with pytest.raises(Unauthorized):
        Pair("").gate.admit("north", URL, None, "a known key")


@pytest.mark.parametrize("answer", [Joined(""), Joined("key"), Joined("key", "0" * 64), Joined("key", "ä")])
def test_a_receiver_that_does_not_know_the_secret_is_not_joined(answer):
    pair = Pair()
    with pytest.raises(Unauthorized, match="the data cluster does not know the join secret"):
        pair.peer.joined(pair.peer.join(URL), answer)
    assert pair.peer.key == ""


def test_the_answer_to_another_join_is_refused():
    pair = Pair()
    first = pair.peer.join(URL)
    answer = pair.gate.admit("north", URL, first, "")
    pair.clock.now += 1
    with pytest.raises(Unauthorized):
        pair.peer.joined(pair.peer.join(URL), answer)


def test_a_token_is_used_again_for_some_seconds_and_then_renewed():
    pair = Pair()
    pair.join()
    first = pair.peer.headers
    pair.clock.now += RENEWED - 1
    assert pair.peer.headers == first and pair.sends()
    pair.clock.now += 1
    assert pair.peer.headers != first and pair.sends()


@pytest.mark.parametrize("jump", [-8 * 86_400.0, 8 * 86_400.0])
def test_after_a_jump_of_the_clock_a_new_token_is_made(jump):
    pair = Pair()
    pair.join()
    assert pair.sends()
    pair.clock.now += jump
    assert pair.sends()


def test_a_captured_token_is_refused_when_it_has_expired():
    pair = Pair()
    pair.join()
    token = pair.peer.headers["tocsin-part"]
    pair.clock.now += LIFETIME + SKEW
    assert pair.sends(token)
    pair.clock.now += 1
    assert not pair.sends(token)
    fresh = Pair()
    fresh.clock.now = pair.clock.now
    assert not fresh.sends(token), "one that was never verified before"


def test_a_verified_token_is_refused_when_the_name_gets_another_key():
    pair = Pair()
    pair.join()
    token = pair.peer.headers["tocsin-part"]
    assert pair.sends(token)
    assert not pair.sends(token, key=PartKey(b"x" * 32, "x").public)
    assert not pair.sends(token, key="")


def claims(**changes: object) -> dict[str, object]:
    good = {"iss": "north", "aud": PartKey(b"c" * 32, "").public, "iat": 1_000_000, "exp": 1_000_060}
    return {name: value for name, value in (good | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("token", "accepted"),
    [
        (claims(), True),
        (claims(aud="another"), False),
        (claims(iss="south"), False),
        (claims(exp=1_086_400), False),
        (claims(exp=None), False),
        (claims(iat=None), False),
        (claims(aud=None), False),
        (claims(iss=None), False),
        (claims(iat="soon"), False),
        (claims(iat=1_000_040, exp=1_000_050), False),
    ],
)
def test_a_token_has_to_name_sender_receiver_and_a_short_time(token, accepted):
    pair = Pair()
    assert pair.sends(jwt.encode(token, pair.own._private, "EdDSA")) is accepted


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "ÿ", "e30.e30.", jwt.encode(claims(), "k" * 32, "HS256")])
def test_what_is_not_a_signed_token_is_refused(token):
    assert not Pair().sends(token)


def test_a_token_without_a_signature_is_refused():
    assert not Pair().sends(jwt.encode(claims(), None, "none"))


def test_a_key_is_made_once_and_only_its_owner_can_read_it(tmp_path):
    file = tmp_path / "part.key"
    first = PartKey.load(file, "north")
    assert PartKey.load(file, "north").public == first.public
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert PartKey.load(tmp_path / "other.key", "north").public != first.public


def test_a_damaged_key_is_refused(tmp_path):
    (tmp_path / "part.key").write_bytes(b"half")
    with pytest.raises(StorageError, match=r"part\.key"):
        PartKey.load(tmp_path / "part.key", "north")


def test_a_part_beyond_loopback_or_without_anonymous_rights_requires_a_join_secret():
    with socket.socket() as inside, socket.socket() as public:
        inside.bind(("127.0.0.1", 0))
        public.bind(("0.0.0.0", 0))
        require_join_secret("", "TOCSIN_BROKER_JOIN_SECRET", "broker", inside)
        require_join_secret("secret", "TOCSIN_BROKER_JOIN_SECRET", "broker", inside, public)
        with pytest.raises(UserError) as refused:
            require_join_secret("", "TOCSIN_BROKER_JOIN_SECRET", "broker", inside, public)
        assert "TOCSIN_BROKER_JOIN_SECRET" in refused.value.hint
        with pytest.raises(UserError, match="anonymous = none needs a join secret"):
            require_join_secret("", "TOCSIN_BROKER_JOIN_SECRET", "broker", inside, anonymous="none")
        require_join_secret("secret", "TOCSIN_BROKER_JOIN_SECRET", "broker", inside, anonymous="none")


def test_a_join_without_its_fields_is_not_one():
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"key": "k"}, Join)
