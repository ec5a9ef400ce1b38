from __future__ import annotations

import msgspec
import pytest

from tocsin.balancing.host import messages as ms
from tocsin.balancing.host.actions import Migrate, Split
from tocsin.balancing.host.load_information import LoadInformation

ABOUT = LoadInformation("a", "items", 1.5, 2.0, optimal=3.0, threshold=4.0, units=(("u", 1.5),))
ALL = [
    ms.Push((ABOUT,)),
    ms.Pull(7, "a", 3),
    ms.Report(7, (ABOUT, ABOUT)),
    ms.Advise("items", (Migrate("a", "b", 1.0, "", ("u",)), Split("a", "b", cut="centroid"))),
    ms.Request("a/0/1", "items", (Migrate("a", "b", 1.0, "", ("u",)),)),
    ms.Accept("a/0/1"),
    ms.Decline("a/0/1", "because"),
    ms.Done("a/0/1", (0, 2), "time-out"),
]


@pytest.mark.parametrize("message", ALL, ids=lambda message: type(message).__name__)
def test_a_message_survives_the_wire(message):
    for codec in (msgspec.json, msgspec.msgpack):
        assert codec.decode(codec.encode(message), type=ms.Message) == message


@pytest.mark.parametrize(
    "text",
    [b"{}", b'{"type": "Shout"}', b'{"type": "Pull", "number": "x", "origin": "a"}', b'{"type": "Accept"}', b"[1]"],
)
def test_what_is_no_message_is_refused(text):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=ms.Message)
