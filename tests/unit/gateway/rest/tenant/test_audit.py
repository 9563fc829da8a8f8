"""REST of the audit."""

from tests.unit.gateway.rest.support import Rest

from opentalos.model.names import AUDIT_TOPIC
from opentalos.wire.metrics.audit_event import AuditEvent


async def store(call: Rest, *owners: str) -> None:
    events = [
        AuditEvent(
            f"{n}", n, "s1", "root", "root", "10.0.0.1", "r", "grant", f"{owner}#t#1", owner, "done"
        ).encode()
        for n, owner in enumerate(owners)
    ]
    await call.world.broker.system_topics.put(AUDIT_TOPIC, events, key="audit")


async def test_each_tenant_gets_its_own_events_in_pages(call: Rest) -> None:
    await call.user("bob")
    await store(call, "alice", "bob", "alice", "alice")
    first = (await call("GET", "audit?limit=2", by="alice")).document
    assert [event["id"] for event in first["events"]] == ["0", "2"]
    second = (await call("GET", f"audit?page={first['next_page']}", by="alice")).document
    assert [event["id"] for event in second["events"]] == ["3"]
    assert second["next_page"] is None
    assert len((await call("GET", "audit", by="bob")).document["events"]) == 1
    assert len((await call("GET", "audit")).document["events"]) == 4
    late = (await call("GET", "audit?since_ms=2")).document["events"]
    assert [event["at_ms"] for event in late] == [2, 3]


async def test_only_known_callers_and_valid_pages(call: Rest) -> None:
    assert (await call("GET", "audit", by="")).status == 401
    assert (await call("GET", "audit?page=-1")).status == 400
    assert (await call("GET", "audit?limit=0")).status == 400


async def test_a_denial_does_not_say_that_a_resource_of_another_tenant_exists(call: Rest) -> None:
    await call.user("bob")

    def event(number: int, owner: str, outcome: str, error: str) -> AuditEvent:
        return AuditEvent(
            f"{number}", number, "s1", "bob", "bob", "10.0.0.1", "r", "DESCRIBE_TOPIC",
            f"{owner}#t#1", owner, outcome, error,
        )  # fmt: skip

    events = [
        event(1, "alice", "denied", "PermissionDenied"),
        event(2, "", "failed", "TopicNotExist"),
        event(3, "bob", "denied", "PermissionDenied"),
        event(4, "", "denied", "PermissionDenied"),
        event(5, "alice", "done", ""),
    ]
    encoded = [found.encode() for found in events]
    await call.world.broker.system_topics.put(AUDIT_TOPIC, encoded, key="audit")

    async def seen(by: str) -> list[str]:
        return [found["id"] for found in (await call("GET", "audit", by=by)).document["events"]]

    assert await seen("bob") == ["3", "4", "5"]
    assert await seen("alice") == ["1", "5"]
    assert len(await seen("root")) == 5
