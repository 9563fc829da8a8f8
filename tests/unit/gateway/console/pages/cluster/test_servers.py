"""Pages of the servers on a single server, who sees them, and the picture of the ring.

Those of a cluster are in tests/e2e/console/test_cluster.py.
"""

import re
from collections.abc import AsyncIterator

import pytest
from tests.unit.gateway.console.support import Browser, browser

from opentalos.gateway.console.pages.cluster.ring import (
    INNER,
    OUTER,
    SLICES_MAX,
    band,
    colours_of,
    ring_of,
)

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
async def root() -> AsyncIterator[Browser]:
    async with browser() as made:
        await made.submit("/console/topics/new", {"name": "t", "partitions": "3"})
        yield made


async def test_a_single_server_says_so_and_is_shown(root: Browser) -> None:
    page = await root.get("/console/servers")
    assert page.status == 200, page.words
    assert "single server without a cluster" in page.words
    assert "1 of 1" in page.words
    assert 'href="/console/servers/s1"' in page.text
    assert 'class="ring"' not in page.text
    server = await root.get("/console/servers/s1")
    assert (server.status, "serving" in server.words) == (200, True)
    assert "Drain" not in server.words
    weights = await root.get("/console/servers/weights")
    assert (weights.status, "it has no weights" in weights.words) == (200, True)


async def test_a_filter_and_an_unknown_server(root: Browser) -> None:
    page = await root.get(f"/console/servers?filter={HOSTILE}")
    assert (HOSTILE in page.text, "No server matches" in page.words) == (False, True)
    unknown = await root.get("/console/servers/none")
    assert unknown.status == 404
    assert HOSTILE not in (await root.get("/console/servers/<script>")).text


async def test_a_drain_needs_the_name_and_a_cluster(root: Browser) -> None:
    proof = await root.get("/console/topics/new")
    found = re.search(r'name="csrf" value="([^"]*)"', proof.text)
    assert found is not None
    path, drain = "/console/servers/s1", {"action": "drain"}
    wrong = await root.submit(path, drain | {"confirmed": "s2"}, found[1])
    assert (wrong.status, "nothing is drained" in wrong.words) == (422, True)
    alone = await root.submit(path, drain | {"confirmed": "s1"}, found[1])
    assert (alone.status, "this is a single server" in alone.words) == (409, True)
    unproven = await root.submit(path, drain | {"confirmed": "s1"}, "")
    assert unproven.status == 403


async def test_weights_that_are_none_are_rejected(root: Browser) -> None:
    proof = re.search(r'name="csrf" value="([^"]*)"', (await root.get("/console/topics/new")).text)
    assert proof is not None
    path = "/console/servers/weights"
    for fields in (
        {"action": "apply", "confirmed": "apply", "weights": "nonsense"},
        {"action": "apply", "confirmed": "apply", "weights": '{"s1": "x"}'},
        {"action": "set", "server": "s1", "nodes": "0"},
        {"action": "propose", "budget": HOSTILE},
    ):
        refused = await root.submit(path, fields, proof[1])
        assert (refused.status, HOSTILE in refused.text) == (422, False), fields


async def test_tenants_do_not_see_servers_and_viewers_change_nothing(root: Browser) -> None:
    dora = await root.as_user("dora", organisation="CL1")
    viewer = await root.as_user("viewer", role="viewer")
    for path in ("servers", "servers/s1", "servers/weights"):
        assert (await dora.get(f"/console/{path}")).status == 404
    assert "/console/servers" not in (await dora.get("/console/")).text
    assert (await viewer.get("/console/servers")).status == 200
    assert (await viewer.get("/console/servers/weights")).status == 404


def test_arcs_are_joined_and_shares_have_their_band() -> None:
    found = {
        "arcs": [
            {"start": 0.0, "end": 0.1, "server": "a"},
            {"start": 0.1, "end": 0.25, "server": "a"},
            {"start": 0.25, "end": 1.0, "server": "b"},
        ],
        "shares": {"a": 0.25, "b": 0.75, "c": 0.0},
        "exact": True,
    }
    ring = ring_of(found, colours_of(["c", "b", "a"]))
    assert [(slot.name, slot.colour) for slot in ring.slots] == [("a", 0), ("b", 1), ("c", 2)]
    assert [slot.arcs.count("M") for slot in ring.slots] == [1, 1, 0]
    assert ring.slots[0].arcs == band(0.0, 0.25, OUTER)
    assert ring.slots[1].band == band(0.25, 1.0, INNER)
    assert ring.slots[2].band == ""
    assert ring.exact


def test_a_server_alone_on_the_ring_is_a_whole_circle() -> None:
    path = band(0.0, 1.0, OUTER)
    assert path.count("M") == 2  # an arc that ended where it began would not be drawn
    assert "118.0" in path


def test_many_arcs_are_drawn_as_slices_with_their_largest_owner() -> None:
    count = SLICES_MAX * 4
    arcs = [
        {"start": place / count, "end": (place + 1) / count, "server": "ab"[place % 4 == 3]}
        for place in range(count)
    ]
    ring = ring_of({"arcs": arcs, "shares": {"a": 0.75, "b": 0.25}, "exact": True}, {"a": 0})
    assert not ring.exact
    assert [slot.arcs.count("M") for slot in ring.slots] == [2, 0]  # one circle, in two halves
