"""REST of principals and keys."""

from tests.unit.gateway.rest.support import Rest


async def test_principals_are_created_shown_and_listed(call: Rest) -> None:
    sent = {"id": "eve", "organisation": "CL1", "admin": True}
    replied = await call("POST", "principals", sent)
    assert replied.status == 201
    assert {name: replied.document[name] for name in sent} == sent
    assert (await call("POST", "principals", sent)).status == 409
    listed = (await call("GET", "principals")).document["principals"]
    assert [item["id"] for item in listed] == ["alice", "eve", "root"]
    shown = (await call("GET", "principals/eve")).document
    assert (shown["organisation"], shown["keys"]) == ("CL1", [])


async def test_others_see_and_change_only_themselves(call: Rest) -> None:
    listed = (await call("GET", "principals", by="alice")).document["principals"]
    assert [item["id"] for item in listed] == ["alice"]
    assert (await call("GET", "principals/root", by="alice")).status == 404
    assert (await call("GET", "principals/nobody", by="alice")).status == 404
    assert (await call("POST", "principals", {"id": "x"}, by="alice")).status == 403
    assert (await call("POST", "principals/root/keys", by="alice")).status == 403
    assert (await call("POST", "keys/AKROOT/rotate", by="alice")).status == 403


async def test_keys_are_issued_listed_rotated_and_disabled(call: Rest) -> None:
    await call("POST", "principals", {"id": "eve"})
    first = await call("POST", "principals/eve/keys")
    assert first.status == 201
    assert first.document["secret"]
    second = await call("POST", f"keys/{first.document['key_id']}/rotate")
    assert (second.status, second.document["key_id"] != first.document["key_id"]) == (201, True)
    assert (await call("POST", "principals/eve/keys")).status == 403  # two are live
    assert (await call("DELETE", f"keys/{first.document['key_id']}")).status == 204
    keys = (await call("GET", "principals/eve/keys")).document["keys"]
    assert [key["disabled"] for key in keys] == [True, False]
    assert (await call("GET", "principals/nobody/keys")).status == 404
    assert (await call("DELETE", "keys/unknown")).status == 404
    assert (await call("POST", "keys/unknown/rotate")).status == 404


async def test_a_principal_may_have_its_requests_taken_once(call: Rest) -> None:
    for refuse in (True, False):
        replied = await call("PATCH", "principals/alice", {"refuse_replays": refuse})
        assert replied.document["refuse_replays"] is refuse
        assert replied.document["disabled"] is False
    assert (await call("PATCH", "principals/alice", {})).status == 400
    refused = await call("PATCH", "principals/alice", {"refuse_replays": True}, by="alice")
    assert refused.status == 403


async def test_a_disabled_principal_is_locked_out_until_it_is_enabled(call: Rest) -> None:
    for disabled, status in ((True, 401), (False, 200)):
        replied = await call("PATCH", "principals/alice", {"disabled": disabled})
        assert replied.document["disabled"] is disabled
        assert (await call("GET", "principals", by="alice")).status == status
    assert (await call("PATCH", "principals/alice", {"disabled": 1})).status == 400
    assert (await call("PATCH", "principals/nobody", {"disabled": True})).status == 404
    assert (await call("PATCH", "principals/root", {"disabled": True}, by="alice")).status == 403


async def test_a_key_has_scopes_networks_and_an_expiry(call: Rest) -> None:
    await call("POST", "principals", {"id": "eve"})
    limits = {"scopes": ["put"], "expires_ms": 1 << 50, "addresses": ["10.0.0.0/8"]}
    assert (await call("POST", "principals/eve/keys", limits)).status == 201
    [key] = (await call("GET", "principals/eve/keys")).document["keys"]
    assert {name: key[name] for name in limits} == limits
    assert key["last_used_ms"] == 0
    rotated = await call("POST", f"keys/{key['key_id']}/rotate", {"expires_ms": 0})
    keys = (await call("GET", "principals/eve/keys")).document["keys"]
    assert (keys[1]["key_id"], keys[1]["expires_ms"]) == (rotated.document["key_id"], 0)
    for wrong, status in (
        ({"scopes": ["everything"]}, 400),
        ({"more": 1}, 400),
        ({"addresses": ["10.0.0.1/8"]}, 422),
        ({"expires_ms": 1}, 422),
    ):
        assert (await call("POST", "principals/eve/keys", wrong)).status == status
    past = await call("POST", f"keys/{key['key_id']}/rotate", {"expires_ms": 1})
    assert (past.status, "its expiry has passed" in past.document["detail"]) == (422, True)


async def test_the_end_of_a_key_is_set_moved_and_removed(call: Rest) -> None:
    made = (await call("POST", "principals/alice/keys")).document["key_id"]
    for expires_ms in (1 << 50, 1 << 51, 0):
        changed = await call("PATCH", f"keys/{made}", {"expires_ms": expires_ms}, by="alice")
        assert changed.status == 204
        keys = (await call("GET", "principals/alice/keys", by="alice")).document["keys"]
        assert [key["expires_ms"] for key in keys if key["key_id"] == made] == [expires_ms]
    past = await call("PATCH", f"keys/{made}", {"expires_ms": 1})
    assert (past.status, "has passed" in past.document["detail"]) == (422, True)
    bad: list[dict[str, object]] = [
        {}, {"expires_ms": -1}, {"expires_ms": None}, {"scopes": []},
    ]  # fmt: skip
    for wrong in bad:
        assert (await call("PATCH", f"keys/{made}", wrong)).status == 400
    assert (await call("PATCH", "keys/AKROOT", {"expires_ms": 0}, by="alice")).status == 403
    assert (await call("PATCH", "keys/unknown", {"expires_ms": 0}, by="alice")).status == 403
    assert (await call("PATCH", "keys/unknown", {"expires_ms": 0})).status == 404
    await call("DELETE", f"keys/{made}")
    ended = await call("PATCH", f"keys/{made}", {"expires_ms": 0})
    assert (ended.status, "it has ended" in ended.document["detail"]) == (422, True)


async def test_a_principal_has_a_role(call: Rest) -> None:
    created = await call("POST", "principals", {"id": "vera", "role": "viewer"})
    assert (created.document["role"], created.document["admin"]) == ("viewer", False)
    changed = await call("PATCH", "principals/vera", {"role": "administrator"})
    assert (changed.document["role"], changed.document["admin"]) == ("administrator", True)
    assert (await call("PATCH", "principals/vera", {"role": "king"})).status == 400
    assert (await call("PATCH", "principals/root", {"role": "viewer"})).status == 422
    assert (await call("PATCH", "principals/alice", {"role": "viewer"}, by="alice")).status == 403
    assert (await call("GET", "principals/root")).document["role"] == "administrator"


async def test_the_last_use_of_a_key_shows(call: Rest) -> None:
    keys = (await call("GET", "principals/root/keys")).document["keys"]
    assert all(key["last_used_ms"] > 0 for key in keys)
