"""Limits of keys; whom a client certificate names."""

import pytest

from opentalos.model.identity import KeyLimits, PeerCertificate, Scope, parse_rules, principal_of

WIDE = KeyLimits(
    scopes=(Scope.GET, Scope.MANAGE), expires_ms=1_000, addresses=("10.0.0.0/8", "2001:db8::/32")
)


@pytest.mark.parametrize(
    ("limits", "inside"),
    [
        (WIDE, True),
        (KeyLimits(scopes=(Scope.GET,), expires_ms=999, addresses=("10.1.0.0/16",)), True),
        (KeyLimits(scopes=(Scope.GET,), expires_ms=1_000, addresses=("2001:db8:1::/48",)), True),
        (KeyLimits(), False),
        (KeyLimits(expires_ms=999, addresses=("10.1.0.0/16",)), False),
        (KeyLimits(scopes=(Scope.PUT,), expires_ms=999, addresses=("10.1.0.0/16",)), False),
        (KeyLimits(scopes=(Scope.GET,), addresses=("10.1.0.0/16",)), False),
        (KeyLimits(scopes=(Scope.GET,), expires_ms=1_001, addresses=("10.1.0.0/16",)), False),
        (KeyLimits(scopes=(Scope.GET,), expires_ms=999), False),
        (KeyLimits(scopes=(Scope.GET,), expires_ms=999, addresses=("11.0.0.0/8",)), False),
        (KeyLimits(scopes=(Scope.GET,), expires_ms=999, addresses=("0.0.0.0/0",)), False),
    ],
)
def test_narrower_limits_are_told_from_wider_ones(limits: KeyLimits, inside: bool) -> None:
    assert limits.within(WIDE) is inside
    assert limits.within(KeyLimits())


def test_scopes_have_one_order_and_each_appears_once() -> None:
    mixed = KeyLimits(scopes=(Scope.ADMIN, Scope.PUT, Scope.PUT))
    assert mixed.scopes == (Scope.PUT, Scope.ADMIN)
    assert mixed == KeyLimits(scopes=(Scope.PUT, Scope.ADMIN))


@pytest.mark.parametrize("address", ["10.0.0.1/8", "10.0.0.0/33", "example.com", ""])
def test_a_network_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"host bits|does not appear"):
        KeyLimits(addresses=(address,))


def test_a_single_address_is_a_network_too() -> None:
    limits = KeyLimits(addresses=("10.0.0.1", "::1"))
    assert limits.addresses == ("10.0.0.1/32", "::1/128")
    assert [limits.admits(peer) for peer in ("10.0.0.1", "::1", "10.0.0.2")] == [True, True, False]


RULES = parse_rules("uri=spiffe://example/queue/*, dns=*.clients.example cn=*")
NOW_S = 1_000.0


def _certificate(*names: tuple[str, str]) -> PeerCertificate:
    return PeerCertificate(names, NOW_S + 1)


@pytest.mark.parametrize(
    ("names", "principal"),
    [
        ([("uri", "spiffe://example/queue/alice")], "alice"),
        ([("dns", "bob.clients.example"), ("cn", "carol")], "bob"),
        ([("dns", "bob.servers.example"), ("cn", "carol")], "carol"),
        ([("cn", "x"), ("uri", "spiffe://example/queue/alice")], "alice"),
        ([("email", "alice@example")], ""),
        ([("dns", ".clients.example")], ""),
        ([("dns", "bob.clients.example"), ("dns", "eve.clients.example"), ("cn", "x")], ""),
        ([("dns", "bob.clients.example"), ("dns", "bob.clients.example")], "bob"),
        ([], ""),
    ],
)
def test_the_first_rule_that_matches_decides(names: list[tuple[str, str]], principal: str) -> None:
    assert principal_of(RULES, _certificate(*names), NOW_S) == principal


def test_a_certificate_that_expired_during_its_connection_names_nobody() -> None:
    assert principal_of(RULES, _certificate(("cn", "alice")), NOW_S + 1) == ""


@pytest.mark.parametrize(
    "text", ["", "cn", "cn=alice", "ou=*", "cn=*-*", "dns=*;cn=*", ",", "cn=* " * 33]
)
def test_rules_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="client_principals must"):
        parse_rules(text)
