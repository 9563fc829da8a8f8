"""Pages of principals and keys, over a whole broker."""

import re
from collections.abc import AsyncIterator

import pytest
from tests.unit.gateway.console.support import Browser, browser

ROOT = "/console/principals/root"


@pytest.fixture
async def root() -> AsyncIterator[Browser]:
    async with browser() as made:
        yield made


async def test_a_principal_is_made_and_gets_a_key_that_is_shown_once(root: Browser) -> None:
    sent = {"id": "shop-service", "organisation": "CL9", "role": "user"}
    made = await root.submit("/console/principals/new", sent)
    assert (made.status, made.place) == (303, "/console/principals/shop-service")
    fields = {"action": "create", "scope-get": "1", "expires_days": "30", "addresses": "10.0.0.0/8"}
    page = await root.submit(made.place, fields)
    secret = re.search(r"<dt>Secret</dt><dd><code>([^<]*)</code>", page.text)
    key_id = re.search(r"<dt>Key id</dt><dd><code>([^<]*)</code>", page.text)
    assert page.status == 200
    assert secret
    assert key_id
    assert f'data-copy="{secret[1]}"' in page.text
    shown = await root.get(made.place)
    assert secret[1] not in shown.text
    assert "10.0.0.0/8" in shown.words
    assert "in 30 d" in shown.words or "in 29 d" in shown.words
    listed = await root.get("/console/principals?filter=CL9")
    assert "shop-service" in listed.words
    assert "root@" not in listed.words


async def test_a_key_is_rotated_and_disabled(root: Browser) -> None:
    await root.submit("/console/principals/new", {"id": "svc"})
    path = "/console/principals/svc"
    page = await root.submit(path, {"action": "create"})
    key_id = page.text.partition("<dt>Key id</dt><dd><code>")[2].partition("<")[0]
    page = await root.submit(path, {"action": "rotate", "key_id": key_id})
    assert "Copy the secret now" in page.words
    full = await root.submit(path, {"action": "create"})
    assert full.status == 403
    assert "New key" in full.words  # the form, with REST's reason
    wrong = {"action": "disable-key", "key_id": key_id, "confirmed": "no"}
    assert (await root.submit(path, wrong)).status == 422
    done = await root.submit(path, wrong | {"confirmed": key_id})
    assert done.status == 303
    assert "disabled" in (await root.get(path)).words


async def test_a_key_gets_another_end(root: Browser) -> None:
    await root.submit("/console/principals/new", {"id": "svc"})
    path = "/console/principals/svc"
    page = await root.submit(path, {"action": "create", "expires_days": "2"})
    key_id = page.text.partition("<dt>Key id</dt><dd><code>")[2].partition("<")[0]
    for fields, said, ends in (
        ({"expires_days": "90"}, "expires in 90 days", True),
        ({"expires_days": "1"}, "expires in 1 day", True),
        ({"never": "1", "expires_days": "5"}, "never expires", False),
    ):
        done = await root.submit(path, {"action": "end", "key_id": key_id, **fields})
        assert (done.status, done.place) == (303, path)
        assert f"Key {key_id} {said}." in (await root.get(path)).words
        [key] = (await root.rest("GET", "principals/svc/keys")).document["keys"]
        assert (key["expires_ms"] > 0) == ends
    refused = await root.submit(path, {"action": "end", "key_id": key_id})
    assert (refused.status, "expires in 1 to 36,500 days" in refused.words) == (422, True)


@pytest.mark.parametrize("days", ["0", "-1", "x", "99999"])
async def test_an_end_that_makes_no_sense_is_refused(root: Browser, days: str) -> None:
    page = await root.submit(ROOT, {"action": "create", "expires_days": days})
    assert (page.status, "expires in 1 to 36,500 days" in page.words) == (422, True)


async def test_state_and_role_are_changed_by_administrators(root: Browser) -> None:
    await root.submit("/console/principals/new", {"id": "eve"})
    path = "/console/principals/eve"
    for fields, shown in (
        ({"action": "disable"}, "eve is disabled."),
        ({"action": "enable"}, "eve is enabled."),
        ({"action": "role", "role": "viewer"}, "eve has the role viewer."),
        ({"action": "replays", "refuse": "1"}, "Repeated requests of eve are refused."),
    ):
        reply = await root.submit(path, fields)
        assert shown in (await root.get(reply.place)).words
    assert (await root.submit(path, {"action": "explode"})).status == 422


async def test_a_user_sees_itself_only(root: Browser) -> None:
    anna = await root.as_user("anna", organisation="CL7")
    await root.as_user("bert", organisation="CL8")
    words = (await anna.get("/console/principals")).words
    assert ("anna" in words, "bert" in words, "New principal" in words) == (True, False, False)
    other = await anna.get("/console/principals/bert")
    unknown = await anna.get("/console/principals/none")
    assert other.status == unknown.status == 404
    assert other.words.replace("bert", "none") == unknown.words
    own = await anna.get("/console/principals/anna")
    assert "Administration" not in own.words
    assert (await anna.get("/console/principals/new")).status == 404
    raised = await anna.submit("/console/principals/anna", {"action": "role", "role": "viewer"})
    assert raised.status == 403
    for action in ("disable-key", "rotate"):
        fields = {"action": action, "key_id": "AKROOT", "confirmed": "AKROOT"}
        assert (await anna.submit("/console/principals/anna", fields)).status in (403, 404)
    assert (await root.get("/console/")).status == 200


async def test_permissions_name_topics_and_tables(root: Browser) -> None:
    anna = await root.as_user("anna", organisation="CL7", team="CI1")
    await root.submit("/console/topics/new", {"name": "orders", "partitions": "1"})
    grant = {"grantee": "CI1", "GET_MESSAGE": "1"}
    await root.submit("/console/topics/root%2Forders/permissions", grant)
    words = (await root.get("/console/principals/anna/permissions")).words
    assert "orders root GET_MESSAGE" in words.replace(" ,", ",")
    own = await anna.get("/console/principals/anna/permissions")
    assert own.status == 200
    assert (await anna.get("/console/principals/root/permissions")).status == 404


async def test_a_form_outlives_its_login(root: Browser) -> None:
    fields = {"id": "late", "organisation": "CL<1>", "role": "user"}
    page = await root.get("/console/principals/new")
    proof = page.text.partition('name="csrf" value="')[2].partition('"')[0]
    kept, root.cookies = dict(root.cookies), {}
    ended = await root.submit("/console/principals/new", fields, proof=proof)
    assert (ended.status, "Nothing was changed" in ended.words) == (401, True)
    assert 'name="organisation" value="CL&lt;1&gt;"' in ended.text
    assert proof not in ended.text
    root.cookies = kept
    again = await root.submit("/console/principals/new", fields | {"resumed": "1"}, proof="")
    assert (again.status, 'value="late"' in again.text) == (200, True)
    assert "Nothing was changed yet" in again.words
    assert "late" not in (await root.get("/console/principals")).words


async def test_a_form_of_another_site_is_not_kept(root: Browser) -> None:
    stranger = Browser(root.rest, root.console)
    reply = await stranger.send(
        "POST", "/console/principals/new", {"sec-fetch-site": "cross-site"}, b"id=forged"
    )
    assert "forged" not in reply.text
