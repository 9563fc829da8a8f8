"""The message browser, the live tail and the form to put a message, over a whole broker."""

import json
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
from tests.unit.gateway.console.support import Browser, browser

from opentalos.gateway.console.pages.topic.messages import parsed_time

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
TOPIC = "/console/topics/root%2Ft"


@pytest.fixture
async def root() -> AsyncIterator[Browser]:
    async with browser() as made:
        assert (await made.submit("/console/topics/new", {"name": "t", "partitions": "2"})).place
        yield made


@pytest.fixture
async def masking() -> AsyncIterator[Browser]:
    """Like ``root``, with the field card masked for everybody."""
    async with browser(masked_fields="card") as made:
        assert (await made.submit("/console/topics/new", {"name": "t", "partitions": "2"})).place
        yield made


async def put(root: Browser, data: str, **fields: str) -> str:
    reply = await root.submit(f"{TOPIC}/produce", {"data": data, "format": "text", **fields})
    assert reply.status == 303, reply.words
    return (await root.get(reply.place)).words


async def test_a_message_is_put_and_seen(root: Browser) -> None:
    assert "stored in partition 1 at offset 0" in await put(root, "hello", key="k", partition="1")
    words = (await root.get(f"{TOPIC}/messages")).words
    assert "hello" in words
    alone = (await root.get(f"{TOPIC}/messages/1/0")).words
    assert "hello" in alone
    assert (await root.get(f"{TOPIC}/messages/1/1")).status == 404
    assert (await root.get(f"{TOPIC}/messages/1/x")).status == 404


async def test_a_form_that_is_sent_twice_stores_one_message(root: Browser) -> None:
    once = {"once": "0123456789abcdef", "partition": "0"}
    assert "offset 0" in await put(root, "paid", **once)
    assert "offset 0" in await put(root, "paid", **once)
    rows = (await root.get(f"{TOPIC}/messages")).text
    assert rows.count("<pre") == 1


async def test_hostile_texts_are_shown_and_are_no_html(root: Browser) -> None:
    await put(root, HOSTILE, key=HOSTILE, tag=HOSTILE, partition="0")
    for path in ("messages", "messages/0/0", "messages?view=hex", f"messages?find={HOSTILE[:8]}"):
        page = await root.get(f"{TOPIC}/{path}")
        assert page.status == 200
        assert "<script>" not in page.text
        assert "<img src=x" not in page.text
    assert HOSTILE in (await root.get(f"{TOPIC}/messages")).text.replace("&lt;", "<").replace(
        "&gt;", ">"
    )
    rejected = await root.submit(f"{TOPIC}/produce", {"data": HOSTILE, "format": "json"})
    assert (rejected.status, "<script>alert" in rejected.text) == (422, False)


async def test_masked_fields_are_on_no_page(masking: Browser) -> None:
    root = masking
    await put(root, json.dumps({"card": "4111", "pin": "99", "n": 1}), partition="0")
    for path in ("messages", "messages?view=text", "messages?view=hex", "messages/0/0?view=text"):
        page = await root.get(f"{TOPIC}/{path}")
        assert "4111" not in page.text
        assert "34 31 31 31" not in page.text
        assert "1 field masked" in page.words
    assert "99" not in (await root.get(f"{TOPIC}/messages?mask=pin&view=text")).words


async def test_what_has_no_fields_is_not_shown_while_there_are_masks(
    root: Browser, masking: Browser
) -> None:
    avro = "00 00 00 00 07 34 31 31 31"
    for made in (root, masking):
        await put(made, avro, format="hex", partition="0")
        await put(made, "card=4111", partition="0")
    for path in ("messages", "messages?view=hex", "messages?view=text", "messages/0/0",
                 "messages/0/1?view=hex", "tail/rows?after=0:0,1:0"):  # fmt: skip
        page = await masking.get(f"{TOPIC}/{path}")
        assert page.status == 200
        assert "4111" not in page.text
        assert "34 31 31" not in page.text
        assert "cannot be masked by field" in page.text
    for path, words in (
        ("messages/0/0", "binary data, perhaps with schema id 7: not shown"),
        ("messages/0/0", "9 B, withheld"),
        ("messages/0/1", "text: not shown"),
        ("messages", "9 B · withheld"),
    ):
        assert words in (await masking.get(f"{TOPIC}/{path}")).words
    assert "34 31 31" in (await root.get(f"{TOPIC}/messages/0/0")).text
    assert "34 31 31" not in (await root.get(f"{TOPIC}/messages/0/0?mask=pin")).text


