"""Pages of the audit log and of encryption, over a whole broker."""

import re
from collections.abc import AsyncIterator

import pytest
from tests.unit.gateway.console.support import Browser, browser

from opentalos.model.names import AUDIT_TOPIC
from opentalos.wire.metrics.audit_event import AuditEvent

HOSTILE = "<script>alert(1)</script>"
AT_MS = 1_700_000_000_000
ALL = "since=1"


def event(number: int, principal: str, action: str, owner: str, outcome: str) -> AuditEvent:
    return AuditEvent(
        f"event-{number}", AT_MS + number, "s1", principal, principal, "10.0.0.1", "r", action,
        f"{owner}/{HOSTILE}-{number}", owner, outcome, "" if outcome == "done" else "Denied",
        {"wanted": HOSTILE},
    )  # fmt: skip


@pytest.fixture
async def root() -> AsyncIterator[Browser]:
    async with browser() as made:
        events = [
            event(1, "root", "create a topic", "root", "done"),
            event(2, "anna", "create a topic", "anna", "done"),
            event(3, "anna", "delete a topic", "root", "denied"),
        ]
        encoded = [found.encode() for found in events]
        await made.rest.world.broker.system_topics.put(AUDIT_TOPIC, encoded, key="audit")
        yield made


def listed(text: str) -> list[str]:
    return re.findall(r'href="/console/audit/(event-\d)\?at_ms', text)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["event-3", "event-2", "event-1"]),
        ("principal=ann", ["event-3", "event-2"]),
        ("action=create", ["event-2", "event-1"]),
        ("resource=root%2F", ["event-3", "event-1"]),
        ("outcome=denied", ["event-3"]),
        ("outcome=failed", []),
        ("principal=anna&action=create", ["event-2"]),
        ("rows=1&page=2", ["event-2"]),
        ("until=2023-11-14", []),
    ],
)
async def test_events_are_filtered_and_the_newest_are_first(
    root: Browser, query: str, found: list[str]
) -> None:
    page = await root.get(f"/console/audit?{ALL}&{query}")
    assert listed(page.text) == found
    assert HOSTILE not in page.text


async def test_an_event_has_a_page_of_its_own(root: Browser) -> None:
    path = f"/console/audit/event-1?at_ms={AT_MS + 1}"
    page = await root.get(path)
    assert (page.status, "create a topic" in page.words) == (200, True)
    assert HOSTILE not in page.text
    anna = await root.as_user("anna")
    assert listed((await anna.get(f"/console/audit?{ALL}")).text) == ["event-3", "event-2"]
    hidden = await anna.get(path)
    unknown = await anna.get(f"/console/audit/event-9?at_ms={AT_MS}")
    assert hidden.status == unknown.status == 404
    assert hidden.words == unknown.words


@pytest.mark.parametrize("query", ["since=x", "at=-5", "span=1y", "page=9999", "until=x", "at=99"])
async def test_filters_that_make_no_sense(root: Browser, query: str) -> None:
    assert (await root.get(f"/console/audit?{query}")).status == 200


async def test_encryption_is_for_who_sees_the_service(root: Browser) -> None:
    page = await root.get("/console/encryption")
    assert "not encrypted" in page.words
    assert "Rotate data keys" not in page.words  # there is none
    anna = await root.as_user("anna", organisation="CL7")
    assert (await anna.get("/console/encryption")).status == 404
    wrong = await root.submit("/console/encryption", {"confirmed": "no"})
    assert (wrong.status, "nothing was rotated" in wrong.words) == (422, True)
