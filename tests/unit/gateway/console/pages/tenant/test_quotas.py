"""Pages of quotas: use, requests with their decisions, and who sees and decides what."""

from collections.abc import AsyncIterator

import pytest
from tests.unit.gateway.console.support import Browser, browser

from opentalos.gateway.console.pages.tenant.organisation import step_of
from opentalos.gateway.console.pages.tenant.projection import outlook_of, peak_of, reached_days
from opentalos.gateway.console.pages.tenant.quotas import kind_of, rows_of

HOSTILE = "<script>alert(1)</script>"
DAY_MS = 86_400_000
PROJECTION = {
    "tenant": "CL1", "made_ms": 4 * DAY_MS, "days": 30, "level": 1_000, "trend_per_day": 100,
    "season": [1_000] * 7, "spread": 50, "peak": 1_200,
}  # fmt: skip


@pytest.fixture
async def root() -> AsyncIterator[Browser]:
    async with browser() as made:
        yield made


async def ask(user: Browser, total: int, **fields: str) -> str:
    sent = {"action": "ask", "total": str(total), **fields}
    reply = await user.submit("/console/quotas/CL1", sent)
    assert reply.status == 200, reply.words
    assert "<script>" not in reply.text
    return reply.words


async def test_the_decision_is_shown_with_its_reason(root: Browser) -> None:
    dora = await root.as_user("dora", organisation="CL1")
    words = await ask(dora, 1_000_000, reason=HOSTILE)
    assert "needs an administrator" in words or "rejected" in words
    assert "you requested 1000000" in words
    assert "Without an administrator the organisation can have up to" in words
    page = await dora.get("/console/quotas")
    assert (page.status, 'href="/console/quotas/CL1"' in page.text) == (200, True)


async def test_a_request_that_waits_is_approved_with_a_reason(root: Browser) -> None:
    dora = await root.as_user("dora", organisation="CL1")
    await ask(dora, 50, reason=HOSTILE, by_person="1")
    listed = await root.get("/console/quotas")
    assert "Requests that wait for a decision" in listed.words
    assert HOSTILE not in listed.text
    path = "/console/quotas/CL1"
    assert HOSTILE not in (await root.get(path)).text
    approve = {"action": "approve", "total": "40"}
    silent = await root.submit(path, approve)
    assert (silent.status, "give a reason" in silent.words) == (422, True)
    assert (await root.submit(path, approve | {"reason": HOSTILE})).status == 303
    seen = await dora.get(path)
    assert "0 of 40" in seen.words
    assert HOSTILE in seen.words
    assert HOSTILE not in seen.text
    assert "waits for an administrator" not in seen.words


async def test_a_request_is_denied_and_a_grant_is_revoked_by_its_name(root: Browser) -> None:
    dora = await root.as_user("dora", organisation="CL1")
    path, deny = "/console/quotas/CL1", {"action": "deny", "reason": "no traffic"}
    await ask(dora, 50, by_person="1")
    assert (await root.submit(path, deny)).status == 303
    assert "request was rejected" in (await root.get(path.removesuffix("/CL1"))).words
    await ask(dora, 50, by_person="1")
    assert (await root.submit(path, {"action": "approve", "reason": "agreed"})).status == 303
    wrong = await root.submit(path, deny | {"confirmed": "CL2"})
    assert (wrong.status, "nothing was revoked" in wrong.words) == (422, True)
    assert "of 50" in (await dora.get(path)).words
    assert (await root.submit(path, deny | {"confirmed": "CL1"})).status == 303
    assert "the default" in (await dora.get(path)).words


