"""Which addresses a broker may have."""

from __future__ import annotations

import pytest

from tocsin.cluster.notify.broker_address import BrokerAddresses
from tocsin.errors import UserError


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "ftp://127.0.0.1",
        "http:",
        "http://",
        "http:///",
        "http:///notify",
        "http://[::1/",
        "http://::1/",
        "http://[127.0.0.1",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:0",
        "http://127.0.0.1:-1",
        "http://127.0.0.1:port",
        "http://127.0.0.1:",
        "http://127.0.0.1/admin/delete",
        "http://127.0.0.1/notify/",
        "http://127.0.0.1/../notify",
        "http://127.0.0.1/notify?x=1",
        "http://127.0.0.1/?",
        "http://127.0.0.1/#part",
        "http://user:password@127.0.0.1/",
        "http://127.0.0.1\\@198.51.100.1/",
        "http://127.0.0.1 /",
        "http://127.0.0.1\r\nHost: x/",
        "http://127.0.0.%31/",
        "http://" + "a" * 2_000,
    ],
)
def test_a_malformed_address_is_refused(url: str) -> None:
    with pytest.raises(UserError, match=r"is not the address of a broker|is not known"):
        BrokerAddresses(["0.0.0.0/0", "::/0"], "127.0.0.1").check(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/notify",
        "https://127.0.0.1",
        "http://localhost:1/",
        "http://[::1]:8483/notify",
        "http://0.0.0.0:1/inner/notify",
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "0.0.0.0", "10.0.0.1"])
def test_a_broker_on_the_same_machine_is_always_allowed_by_default(url: str, host: str) -> None:
    assert BrokerAddresses([], host).check(url) == url


@pytest.mark.parametrize("host", ["10.1.2.3", "172.31.0.1", "192.168.1.1", "[fd00::1]"])
def test_private_networks_are_allowed_by_default_unless_the_data_cluster_listens_on_loopback(host: str) -> None:
    assert BrokerAddresses([], "0.0.0.0").check(f"http://{host}:8483/notify")
    with pytest.raises(UserError, match="must not be"):
        BrokerAddresses([], "127.0.0.1").check(f"http://{host}:8483/notify")


@pytest.mark.parametrize(
    "host", ["198.51.100.1", "169.254.169.254", "[2001:db8::1]", "[::ffff:198.51.100.1]", "33252567"]
)
def test_other_addresses_are_refused_by_default(host: str) -> None:
    with pytest.raises(UserError, match=r"must not be|not known|is not the address"):
        BrokerAddresses([], "0.0.0.0").check(f"http://{host}/notify")


def test_the_setting_replaces_the_defaults() -> None:
    addresses = BrokerAddresses(["198.51.100.0/24", "Broker-North"], "127.0.0.1")
    addresses.check("http://198.51.100.7/notify")
    addresses.check("https://broker-north:8483/notify")  # a listed name need not be known yet
    for refused in ("127.0.0.1", "198.51.101.1", "broker-south.invalid"):
        with pytest.raises(UserError):
            addresses.check(f"http://{refused}/notify")


@pytest.mark.parametrize("entry", ["10.0.0.0/33", "10.0.0", "http://x", "::1/200", ""])
def test_a_wrong_entry_of_the_setting_is_refused(entry: str) -> None:
    with pytest.raises(UserError, match="broker_addresses"):
        BrokerAddresses([entry], "127.0.0.1")
