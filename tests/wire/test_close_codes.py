"""Close codes, and which of them mean to reconnect."""

from __future__ import annotations

import pytest

from tocsin.wire import close_codes
from tocsin.wire.close_codes import CLOSES, Close, reconnect
from tocsin.wire.frames import check_close


def test_every_code_has_one_name():
    assert len({close.name for close in CLOSES.values()}) == len(CLOSES)


def test_every_close_of_the_module_is_listed():
    named = {value.code for value in vars(close_codes).values() if isinstance(value, Close)}
    assert named == set(CLOSES)


@pytest.mark.parametrize("close", CLOSES.values(), ids=lambda close: close.name)
def test_every_code_may_be_sent(close):
    check_close(close.code.to_bytes(2, "big"))


@pytest.mark.parametrize("close", CLOSES.values(), ids=lambda close: close.name)
def test_the_range_of_our_own_codes_says_whether_to_reconnect(close):
    assert reconnect(close.code) is close.reconnect
    assert close.code < 4000 or close.reconnect is (close.code >= 4100)


@pytest.mark.parametrize("code", [None, 1006])
def test_after_a_broken_connection_the_client_reconnects(code):
    assert reconnect(code)


@pytest.mark.parametrize(("code", "expected"), [(4099, False), (4199, True), (1012, True), (3000, True), (1010, False)])
def test_the_range_of_an_unknown_code_says_whether_to_reconnect(code, expected):
    assert reconnect(code) is expected
