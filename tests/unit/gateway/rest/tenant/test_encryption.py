"""REST of encryption at rest."""

from tests.unit.broker.test_encryption import OLD, plan
from tests.unit.gateway.rest.support import rest

from opentalos.wire.metrics.audit_event import AuditEvent


async def test_an_administrator_sees_and_rotates_keys() -> None:
    async with rest(encryption=plan(OLD)) as call:
        assert (await call("POST", "topics", {"name": "t", "partitions": 1})).status == 201
        shown = (await call("GET", "encryption")).document
        assert shown["enabled"]
        versions, tenants = shown["versions"], shown["tenants"]
        rotated = await call("POST", "encryption/rotation", {"tenants": ["root"]})
        assert rotated.document == {"rotated": 1}
        assert (await call("POST", "encryption/rotation")).document == {"rotated": tenants}
        after = (await call("GET", "encryption")).document
        assert (after["tenants"], after["versions"]) == (tenants, versions + 1 + tenants)
        unknown = await call("POST", "encryption/rotation", {"tenants": ["nobody"]})
        assert unknown.status == 422
        assert "no data key of nobody" in unknown.document["detail"]


async def test_rotations_are_audited_and_others_are_refused() -> None:
    events: list[AuditEvent] = []
    async with rest(encryption=plan(OLD)) as call:
        audit = call.world.broker.context.audit
        audit._sink = lambda event: events.append(AuditEvent.decode(event))
        await call.user("bob")
        assert (await call("GET", "encryption", by="bob")).status == 403
        assert (await call("POST", "encryption/rotation", by="bob")).status == 403
        await call("POST", "encryption/rotation", {})
        found = [(event.action, event.principal, event.outcome) for event in events]
        assert ("rotate data keys", "bob", "denied") in found
        assert ("rotate data keys", "root", "done") in found


async def test_without_a_key_the_state_says_so_and_nothing_is_rotated() -> None:
    async with rest() as call:
        shown = (await call("GET", "encryption")).document
        assert shown == {"enabled": False, "server_key": "", "tenants": 0, "versions": 0}
        refused = await call("POST", "encryption/rotation", {})
        assert refused.status == 422
        assert "encryption is not enabled" in refused.document["detail"]
