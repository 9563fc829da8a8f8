"""Pages of consumer groups over a whole broker: progress, owners, resets, and who sees them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.unit.gateway.console.support import Browser, browser

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.pages.group.detail import kind_of, members_of
from opentalos.gateway.console.pages.group.heat import heat_of
from opentalos.gateway.console.pages.group.resets import partitions_of
from opentalos.gateway.console.pages.series import Line, Series

HOSTILE = "<script>alert(1)</script>"
GROUP = "/console/groups/root%2Ft/g"
REST = "topics/root%2Ft/groups/g"


@pytest.fixture
async def root() -> AsyncIterator[Browser]:
    """The topic t with ten messages in each of two partitions; g holds both and read one of 0."""
    async with browser() as made:
        await made.submit("/console/topics/new", {"name": "t", "partitions": "2"})
        for partition in (0, 1):
            sent = {"messages": [{"text": str(number)} for number in range(10)]}
            await called(made, "POST", f"topics/t/partitions/{partition}/messages", sent)
        worker = (await called(made, "POST", f"{REST}/workers"))["worker"]
        await called(made, "POST", f"{REST}/workers/{worker}/commits", {"offsets": {"0": 0}})
        yield made


async def called(root: Browser, method: str, path: str, document: Any = None) -> Any:
    replied = await root.rest(method, path, document)
    assert replied.status < 400, replied
    return replied.document


async def checkpoints(root: Browser) -> list[int]:
    shown = await called(root, "GET", REST)
    return [partition["checkpoint"] for partition in shown["partitions"]]


async def test_the_list_has_lag_and_topic_and_is_filtered(root: Browser) -> None:
    page = await root.get("/console/groups")
    assert 'href="/console/groups/root%2Ft/g"' in page.text
    assert " 19 " in page.words
    for path in ("groups?filter=none", "groups?topic=none"):
        empty = await root.get(f"/console/{path}")
        assert (empty.status, "/console/groups/root" in empty.text) == (200, False)
    assert "/console/groups/root" in (await root.get("/console/groups?topic=t&order=topic")).text


async def test_a_lag_that_nobody_knows_is_said(root: Browser) -> None:
    world = root.rest.world
    topic = world.broker.context.topics.record("root", "t")
    assert topic is not None
    await world.damage(topic, 0)
    listed = await root.get("/console/groups")
    assert (listed.status, "not known of 1 group" in listed.words) == (200, True)
    assert "stuck" in listed.words
    page = await root.get(GROUP)
    assert page.status == 200
    assert "not known 1 damaged partition" in page.words
    assert "is damaged" in page.words
    assert (await root.get(f"{GROUP}?order=lag")).status == 200
    topics = await root.get("/console/topics")
    assert (topics.status, "not known" in topics.words) == (200, True)
    assert (await root.get("/console/topics?order=messages")).status == 200
    overview = await root.get("/console/")
    assert (overview.status, "root/t/0 (partition 0 is damaged)" in overview.words) == (200, True)
    partitions = await root.get("/console/topics/root%2Ft")
    assert "1 partition cannot be read now" in partitions.words
    messages = await root.get("/console/topics/root%2Ft/messages")
    assert "partition 0 is damaged" in messages.words


async def test_the_list_has_the_groups_of_every_topic(
    root: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentalos.gateway.rest.group.groups.TOPICS_MAX", 2)
    for number in range(5):
        await called(root, "POST", "topics", {"name": f"u{number}", "partitions": 1})
    await called(root, "POST", "topics/u4/groups/last/workers")
    page = await root.get("/console/groups")
    assert 'href="/console/groups/root%2Fu4/last"' in page.text
    assert "talos group list" in page.words
    assert "/rest/v1/groups?after=root" in page.words
    monkeypatch.setattr("opentalos.gateway.console.pages.group.groups.PAGES_MAX", 2)
    cut = await root.get("/console/groups")
    assert "root%2Fu4" not in cut.text
    assert "after root/u2 are not listed" in cut.words


async def test_the_group_has_lag_and_owner_of_each_partition(root: Browser) -> None:
    page = await root.get(GROUP)
    assert page.status == 200, page.words
    assert "REST worker" in page.words
    assert "2 of 2" in page.words
    assert page.text.count('class="s0"') == 3  # two partitions, and the key of the colour
    ordered = await root.get(f"{GROUP}?order=lag")
    assert ordered.text.index("partition=1") < ordered.text.index("partition=0")


async def test_a_dry_run_shows_and_changes_nothing(root: Browser) -> None:
    shown = await root.submit(f"{GROUP}/reset", {"action": "preview", "to": "end"})
    assert (shown.status, "What would change" in shown.words) == (200, True)
    assert "9 left out" in shown.words
    assert "10 left out" in shown.words
    assert await checkpoints(root) == [0, -1]


async def test_a_reset_needs_the_name_of_the_group(root: Browser) -> None:
    fields = {"action": "reset", "to": "end"}
    refused = await root.submit(f"{GROUP}/reset", fields | {"confirmed": "other"})
    assert (refused.status, "nothing was reset" in refused.words) == (422, True)
    assert await checkpoints(root) == [0, -1]
    done = await root.submit(f"{GROUP}/reset", fields | {"confirmed": "g"})
    assert (done.status, done.place) == (303, GROUP)
    assert "2 partitions of group g were reset" in (await root.get(done.place)).words
    assert await checkpoints(root) == [9, 9]


async def test_a_reset_may_be_of_some_partitions_to_an_offset(root: Browser) -> None:
    fields = {"action": "reset", "to": "offset", "offset": "5", "partitions": "1"}
    assert (await root.submit(f"{GROUP}/reset", fields | {"confirmed": "g"})).status == 303
    assert await checkpoints(root) == [0, 4]
    for wrong in ({"offset": "11"}, {"offset": "x"}, {"partitions": "9"}, {"partitions": "a-b"}):
        refused = await root.submit(f"{GROUP}/reset", fields | {"action": "preview"} | wrong)
        assert refused.status in (409, 422), wrong
    assert await checkpoints(root) == [0, 4]


async def test_a_reset_to_a_time_needs_one(root: Browser) -> None:
    fields = {"action": "preview", "to": "time"}
    refused = await root.submit(f"{GROUP}/reset", fields | {"time": HOSTILE})
    assert (refused.status, HOSTILE in refused.text) == (422, False)
    shown = await root.submit(f"{GROUP}/reset", fields | {"time": "2020-01-01T00:00"})
    assert (shown.status, "1 again" in shown.words) == (200, True)


async def test_a_group_with_workers_stays_and_one_without_is_deleted(root: Browser) -> None:
    delete = {"action": "delete", "confirmed": "g"}
    assert (await root.submit(f"{GROUP}/reset", delete)).status == 409
    shown = await called(root, "GET", REST)
    await called(root, "DELETE", f"{REST}/workers/{shown['partitions'][0]['worker']}")
    wrong = await root.submit(f"{GROUP}/reset", delete | {"confirmed": "x"})
    assert (wrong.status, "nothing was deleted" in wrong.words) == (422, True)
    assert (await root.submit(f"{GROUP}/reset", delete)).place == "/console/groups"
    assert (await root.get(GROUP)).status == 404


async def test_another_tenant_learns_nothing_of_a_group(root: Browser) -> None:
    bob = await root.as_user("bob", organisation="CL2")
    assert "root%2Ft" not in (await bob.get("/console/groups")).text
    guesses = [GROUP, f"{GROUP}/reset", "/console/groups/root%2Ft/none", "/console/groups/x%2Fy/g"]
    assert [(await bob.get(path)).status for path in guesses] == [404] * 4
    guessed = await bob.get("/console/groups?topic=root%2Ft")
    missing = await bob.get("/console/groups?topic=root%2Fx")
    assert guessed.words.replace("root/t", "root/x").replace("%2Ft", "%2Fx") == missing.words
    for action in ("preview", "reset", "delete"):
        fields = {"action": action, "to": "end", "confirmed": "g"}
        assert (await bob.submit(f"{GROUP}/reset", fields)).status in (403, 404)
    assert await checkpoints(root) == [0, -1]


async def test_a_viewer_is_offered_no_reset(root: Browser) -> None:
    viewer = await root.as_user("viewer", role="viewer")
    assert (await viewer.get("/console/groups")).status == 200
    assert (await viewer.get(f"{GROUP}/reset")).status == 404


@pytest.mark.parametrize("path", [f"groups/root%2Ft/{HOSTILE}", f"groups/{HOSTILE}/g"])
async def test_a_hostile_name_is_shown_and_is_no_html(root: Browser, path: str) -> None:
    page = await root.get(f"/console/{path.replace('/script', '%2Fscript')}")
    assert page.status in (404, 422)
    assert HOSTILE not in page.text
    listed = await root.get(f"/console/groups?filter={HOSTILE}&topic={HOSTILE}")
    assert (listed.status, HOSTILE in listed.text) == (200, False)


def test_members_have_their_partitions_and_kinds() -> None:
    rows = [
        {"worker": name, "address": "h", "partitions": [1], "partitions_count": 2, "lag": 4}
        for name in ("a", "kafka:b")
    ]
    found = members_of(rows)
    assert [(member.name, member.partitions, member.held) for member in found] == [
        ("a", [1], 2), ("kafka:b", [1], 2),
    ]  # fmt: skip
    assert [kind_of(member.name) for member in found] == ["Talos worker", "Kafka member"]
    assert kind_of("rest-00") == "REST worker"


async def test_groups_are_ordered_by_how_long_their_oldest_message_waits(root: Browser) -> None:
    for name in ("early", "late"):
        await called(root, "POST", "topics", {"name": name, "partitions": 1})
        path = f"topics/{name}/partitions/0/messages"
        count = 1 if name == "early" else 3  # less lag, but older
        await called(root, "POST", path, {"messages": [{"text": "x"}] * count})
        await called(root, "POST", f"topics/{name}/groups/h/workers")
        root.rest.world.clock.now_ms += 100_000
    by_age = (await root.get("/console/groups?order=lag_s&filter=h")).text
    by_lag = (await root.get("/console/groups?filter=h")).text
    assert by_age.index("root%2Fearly/h") < by_age.index("root%2Flate/h")
    assert by_lag.index("root%2Flate/h") < by_lag.index("root%2Fearly/h")
    assert "3 min 20 s" in (await root.get("/console/groups/root%2Fearly/h")).words


async def test_a_page_of_a_group_reads_the_partitions_that_it_shows(
    root: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentalos.gateway.console.pages.group.detail.CELLS_MAX", 2)
    await called(root, "POST", "topics", {"name": "wide", "partitions": 7})
    sent = {"messages": [{"text": "x"}]}
    await called(root, "POST", "topics/wide/partitions/5/messages", sent)
    await called(root, "POST", "topics/wide/groups/g/workers")
    path = "/console/groups/root%2Fwide/g"
    first = await root.get(f"{path}?rows=3&order=lag")
    assert "order=lag&from=0&limit=3" in first.words
    assert first.text.index("?partition=5") < first.text.index("?partition=0")
    last = await root.get(f"{path}?rows=3&page=3")
    assert "order=partition&from=6&limit=1" in last.words
    assert "?partition=6" in last.text
    assert "The first 2 of 7 partitions" in last.words


def test_partitions_are_numbers_and_ranges() -> None:
    assert partitions_of("", range(3)) == range(3)
    assert partitions_of("0, 2-3,2", range(4)) == [0, 2, 3]
    for wrong in ("1-", "x", "3-1", "4", "-1"):
        if wrong == "1-":
            assert partitions_of(wrong, range(4)) == [1]
            continue
        with pytest.raises(RestError):
            partitions_of(wrong, range(4))


def test_a_heat_map_joins_equal_shades_and_leaves_out_what_is_unknown() -> None:
    lines = [
        Line("1", {"partition": "1"}, [None, 9.0, 9.0]),
        Line("0", {"partition": "0"}, [0.0, 0.0, 1.0]),
        Line("2 others", {"rest": "2"}, [50.0, 50.0, 50.0]),
    ]
    found = heat_of(Series((0, 60, 120), lines), "partition", "messages")
    assert found is not None
    assert found.most == 9.0
    assert [(run.y // 14, run.shade) for run in found.runs] == [(0, 0), (0, 1), (1, 9)]
    assert found.runs[2].text == "partition 1, 00:01 to 00:03: 9 messages"
    assert heat_of(Series((), ()), "partition", "messages") is None
