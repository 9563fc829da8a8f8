"""The audit log: who changed what, and what was denied.

REST returns events in the order they were stored, so a page reads the part that its time selects,
within a bound, and filters that. It says how far it has read.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import EVERYBODY, Page, View, Visit
from opentalos.gateway.console.pages.bill.bars import Bar, Bars
from opentalos.gateway.console.pages.topic.messages import parsed_time
from opentalos.gateway.console.paging import matching, part

OUTCOMES: Final = ("done", "denied", "failed", "unknown")
KINDS: Final = {"done": "good", "denied": "bad", "failed": "warn", "unknown": "warn"}
SPANS: Final = {"1h": 3_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000}
READS_MAX: Final = 12  # calls of one page
EVENTS_OF_CALL: Final = 1_000
BARS: Final = 48
ROWS: Final = 50


class Read(NamedTuple):
    """Events in the order they were stored; ``more``: where to continue, or None."""

    events: Sequence[Mapping[str, Any]]
    more: int | None


async def show(visit: Visit) -> View:
    """Events of a span of time, the newest first."""
    query = visit.query
    span = query.choice("span", tuple(SPANS), "24h")
    since_ms = parsed_time(query.text("since"))
    if since_ms is None:
        since_ms = visit.now_ms - SPANS[span] * 1_000
    read = await _read(visit, since_ms)
    found = _filtered(visit, read.events)
    newest = [{**event, "short": _short(event["resource"])} for event in reversed(found)]
    return View(
        template="tenant/audit.html",
        title="Audit log",
        data={
            "part": part(query, newest, rows=ROWS),
            "bars": _bars(found, since_ms, visit.now_ms),
            "kinds": KINDS,
            "outcomes": [(name, sum(e["outcome"] == name for e in found)) for name in OUTCOMES],
            "actions": Counter(event["action"] for event in read.events).most_common(40),
            "busiest": Counter(event["principal"] for event in found).most_common(8),
            "read": len(read.events),
            "total": len(found),
            "since_ms": since_ms,
            "more": query.link(at=read.more, page=None) if read.more is not None else "",
            "span": span,
            "spans": tuple(SPANS),
        },
        cli=("talos audit --from TIME --principal ID --outcome OUTCOME",),
    )


async def show_event(visit: Visit) -> View:
    """One event with everything that is recorded of it."""
    wanted, at = visit.places["event"], visit.query.integer("at_ms", 0)
    read = await _read(visit, max(0, at - 1_000))
    event = next((event for event in read.events if event["id"] == wanted), None)
    if event is None:
        raise RestError(404, "there is no such event that you may see")
    return View(
        template="tenant/event.html",
        title=event["action"],
        data={"event": event, "kinds": KINDS, "details": sorted(event["details"].items())},
        cli=("talos audit --from TIME --format json",),
        trail=(("Audit log", visit.query.path.rpartition("/")[0]),),
    )


async def _read(visit: Visit, since_ms: int) -> Read:
    """The events from a time on, or from the position that the query has."""
    position: int | None = visit.query.integer("at", 0)
    found: dict[str, Mapping[str, Any]] = {}
    for _ in range(READS_MAX):
        asked = {"page": position, "since_ms": since_ms, "limit": EVENTS_OF_CALL}
        read = await visit.rest.get("audit", query=asked)
        found |= {event["id"]: event for event in read["events"]}  # one may be listed twice
        position = read["next_page"]
        if position is None:
            break
    return Read(list(found.values()), position)


def _filtered(visit: Visit, events: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    text = visit.query.text
    found = events
    for name in ("principal", "action", "resource"):
        wanted = (name, "tenant") if name == "principal" else (name,)
        found = matching(found, text(name), *wanted)
    outcome = visit.query.choice("outcome", ("", *OUTCOMES))
    if outcome:
        found = [event for event in found if event["outcome"] == outcome]
    until_ms = parsed_time(text("until"))
    if until_ms is not None:
        found = [event for event in found if event["at_ms"] < until_ms]
    return found


def _short(resource: str) -> str:
    """OWNER/NAME of a topic or table, whose resource has a unique id, too."""
    parts = resource.split("#")
    return "/".join(parts[:2]) if len(parts) == 3 else resource


def _bars(events: Sequence[Mapping[str, Any]], since_ms: int, now_ms: int) -> Bars:
    """Events over time, with those that were not done."""
    step = max(1, -(-(now_ms - since_ms) // BARS))
    counts = [Counter[str]() for _ in range(BARS)]
    for event in events:
        index = min(BARS - 1, max(0, (event["at_ms"] - since_ms) // step))
        counts[index]["done" if event["outcome"] == "done" else "not done"] += 1
    return Bars(
        [
            Bar.at(
                since_ms + index * step,
                (count["done"], count["not done"]),
                f"{count['done']:,} done, {count['not done']:,} not",
            )
            for index, count in enumerate(counts)
        ],
        label_from=len("2026-"),
    )


PAGES = (
    Page(path="audit", show=show, menu="Audit", roles=EVERYBODY - {"agent"}),
    Page(path="audit/{event}", show=show_event, roles=EVERYBODY - {"agent"}),
)
