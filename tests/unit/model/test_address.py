"""Client addresses: what counts as one client, and what is on this machine."""

import pytest

from opentalos.model.address import is_local, is_loopback, network_of


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("a-name", "a-name"),
    ],
)
def test_an_ipv6_client_is_its_network(address: str, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("::ffff:127.0.0.1", True),
        ("192.0.2.1", False), ("::2", False), ("", False), ("localhost.example", False),
    ],
)  # fmt: skip
def test_only_addresses_of_this_machine_are_loopback(address: str, local: bool) -> None:
    assert is_loopback(address) is local


def test_the_ipv6_loopback_is_not_lost_in_its_network() -> None:
    assert is_loopback(network_of("::1"))


def test_a_connection_to_an_own_address_does_not_leave_the_machine() -> None:
    assert is_local("192.0.2.1", ("192.0.2.1", 9420))
    assert is_local("127.0.0.1", ("127.0.0.1", 9420))
    assert not is_local("192.0.2.2", ("192.0.2.1", 9420))
    assert not is_local("", ("", 0))
    assert not is_local("192.0.2.1", None)