async def test_positions_and_search(root: Browser) -> None:
    for number in range(12):
        await put(root, f"m-{number:02}", partition="0")
    page = await root.get(f"{TOPIC}/messages?partition=0&from=offset&offset=4&rows=3")
    shown = [number for number in range(12) if f"m-{number:02}" in page.text]
    assert shown == [4, 5, 6]
    assert "offset=7" in page.text
    assert "offset=1" in page.text
    newest = await root.get(f"{TOPIC}/messages?rows=2")
    assert newest.text.index("m-11") < newest.text.index("m-10")
    assert "m-09" not in newest.text
    found = await root.get(f"{TOPIC}/messages?find=m-03")
    assert "1 message with" in found.words
    assert "among 12" in found.words
    later = await root.get(f"{TOPIC}/messages?from=time&time=2999-01-01")
    assert "No messages here." in later.words


async def test_a_damaged_partition_is_named_and_what_is_whole_is_shown(root: Browser) -> None:
    for number in range(3):
        await put(root, f"whole-{number}", partition="0")
    await put(root, "other", partition="1")
    world = root.rest.world
    (topic,) = (topic for topic in world.broker.context.topics.all() if topic.name == "t")
    await world.damage(topic, 0)
    for query, shown in (("", []), ("from=start", [0, 1, 2]), ("from=offset&offset=1", [1, 2])):
        page = await root.get(f"{TOPIC}/messages?{query}")
        assert "Partition 0 cannot be read now: partition 0 is damaged" in page.words, query
        assert [number for number in range(3) if f"whole-{number}" in page.text] == shown, query
        assert ("other" in page.text) == ("offset" not in query), query
    found = json.loads((await root.get(f"{TOPIC}/tail/rows")).text)
    assert (found["after"], found["damaged"]) == ("1:1", {"0": "partition 0 is damaged"})


async def test_the_tail_continues_where_it_was_and_counts_what_it_leaves_out(
    masking: Browser,
) -> None:
    root = masking
    await put(root, "before", partition="0")
    start = json.loads((await root.get(f"{TOPIC}/tail/rows")).text)
    assert (start["rows"], start["after"]) == ([], "0:1,1:0")
    await put(root, HOSTILE, partition="1")
    await put(root, '{"card": "4111"}', partition="0")
    found = json.loads((await root.get(f"{TOPIC}/tail/rows?after={start['after']}")).text)
    assert (found["came"], found["left_out"], found["after"]) == (2, 0, "0:2,1:1")
    assert [row[1:3] for row in found["rows"]] == [[1, 0], [0, 1]]
    assert "4111" not in json.dumps(found)
    again = json.loads((await root.get(f"{TOPIC}/tail/rows?after={found['after']}")).text)
    assert (again["came"], again["rows"]) == (0, [])
    assert json.loads((await root.get(f"{TOPIC}/tail/rows?after=x")).text)["rows"] == []
    page = await root.get(f"{TOPIC}/tail?partition=1&view=hex")
    assert "/tail/rows?partition=1&amp;view=hex" in page.text


@pytest.mark.parametrize("format_", ["json", "hex", "base64"])
async def test_data_that_is_not_of_its_format_is_refused(root: Browser, format_: str) -> None:
    reply = await root.submit(f"{TOPIC}/produce", {"data": "{zz", "format": format_})
    assert reply.status == 422
    assert f"not valid {format_}" in reply.words
    assert "{zz</textarea>" in reply.text


async def test_who_may_not_read_sees_no_message(root: Browser) -> None:
    await put(root, "private", partition="0")
    stranger = await root.as_user("mallory", organisation="CL9")
    for path in ("", "/messages", "/tail", "/tail/rows", "/produce", "/messages/0/0"):
        reply = await stranger.get(TOPIC + path)
        assert reply.status in (403, 404)
        assert "private" not in reply.text
    viewer = await root.as_user("vera", role="viewer")
    assert (await viewer.get(TOPIC)).status == 200
    assert (await viewer.get(f"{TOPIC}/messages")).status == 403
    assert (await viewer.get(f"{TOPIC}/produce")).status == 404


def test_times() -> None:
    assert parsed_time("1970-01-01T00:00:01") == 1_000
    assert parsed_time("1970-01-01T01:00:01+01:00") == 1_000
    assert parsed_time("1500") == 1_500
    assert parsed_time("yesterday") is None


async def test_hostile_descriptions_filters_and_names_are_no_html(root: Browser) -> None:
    fields = {"name": "described", "partitions": "1", "owner_name": HOSTILE}
    assert (await root.submit("/console/topics/new", fields)).status == 303
    refused = await root.submit("/console/topics/new", fields | {"name": HOSTILE})
    assert refused.status == 400
    hostile = quote(HOSTILE, safe="")
    root.cookies |= {"console_notice": hostile, "console_theme": hostile}
    pages = [
        await root.get("/console/"),
        refused,
        await root.get("/console/topics"),
        await root.get("/console/topics/root%2Fdescribed"),
        await root.get(f"/console/topics?filter={hostile}&order={hostile}&page={hostile}"),
        await root.get(f"/console/topics/{hostile}"),
        await root.get(f"/console/login?next={hostile}"),
        await root.get(f"/console/{hostile}"),
    ]
    assert "&lt;script&gt;alert" in pages[0].text  # the notice
    for page in pages:
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text