async def test_a_tenant_neither_sees_nor_decides_for_another(root: Browser) -> None:
    dora = await root.as_user("dora", organisation="CL1")
    eve = await root.as_user("eve", organisation="CL2")
    await ask(dora, 50, by_person="1")
    assert "CL1" not in (await eve.get("/console/quotas")).words
    guess, missing = await eve.get("/console/quotas/CL1"), await eve.get("/console/quotas/CL9")
    assert (guess.status, guess.words.replace("CL1", "CL9")) == (404, missing.words)
    own = await eve.get("/console/quotas/CL2")
    assert own.status == 200
    for action in ("approve", "deny", "ask"):
        for name in ("CL1", "CL2"):
            fields = {"action": action, "reason": "x", "total": "9", "confirmed": name}
            if (action, name) != ("ask", "CL2"):
                refused = await eve.submit(f"/console/quotas/{name}", fields)
                assert refused.status in (403, 404), (action, name)
    assert "Decide" not in (await dora.get("/console/quotas/CL1")).words
    assert "50" in (await root.get("/console/quotas")).words


async def test_a_viewer_and_a_user_without_organisation(root: Browser) -> None:
    dora = await root.as_user("dora", organisation="CL1")
    await ask(dora, 50, by_person="1")
    viewer = await root.as_user("viewer", role="viewer")
    page = await viewer.get("/console/quotas/CL1")
    assert (page.status, "Decide" in page.words, "Request partitions" in page.words) == (
        200, False, False,
    )  # fmt: skip
    alone = await root.as_user("loner")
    words = (await alone.get("/console/quotas")).words
    assert "You belong to no organisation" in words
    assert "Your limits" in words
    assert (await alone.get("/console/quotas/use?limit=put_bytes_per_s")).status == 200


def test_the_limit_is_reached_when_peaks_and_their_spread_are_above_it() -> None:
    assert peak_of(PROJECTION, 3) == 1_300.0
    assert reached_days(PROJECTION, 1_349, 0) == 3
    assert reached_days(PROJECTION, 1_349, 3) == 0
    assert reached_days(PROJECTION, 0, 0) is None
    assert reached_days(PROJECTION | {"trend_per_day": 0}, 2_000, 0) is None
    weekend = PROJECTION | {"season": [0, 0, 0, 0, 2_000, 0, 0], "trend_per_day": 0}
    assert [peak_of(weekend, day) for day in (0, 1, 6)] == [0.0, 0.0, 0.0]
    assert peak_of(weekend, 4) == 2_000.0  # made on a Monday; Friday is the fifth day


def test_the_outlook_begins_today_and_marks_the_day() -> None:
    found = outlook_of(PROJECTION, 2_000, 6 * DAY_MS)
    assert found.today == 1_200.0
    assert found.reached_days == 8
    assert found.reached_x is not None
    assert found.points.count(",") == 91
    far = outlook_of(PROJECTION | {"trend_per_day": 0}, 0, 6 * DAY_MS)
    assert (far.limit_y, far.reached_days, far.reached_x) == (None, None, None)


def test_use_has_a_state_and_requests_have_a_row() -> None:
    assert [kind_of(used, 10) for used in (7, 8, 10, 11)] == ["good", "warn", "bad", "bad"]
    assert kind_of(5, 0) == ""
    grants = [{"organisation": "CL1", "used": 1, "total": 2, "granted_ms": 0}]
    requests = [{"organisation": name, "used": 3, "total": 9} for name in ("CL1", "CL2")]
    found = {row["organisation"]: row for row in rows_of(grants, requests)}
    assert (found["CL1"]["total"], found["CL1"]["asked"]["total"]) == (2, 9)
    assert (found["CL2"]["total"], found["CL2"]["kind"]) == (None, "")


def test_events_of_the_audit_become_steps() -> None:
    event = {
        "at_ms": 1, "principal": "dora", "action": "apply for quota", "outcome": "done",
        "error": "", "details": {"total": "5", "decision": "reject", "reason": "too many"},
    }  # fmt: skip
    found = step_of(event)
    assert (found["text"], found["kind"], found["total"], found["reason"]) == (
        "rejected", "bad", 5, "too many",
    )  # fmt: skip
    approved = step_of(event | {"action": "approve quota", "details": {"note": "agreed"}})
    assert (approved["text"], approved["reason"]) == ("granted", "agreed")
    assert step_of(event | {"outcome": "failed", "error": "QuotaExceeded"})["kind"] == "warn"
