"""REST of leases: who gets one, what others are told, and what is audited."""

from typing import Any

import pytest
from tests.unit.gateway.rest.support import Replied, Rest

from opentalos.wire.metrics.audit_event import AuditEvent

TTL_MS = 60_000


async def put(call: Rest, holder: str, *, by: str = "alice", **more: Any) -> Replied:
    document = {"holder": holder, "ttl_ms": TTL_MS, **more}
    return await call("PUT", "leases/run", document, by=by)


async def test_a_lease_is_taken_renewed_shown_and_released(call: Rest) -> None:
    taken = await put(call, "host:1")
    assert taken.document == {"name": "run", "holder": "host:1", "epoch": 1, "ttl_ms": TTL_MS}
    assert (await put(call, "host:1", epoch=1)).document["epoch"] == 1
    shown = (await call("GET", "leases/run", by="alice")).document
    assert (shown["holder"], shown["epoch"], shown["expired"]) == ("host:1", 1, False)
    listed = (await call("GET", "leases", by="alice")).document["leases"]
    assert [each["name"] for each in listed] == ["run"]
    assert (await call("DELETE", "leases/run?epoch=1", by="alice")).status == 204
    assert (await call("GET", "leases/run", by="alice")).status == 404
    assert (await put(call, "host:2")).document["epoch"] == 2


async def test_another_holder_waits_and_a_former_one_is_told(call: Rest) -> None:
    await put(call, "host:1")
    refused = await put(call, "host:2")
    assert (refused.status, refused.document["title"]) == (409, "LeaseHeld")
    assert refused.document["retry_safe"]
    assert "held by host:1 under epoch 1" in refused.document["detail"]
    assert (await call("DELETE", "leases/run", by="alice")).status == 204
    assert (await put(call, "host:2")).document["epoch"] == 2
    late = await put(call, "host:1", epoch=1)
    assert (late.status, late.document["title"]) == (409, "LeaseNotHeld")
    assert "host:2 holds it under epoch 2" in late.document["detail"]
    gone = await call("DELETE", "leases/run?epoch=1", by="alice")
    assert (gone.status, gone.document["title"]) == (409, "LeaseNotHeld")


async def test_an_epoch_is_above_what_the_holder_names(call: Rest) -> None:
    assert (await put(call, "host:1", seen=41)).document["epoch"] == 42


@pytest.mark.parametrize(
    "wrong",
    [
        {"holder": ""},
        {"holder": "h" * 201},
        {"ttl_ms": 999},
        {"ttl_ms": 3_600_001},
        {"epoch": -1},
        {"seen": 1 << 54},
        {"more": 1},
    ],
)
async def test_what_does_not_fit_is_refused_and_takes_nothing(
    call: Rest, wrong: dict[str, Any]
) -> None:
    document = {"holder": "host:1", "ttl_ms": TTL_MS, **wrong}
    assert (await call("PUT", "leases/run", document, by="alice")).status == 400
    assert (await call("GET", "leases", by="alice")).document == {"leases": []}


async def test_tenants_have_leases_of_their_own(call: Rest) -> None:
    await call.user("bob")
    await put(call, "host:1")
    assert (await put(call, "host:2", by="bob")).document["epoch"] == 1
    of_alice = "leases?tenant=alice"
    assert (await call("GET", of_alice, by="bob")).status == 403
    assert (await call("DELETE", "leases/run?tenant=alice", by="bob")).status == 403
    listed = (await call("GET", of_alice)).document["leases"]
    assert [each["holder"] for each in listed] == ["host:1"]
    assert (await call("DELETE", "leases/run?tenant=alice")).status == 204
    assert (await call("GET", of_alice)).document == {"leases": []}


async def test_takeovers_and_releases_are_audited_and_renewals_are_not(call: Rest) -> None:
    events: list[AuditEvent] = []
    audit = call.world.broker.context.audit
    audit._sink = lambda event: events.append(AuditEvent.decode(event))
    await put(call, "host:1")
    await put(call, "host:1", epoch=1)
    await put(call, "host:2")
    await call("DELETE", "leases/run", by="alice")
    await call("DELETE", "leases/run", by="alice")
    found = [(event.action, event.resource, event.owner, event.outcome) for event in events]
    assert found == [
        ("take a lease", "run", "alice", "done"),
        ("release a lease", "run", "alice", "done"),
        ("release a lease", "run", "alice", "failed"),
    ]
    assert events[0].details["holder"] == "host:1"
