"""The partition quota of one organisation: use, projection, requests and their decisions."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import Done, View, Visit, url
from opentalos.gateway.console.pages.tenant.projection import outlook_of

HISTORY_MS: Final = 90 * 86_400_000
PAGES_MAX: Final = 10  # of the audit that are read for the history
EVENTS: Final = 1_000
SHOWN_MAX: Final = 50
# What a person reads for the outcome of a decision: (text, kind of state).
OUTCOMES: Final[Mapping[str, tuple[str, str]]] = {
    "approve": ("granted at once", "good"),
    "human": ("needs an administrator", "warn"),
    "reject": ("rejected", "bad"),
}
_ACTIONS: Final = ("apply for quota", "approve quota", "revoke quota")
_NO_HISTORY: Final = (403, 404, 503)


async def show(visit: Visit) -> View:
    """Use, projection, history, and the forms that fit the caller."""
    return await _view(visit)


async def change(visit: Visit) -> View | Done:
    """Ask, approve, reject: the field ``action`` says what."""
    name, action = visit.places["organisation"], visit.form.get("action", "")
    here, reason = url("quotas", name), visit.form.get("reason", "").strip()
    if action == "ask":
        return await _ask(visit, name)
    if not reason:
        raise RestError(422, "give a reason: the organisation reads it")
    if action == "approve":
        document: dict[str, Any] = {"reason": reason}
        if visit.form.get("total", "").strip():
            document["total"] = visit.number("total")
        await visit.rest.post("quota-requests", name, "approve", document=document)
        return Done(here, f"Partitions were granted to {name}.")
    pending = await _pending(visit, name)
    if pending is None and visit.form.get("confirmed", "").strip() != name:
        raise RestError(422, "nothing was revoked: the name that you typed is another one")
    await visit.rest.post("quota-requests", name, "revoke", document={"reason": reason})
    done = "request was rejected" if pending else "grant was revoked"
    return Done(here, f"The {done}.")


async def _ask(visit: Visit, name: str) -> View:
    """Request partitions, and show the decision with its reason."""
    document: dict[str, Any] = {
        "organisation": name,
        "total": visit.number("total"),
        "reason": visit.form.get("reason", "").strip(),
        "auto": "by_person" not in visit.form,
    }
    replied = await visit.rest.post("quota-requests", document=document)
    decision = replied.get("decision") or {
        "outcome": "human", "reason": "the request waits for an administrator", "approvable": None,
    }  # fmt: skip
    return await _view(visit, decision | {"total": document["total"]})


async def _view(visit: Visit, decision: Mapping[str, Any] | None = None) -> View:
    name = visit.places["organisation"]
    grants, asked, projections, (history, older) = await asyncio.gather(
        visit.rest.get("quotas", "organisations"),
        visit.rest.get("quota-requests"),
        _projection(visit, name),
        _history(visit, name),
    )
    grant = _of(grants["organisations"], name)
    pending = _of(asked["requests"], name)
    if grant is None and pending is None and projections is None:
        # Alike: an organisation of others, and one that nobody knows.
        raise RestError(404, f"no quota of {name} is known")
    limit = grant["bytes_per_s"] if grant else 0
    return View(
        template="tenant/organisation.html",
        title=f"Quota of {name}",
        data={
            "organisation": name,
            "grant": grant,
            "pending": pending,
            "approves": asked["admin"],
            "own": visit.who.organisation == name and visit.who.changes,
            "decision": decision,
            "outcomes": OUTCOMES,
            "projection": projections,
            "outlook": outlook_of(projections, limit, visit.now_ms) if projections else None,
            "history": history,
            "older": older,
        },
        cli=(
            "talos quota request TOTAL --auto",
            f"talos quota approve {name} --reason TEXT" if asked["admin"] else "talos quota show",
        ),
        trail=(("Quotas", url("quotas")),),
    )


def _of(rows: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    return next((row for row in rows if row["organisation"] == name), None)


async def _pending(visit: Visit, name: str) -> Mapping[str, Any] | None:
    asked = await visit.rest.get("quota-requests")
    return _of(asked["requests"], name)


async def _projection(visit: Visit, name: str) -> Mapping[str, Any] | None:
    """None: there is none, or it is another tenant's."""
    try:
        found: Mapping[str, Any] = await visit.rest.get("quota-projections", name)
    except RestError as error:
        if error.status == 401:  # the login is over
            raise
        return None
    return found


async def _history(visit: Visit, name: str) -> tuple[Sequence[Mapping[str, Any]], bool]:
    """Requests and decisions, the latest first, and whether some events were not read."""
    found: list[Mapping[str, Any]] = []
    page: int | None = 0
    for _ in range(PAGES_MAX):
        query = {"since_ms": visit.now_ms - HISTORY_MS, "limit": EVENTS, "page": page}
        try:
            read = await visit.rest.get("audit", query=query)
        except RestError as error:
            if error.status in _NO_HISTORY:
                return (), True
            raise
        found += [
            event
            for event in read["events"]
            if event["action"] in _ACTIONS and event["resource"] == name
        ]
        page = read["next_page"]
        if page is None:
            break
    once = {event["id"]: event for event in found}
    latest = sorted(once.values(), key=lambda event: event["at_ms"], reverse=True)
    return [step_of(event) for event in latest[:SHOWN_MAX]], page is not None


def step_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """An event of the audit as one step of the history: (text, kind), who, total, reason."""
    details = event["details"]
    total = str(details.get("total", ""))  # the audit keeps texts
    text, kind = {
        "approve quota": ("granted", "good"), "revoke quota": ("rejected or revoked", "bad"),
    }.get(event["action"], OUTCOMES.get(str(details.get("decision")), ("asked", "")))  # fmt: skip
    if event["outcome"] != "done":
        text, kind = f"failed: {event['error'] or event['outcome']}", "warn"
    return {
        "at_ms": event["at_ms"],
        "who": event["principal"],
        "text": text,
        "kind": kind,
        "total": int(total) if total.isascii() and total.isdigit() else None,
        "reason": details.get("reason") or details.get("note") or "",
    }
