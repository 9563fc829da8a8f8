"""Where requests go, what changes that, and how often the map is refreshed."""

import pytest

from opentalos.sdk.core.addressing import LEARNED_MAX, TOPICS_MAX, Addressing, Endpoints

A, B, C = (f"http://{name}:1" for name in "abc")


def known(addresses: dict[int, str], scheme: str = "http") -> Addressing:
    addressing = Addressing(scheme, 1.0)
    assert addressing.due("t", 0.0)
    addressing.learn("t", addresses)
    return addressing


def test_an_endpoint_is_used_until_it_fails() -> None:
    endpoints = Endpoints((A, B))
    assert endpoints.url == A
    endpoints.failed(A)
    endpoints.failed(A)  # reported twice by two requests
    assert endpoints.url == B
    endpoints.failed(B)
    assert endpoints.url == A


def test_servers_of_a_map_are_further_endpoints() -> None:
    endpoints = Endpoints((A,))
    endpoints.learn([B, A])
    endpoints.failed(A)
    assert endpoints.url == B
    endpoints.learn([C])  # the one in use stays though the map names it no more
    assert endpoints.url == B
    endpoints.failed(B)
    assert endpoints.url == C
    endpoints.failed(C)
    assert endpoints.url == A
    endpoints.learn([C])
    assert endpoints.count == 2


def test_the_number_of_learned_servers_is_bounded() -> None:
    endpoints = Endpoints((A,))
    endpoints.learn(f"http://x{number}:1" for number in range(1_000))
    assert endpoints.count == 1 + LEARNED_MAX


def test_a_map_names_the_server_of_a_partition() -> None:
    addressing = Addressing("http")
    assert addressing.url("t", 0) is None
    addressing = known({0: "a:1", 1: "b:1"})
    assert (addressing.url("t", 0), addressing.url("t", 1)) == (A, B)
    assert addressing.url("other", 0) is None


def test_servers_are_dialled_by_the_scheme_of_the_endpoints() -> None:
    assert known({0: "a:1"}, "https").url("t", 0) == "https://a:1"


def test_an_empty_map_sends_everything_to_the_endpoint_permanently() -> None:
    addressing = known({})
    assert addressing.url("t", 0) is None
    assert not addressing.due("t", 1_000.0)


def test_a_good_map_is_not_asked_for_again() -> None:
    assert not known({0: "a:1"}).due("t", 1_000.0)


def test_a_map_is_asked_for_at_most_once_per_interval() -> None:
    addressing = known({0: "a:1"})
    addressing.distrust("t")
    assert not addressing.due("t", 0.9)
    assert addressing.due("t", 1.0)
    assert not addressing.due("t", 1.5)  # asked, and not answered yet
    assert addressing.url("t", 0) == A  # used meanwhile


def test_a_server_that_does_not_answer_is_avoided_for_all_its_partitions() -> None:
    addressing = known({0: "a:1", 1: "b:1", 2: "a:1"})
    addressing.drop_server(A)
    assert [addressing.url("t", number) for number in range(3)] == [None, B, None]
    assert addressing.due("t", 2.0)


def test_a_partition_that_is_not_served_is_asked_for_at_the_endpoint() -> None:
    addressing = known({0: "a:1", 1: "a:1"})
    addressing.drop_partition("t", 0)
    assert (addressing.url("t", 0), addressing.url("t", 1)) == (None, A)
    assert addressing.due("t", 2.0)


def test_a_partition_that_the_map_lacks_makes_it_stale() -> None:
    addressing = known({0: "a:1"})
    assert addressing.url("t", 7) is None
    assert addressing.due("t", 2.0)


@pytest.mark.parametrize(
    "address", ["", "a", "a:", "a:0", ":1", "a:x", "a:1/path", "u@a:1", "a:99999", "a b:1", "[::1"]
)
def test_a_strange_address_is_left_out(address: str) -> None:
    assert known({0: address, 1: "b:1"}).url("t", 0) is None


def test_an_ipv6_address_is_one() -> None:
    assert known({0: "[::1]:8080"}).url("t", 0) == "http://[::1]:8080"


def test_the_number_of_maps_is_bounded() -> None:
    addressing = Addressing("http")
    for number in range(TOPICS_MAX + 10):
        assert addressing.due(f"t{number}", 0.0)
        addressing.learn(f"t{number}", {0: "a:1"})
    assert addressing.url("t0", 0) is None
    assert addressing.url(f"t{TOPICS_MAX}", 0) == A
