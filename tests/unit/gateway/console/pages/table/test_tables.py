"""Pages of tables, rows and streams, over a whole broker."""

import json
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
from tests.unit.gateway.console.support import Browser, browser

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
TABLE = "/console/tables/root%2Fpeople"
NEW = {
    "name": "people",
    "columns": "id string\nage int64\nnote string\nphoto binary\ntags string_set",
    "key": "id",
    "description": HOSTILE,
}


@pytest.fixture
async def root() -> AsyncIterator[Browser]:
    async with browser(masked_fields="card") as made:
        reply = await made.submit("/console/tables/new", NEW)
        assert (reply.status, reply.place) == (303, TABLE), reply.words
        for row in (
            {"id": "a", "age": 7, "note": HOSTILE, "tags": ["x", "y"]},
            {"id": "b", "age": 8, "note": json.dumps({"card": "4111", "city": "Rome"})},
            {"id": "c", "photo": "AAEC/w=="},
        ):
            done = await made.rest("POST", "tables/people/rows/put", {"row": row})
            assert done.status == 200, done
        yield made


async def test_a_table_is_listed_and_described(root: Browser) -> None:
    listed = await root.get("/console/tables")
    assert "people" in listed.words
    assert HOSTILE not in listed.text
    assert HOSTILE in listed.words.replace("&lt;", "<") or "&lt;script&gt;" in listed.text
    words = (await root.get(TABLE)).words
    for text in ("id string key", "age int64", "Version of the schema 1", "enabled"):
        assert text in words
    assert "GET /rest/v1/tables/root%2Fpeople" in words
    assert (await root.get("/console/tables/missing")).status == 404


async def test_rows_are_browsed_in_pages_with_links(root: Browser) -> None:
    first = await root.get(f"{TABLE}/rows?rows=2")
    assert "2 rows" in first.words
    assert HOSTILE not in first.text
    following = first.text.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    second = await root.get(following)
    assert "1 row" in second.words
    assert 'rel="next"' not in second.text
    assert "binary data: not shown" in second.words  # while there are masks
    whole = await root.get(f"{TABLE}/row?key={quote(json.dumps({'id': 'a'}))}")
    assert (whole.status, '["x", "y"]' in whole.words) == (200, True)
    assert HOSTILE not in whole.text
    gone = await root.get(f"{TABLE}/row?key={quote(json.dumps({'id': 'z'}))}")
    assert gone.status == 404


async def test_fields_and_columns_are_masked_in_each_view(root: Browser) -> None:
    for view in ("auto", "json", "text", "hex"):
        page = await root.get(f"{TABLE}/rows?view={view}&mask=age")
        assert "4111" not in page.text
        assert "34 31 31 31" not in page.text
        assert "Rome" in page.words or view == "hex"
        assert "<code>7</code>" not in page.text
    hidden = await root.get(f"{TABLE}/rows?mask=id")
    assert "row?key=" not in hidden.text


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("filter=nothing+%3D+1", "nothing"),
        ("start=%5B1%5D", "a key is a JSON object"),
        ("start=%7B%22none%22%3A1%7D", "none"),
        ("index=missing", "missing"),
    ],
)
async def test_what_cannot_be_scanned_is_said_on_the_page(
    root: Browser, query: str, reason: str
) -> None:
    page = await root.get(f"{TABLE}/rows?{query}")
    assert page.status == 200
    assert reason in page.text.partition('role="alert">')[2].partition("<")[0]


async def test_a_table_is_changed_and_dropped(root: Browser) -> None:
    sent = {"description": "of us", "added": "city string", "ttl_s": "60", "schema_version": "1"}
    assert (await root.submit(f"{TABLE}/settings", sent)).status == 303
    words = (await root.get(TABLE)).words
    assert "city string" in words
    assert "after 1 min" in words
    late = await root.submit(f"{TABLE}/settings", sent)  # of the page before that change
    assert (late.status, "of us" in late.text) == (409, True)
    assert (await root.submit(f"{TABLE}/settings", {"action": "disable"})).status == 303
    assert "disabled" in (await root.get(TABLE)).words
    wrong = await root.submit(f"{TABLE}/settings", {"action": "drop", "confirmed": "persons"})
    assert (wrong.status, "nothing was dropped" in wrong.words) == (422, True)
    done = await root.submit(f"{TABLE}/settings", {"action": "drop", "confirmed": "people"})
    assert (done.status, done.place) == (303, "/console/tables")


async def test_streams_show_their_state_and_topic(root: Browser) -> None:
    await root.submit("/console/topics/new", {"name": "changes", "partitions": "1"})
    sent = {"action": "set", "topic": "changes", "view": "keys-only"}
    assert (await root.submit(f"{TABLE}/streams", sent)).status == 303
    page = await root.get(f"{TABLE}/streams")
    assert "/console/topics/root%2Fchanges" in page.text
    assert "running" in page.words
    await root.submit(f"{TABLE}/streams", {"action": "disable", "topic": "changes"})
    assert "disabled" in (await root.get(f"{TABLE}/streams")).words
    wrong = {"action": "remove", "topic": "changes", "confirmed": "other"}
    assert (await root.submit(f"{TABLE}/streams", wrong)).status == 422
    removed = await root.submit(f"{TABLE}/streams", wrong | {"confirmed": "changes"})
    assert removed.status == 303
    assert "No stream" in (await root.get(f"{TABLE}/streams")).words


@pytest.mark.parametrize(
    "path", ["", "/rows", "/streams", "/settings", "/row?key=%7B%22id%22:1%7D"]
)
async def test_a_table_of_another_tenant_looks_like_none(root: Browser, path: str) -> None:
    alice = await root.as_user("anna", organisation="CL7")
    page = await alice.get(f"{TABLE}{path}")
    unknown = await alice.get(f"/console/tables/root%2Fnobodys{path}")
    assert page.status == unknown.status == 404
    assert page.words.replace("people", "nobodys") == unknown.words
    assert "people" not in (await alice.get("/console/tables")).words


async def test_a_viewer_is_offered_no_change(root: Browser) -> None:
    viewer = await root.as_user("vera", role="viewer")
    page = await viewer.get("/console/tables")
    assert "New table" not in page.words
    assert (await viewer.get("/console/tables/new")).status == 404
    assert (await viewer.get(f"{TABLE}/settings")).status == 404


async def test_a_change_without_the_proof_is_refused(root: Browser) -> None:
    drop = {"action": "drop", "confirmed": "people"}
    forged = await root.submit(f"{TABLE}/settings", drop, proof="0" * 64)
    assert (forged.status, "X-CSRF-Token" in forged.words) == (403, True)
    assert (await root.get(TABLE)).status == 200
