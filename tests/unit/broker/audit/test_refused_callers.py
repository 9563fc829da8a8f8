"""Failed authentications in the audit: the first at once, the others as a count a minute."""

import asyncio
from collections.abc import Callable

from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ROOT

from opentalos.broker.audit.refused_callers import COUNTED_S, Refusal
from opentalos.broker.audit.trail import Origin
from opentalos.model.errors import InvalidCredential
from opentalos.model.settings.security import AuditSettings
from opentalos.wire.metrics.audit_event import AuditEvent

WRONG = InvalidCredential("unknown key or wrong signature")


def recorded(w: World) -> Callable[[], list[AuditEvent]]:
    """The events since the call before."""
    raw: list[bytes] = []
    w.broker.context.audit.connect(raw.append, Origin)

    def take() -> list[AuditEvent]:
        found = [AuditEvent.decode(event) for event in raw]
        raw.clear()
        return found

    return take


async def key_of_eve(w: World) -> str:
    await w.broker.principals.create(ROOT, "eve", organisation="CLacme")
    return (await w.broker.principals.create_key(ROOT, "eve")).key_id


async def a_minute(w: World) -> None:
    w.time.advance(COUNTED_S)
    for _ in range(3):
        await asyncio.sleep(0)


def numbers(events: list[AuditEvent]) -> list[tuple[str, str]]:
    return [(event.address, event.details["failures"]) for event in events]


async def test_the_first_failure_is_an_event_and_the_others_a_count_a_minute() -> None:
    async with world() as w:
        key_id, add = await key_of_eve(w), w.broker.refused_callers.add
        take = recorded(w)
        for _ in range(1_000):
            add(Refusal("192.0.2.1", key_id, WRONG))
        (first,) = take()
        assert (first.action, first.outcome, first.error) == (
            "authenticate", "failed", "InvalidCredential",
        )  # fmt: skip
        assert (first.principal, first.resource, first.owner) == ("guest", "eve", "CLacme")
        assert first.address == "192.0.2.1"
        assert first.details == {"key_id": key_id, "failures": "1", "reason": str(WRONG)}
        await a_minute(w)
        assert numbers(take()) == [("192.0.2.1", "999")]
        add(Refusal("192.0.2.1", key_id, WRONG))
        assert take() == []
        await a_minute(w)
        assert numbers(take()) == [("192.0.2.1", "1")]
        await a_minute(w)
        assert take() == []
        add(Refusal("192.0.2.1", key_id, WRONG))
        assert numbers(take()) == [("192.0.2.1", "1")], "after a quiet minute it is at once again"


async def test_the_tenant_of_the_key_reads_who_tried_it() -> None:
    async with world() as w:
        key_id = await key_of_eve(w)
        eve = w.broker.catalogs.principals.get("eve")
        assert eve is not None
        take = recorded(w)
        w.broker.refused_callers.add(Refusal("192.0.2.1", key_id, WRONG))
        w.broker.refused_callers.add(Refusal("192.0.2.1", "nobody's", WRONG))
        for event in take():
            await w.broker.system_topics.put("__audit", [event.encode()], key="audit")
        (seen,) = (await w.broker.audit.read(eve, page=0, since_ms=0, events_max=9)).events
        assert seen.resource == "eve"
        assert len((await w.broker.audit.read(ROOT, page=0, since_ms=0, events_max=9)).events) == 2


async def test_what_names_no_key_is_counted_by_network_and_not_shown() -> None:
    async with world() as w:
        take, add = recorded(w), w.broker.refused_callers.add
        for number in range(50):
            add(Refusal(f"2001:db8::{number:x}", f"perhaps-a-secret-{number}", WRONG))
        await a_minute(w)
        first, others = take()
        assert (first.resource, first.owner, others.details["failures"]) == ("", "", "49")
        assert "perhaps" not in str(first) + str(others)


async def test_more_callers_than_places_share_one_count() -> None:
    async with world(audit=AuditSettings(failing_callers_max=3)) as w:
        take, add = recorded(w), w.broker.refused_callers.add
        for number in range(200):
            add(Refusal(f"192.0.2.{number}", "x", WRONG))
        assert len(take()) == 4
        await a_minute(w)
        (others,) = take()
        assert (others.details["failures"], others.details["from"]) == ("196", "several addresses")


async def test_closing_reports_what_was_counted() -> None:
    async with world() as w:
        take, refused = recorded(w), w.broker.refused_callers
        for _ in range(3):
            refused.add(Refusal("192.0.2.1", "x", WRONG))
        refused.close()
        assert numbers(take()) == [("192.0.2.1", "1"), ("192.0.2.1", "2")]
        await a_minute(w)
        assert take() == []
