"""The ring as it is drawn: every key lies in an arc of its owner."""

import random

import pytest

from opentalos.placement.picture import picture
from opentalos.placement.ring import Ring, point_of

RING = 1 << 64


@pytest.mark.parametrize("servers", [{"a": 128}, {"a": 128, "b": 64, "c": 8}])
def test_each_key_lies_in_an_arc_of_its_server(servers: dict[str, int]) -> None:
    ring, found = Ring(servers), picture(servers)
    assert found.exact
    assert (found.arcs[0].start, found.arcs[-1].end) == (0.0, 1.0)
    assert all(
        one.end == other.start for one, other in zip(found.arcs, found.arcs[1:], strict=False)
    )
    for number in range(500):
        key = f"topic-{number}/{number % 7}"
        share = point_of(key) / RING
        arc = next(arc for arc in found.arcs if share <= arc.end)
        assert arc.server == ring.owner(key)


def test_shares_follow_the_weights_and_add_up() -> None:
    found = picture({"heavy": 512, "light": 128})
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert 0.7 < found.shares["heavy"] < 0.9
    owned = sum(arc.end - arc.start for arc in found.arcs if arc.server == "heavy")
    assert owned == pytest.approx(found.shares["heavy"])


def test_a_ring_of_many_servers_is_drawn_in_slices() -> None:
    draw = random.Random(7)
    servers = {f"s{number}": draw.randint(16, 256) for number in range(40)}
    exact, coarse = picture(servers), picture(servers, arcs_max=360)
    assert len(exact.arcs) > 360
    assert len(coarse.arcs) <= 360
    assert not coarse.exact
    assert coarse.shares == exact.shares
    assert (coarse.arcs[0].start, coarse.arcs[-1].end) == (0.0, 1.0)
    most = max(exact.shares, key=exact.shares.__getitem__)
    drawn = sum(arc.end - arc.start for arc in coarse.arcs if arc.server == most)
    assert drawn == pytest.approx(exact.shares[most], rel=0.5)


@pytest.mark.parametrize("servers", [{}, {"a": 0}])
def test_a_ring_needs_a_node(servers: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"need"):
        picture(servers)
