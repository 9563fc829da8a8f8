"""Who reads which audit events."""

from dataclasses import replace

import pytest
from tests.unit.broker.several import several
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE, BOB, CAROL, DAVE, ROOT

from opentalos.broker.audit.reading import AuditPage
from opentalos.model.errors import BadRequest, NotOwner, PermissionDenied
from opentalos.model.identity import GUEST, KeyLimits, Principal, Role, Scope
from opentalos.model.names import AUDIT_TOPIC, SYSTEM_TENANT
from opentalos.wire.metrics.audit_event import AuditEvent


def event(number: int, principal: str, tenant: str, owner: str) -> AuditEvent:
    return AuditEvent(
        f"{number:016x}", 1_000 + number, "s1", principal, tenant, "10.0.0.1", "r", "grant",
        f"{owner}#t#1", owner, "done",
    )  # fmt: skip


EVENTS = (
    event(0, "alice", "alice", "alice"),
    event(1, "bob", "bob", "alice"),  # bob tried something with alice's
    event(2, "carol", "CLacme", "CLacme"),
    event(3, "root", "root", "bob"),
    event(4, "root", "root", ""),
)


async def put(w: World, *events: bytes) -> None:
    await w.broker.system_topics.put(AUDIT_TOPIC, events, key="audit")


async def read(w: World, caller: Principal, **wanted: int) -> AuditPage:
    settings = {"page": 0, "since_ms": 0, "events_max": 100, **wanted}
    return await w.broker.audit.read(caller, **settings)


async def numbers(w: World, caller: Principal) -> list[int]:
    found = await read(w, caller)
    assert found.next_page is None
    return [int(event.id, 16) for event in found.events]


async def test_tenants_see_what_they_did_and_what_was_done_to_theirs() -> None:
    async with world() as w:
        await put(w, *(event.encode() for event in EVENTS))
        assert await numbers(w, ROOT) == [0, 1, 2, 3, 4]
        assert await numbers(w, ALICE) == [0, 1]
        assert await numbers(w, BOB) == [1, 3]
        assert await numbers(w, CAROL) == await numbers(w, DAVE) == [2]
        to_put = replace(ALICE, limits=KeyLimits(scopes=(Scope.PUT,)))
        for caller in (GUEST, to_put, replace(ALICE, role=Role.AGENT)):
            with pytest.raises(PermissionDenied):
                await read(w, caller)


async def test_pages_lead_to_every_event_once() -> None:
    async with world() as w:
        for start in range(0, 12, 4):
            await put(
                w, *(event(n, "alice", "alice", "").encode() for n in range(start, start + 4))
            )
        found, page = list[int](), 0
        while True:
            one = await read(w, ALICE, page=page, events_max=5)
            assert len(one.events) <= 5
            found += [int(event.id, 16) for event in one.events]
            if one.next_page is None:
                break
            page = one.next_page
        assert found == list(range(12))


async def test_events_from_a_time_on() -> None:
    async with world() as w:
        await put(w, *(event.encode() for event in EVENTS))
        found = await read(w, ROOT, since_ms=1_003)
        assert [event.at_ms for event in found.events] == [1_003, 1_004]


async def test_nothing_recorded_and_what_cannot_be_read_are_no_errors() -> None:
    async with world() as w:
        assert await numbers(w, ROOT) == []
        await put(w, b"not an event", b'{"v":99}', EVENTS[0].encode())
        assert await numbers(w, ROOT) == [0]


async def test_a_tenant_cannot_read_the_topic_itself_or_delete_it() -> None:
    async with world() as w:
        await put(w, EVENTS[0].encode())
        topic = w.broker.context.topics.record(SYSTEM_TENANT, AUDIT_TOPIC)
        assert topic is not None
        assert topic.partitions == 1
        assert topic.retention_s == 90 * 86_400
        with pytest.raises(BadRequest, match="cannot be deleted"):
            await w.broker.topics.delete_topic(ROOT, topic.resource)


async def test_servers_of_a_cluster_write_one_log_that_one_of_them_reads() -> None:
    async with several("a", "b") as servers:
        servers.placed.partitions = {0: "b"}
        for name, made in (("a", EVENTS[0]), ("b", EVENTS[1])):
            await put(servers[name], made.encode())
        assert await numbers(servers["b"], ROOT) == [0, 1]
        with pytest.raises(NotOwner) as caught:  # the gateway forwards it
            await read(servers["a"], ROOT)
        assert caught.value.address == "b"
