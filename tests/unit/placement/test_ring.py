"""The hash ring."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.model.message import PartitionKey
from opentalos.placement.ring import (
    SECTORS,
    Ring,
    by_sector,
    node_points,
    partition_key,
    point_of,
)

KEYS = [partition_key(PartitionKey("topic", number)) for number in range(400)]
quick = settings(max_examples=40, deadline=None)
counts = st.lists(st.integers(0, 3), min_size=SECTORS, max_size=SECTORS).filter(any)
servers = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 80) | counts, min_size=1
)


def owners(ring: Ring) -> list[str]:
    return [ring.owner(key) for key in KEYS]


def test_a_point_is_the_same_in_every_process() -> None:
    """Golden values: another hash would move every partition at an upgrade."""
    assert point_of("0e1d/7") == 0xC31BD793B1E5949D
    assert list(node_points("one", 3, 2)) == [0x18C564142E2D55C6, 0x1D392BB2B65C08BF]


@quick
@given(servers)
def test_the_order_of_servers_does_not_matter(found: dict[str, int | list[int]]) -> None:
    assert owners(Ring(found)) == owners(Ring(dict(reversed(found.items()))))


@quick
@given(servers, st.integers(0, SECTORS - 1))
def test_a_new_node_takes_keys_only_for_its_server(
    found: dict[str, int | list[int]], sector: int
) -> None:
    name = min(found)
    more = list(by_sector(found[name]))
    more[sector] += 1
    before, after = owners(Ring(found)), owners(Ring({**found, name: more}))
    assert {new for old, new in zip(before, after, strict=True) if old != new} <= {name}


@quick
@given(servers)
def test_a_server_that_leaves_moves_only_its_own_keys(found: dict[str, int | list[int]]) -> None:
    if len(found) == 1:
        return
    gone = max(found)
    rest = {name: nodes for name, nodes in found.items() if name != gone}
    before, after = owners(Ring(found)), owners(Ring(rest))
    assert all(old == new for old, new in zip(before, after, strict=True) if old != gone)
    assert gone not in after


@quick
@given(st.integers(1, 300))
def test_one_number_is_spread_evenly_over_the_sectors(count: int) -> None:
    spread = by_sector(count)
    assert sum(spread) == count
    assert max(spread) - min(spread) <= 1


def test_equal_servers_get_about_equal_shares() -> None:
    ring = Ring({f"server-{number}": 128 for number in range(10)})
    found = Counter(ring.owner(f"topic/{number}") for number in range(20_000))
    assert len(found) == 10
    assert max(found.values()) < 1.3 * 2_000
    assert min(found.values()) > 0.7 * 2_000


def test_a_walk_ends_when_it_met_all_servers() -> None:
    """A plan walks for each partition; all nodes of 100 servers are 12,800."""

    class Counted(list[str]):
        reads = 0

        def __getitem__(self, place):  # type: ignore[no-untyped-def]
            self.reads += 1
            return super().__getitem__(place)

    ring = Ring({"a": 512, "b": 512})
    met = ring._servers = Counted(ring._servers)
    assert sorted(ring.walk("key")) == ["a", "b"]
    assert met.reads < 64


@pytest.mark.parametrize("nodes", [0, -1, [0] * SECTORS, [1] * (SECTORS - 1), [-1, *[1] * 31]])
def test_a_server_without_nodes_is_refused(nodes: int | list[int]) -> None:
    with pytest.raises(ValueError, match="virtual nodes"):
        Ring({"a": nodes})


def test_an_empty_ring_is_refused() -> None:
    with pytest.raises(ValueError, match="a server"):
        Ring({})
