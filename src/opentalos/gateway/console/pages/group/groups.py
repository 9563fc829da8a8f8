"""The list of consumer groups: state, workers, and how their lag develops."""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import Page, View, Visit, url
from opentalos.gateway.console.pages import series
from opentalos.gateway.console.paging import matching, part

ROWS: Final = 20  # each one costs a call for its state
ROWS_MAX: Final = 100
PAGES_MAX: Final = 50  # of REST's list, each with the groups of 200 topics
REFRESH_S: Final = 10
_SLOW_REFRESH_S: Final = 60  # if the list has more than one page
ORDERS: Final = ("lag", "lag_s", "group", "topic")
_DESCENDING: Final = ("lag", "lag_s")
# What REST calls the state of a group: (text, kind of state).
STATES: Final[Mapping[str, tuple[str, str]]] = {
    "caught_up": ("caught up", "good"),
    "moving": ("moving", "good"),
    "partly_stuck": ("partly stuck", "warn"),
    "stuck": ("stuck", "bad"),
    "unknown": ("unknown", "warn"),
}
_NOT_LISTED: Final = (403, 404)


class Listed(NamedTuple):
    """Groups that were read, by so many calls.

    ``unknown``: topics whose groups cannot be read now; ``after``: the topic (OWNER/NAME) after
    which none were read, because there are too many; empty: all were.
    """

    rows: Sequence[dict[str, Any]]
    pages: int
    unknown: int = 0
    after: str = ""


async def show(visit: Visit) -> View:
    """Groups that the caller may know of; of one topic with ``?topic=``."""
    topic = visit.query.text("topic")
    listed, lags = await asyncio.gather(
        _of_topic(visit, topic) if topic else _of_all(visit),
        series.read(visit, "lag", by="group", limit=series.LIMIT_MAX, step_s=60),
    )
    rows = listed.rows
    found = list(matching(rows, visit.query.text("filter"), "group", "topic", "owner"))
    order = visit.query.choice("order", ORDERS)
    if order in _DESCENDING:
        found = largest_first(found, order)
    else:
        found.sort(key=lambda row: (row[order], row["group"]))
    shown = part(visit.query, found, ROWS, ROWS_MAX)
    states = await asyncio.gather(
        *(explained(visit, _path(row), row["group"]) for row in shown.rows)
    )
    return View(
        template="group/groups.html",
        title="Consumer groups",
        data={
            "part": shown,
            "order": order,
            "topic": topic,
            "listed": listed,
            "rows": [
                row | {"explained": state, "values": _values(lags, row, visit)}
                for row, state in zip(shown.rows, states, strict=True)
            ],
            "states": STATES,
            "totals": {
                "groups": len(rows),
                "lag": sum(row["lag"] or 0 for row in rows),
                "damaged": sum(1 for row in rows if row["damaged"]),
                "oldest_s": max((row["lag_s"] or 0 for row in rows), default=0),
                "behind": sum(1 for row in rows if row["behind"]),
            },
            "charts": True,
            "span": visit.query.choice("span", tuple(series.SPANS), "1h"),
            "spans": tuple(series.SPANS),
            "charted": [("Lag by group, messages", _source(visit, topic), "")],
        },
        cli=(f"talos group list {topic}".rstrip(),),
        refresh_s=REFRESH_S if listed.pages <= 1 else _SLOW_REFRESH_S,
        trail=(("Topics", url("topics")), (topic, url("topics", topic))) if topic else (),
    )


def largest_first(rows: Iterable[dict[str, Any]], order: str) -> list[dict[str, Any]]:
    """Groups by lag or wait; what is not known may be the largest."""
    return sorted(
        rows, key=lambda row: math.inf if row["damaged"] else row[order] or 0, reverse=True
    )


async def explained(visit: Visit, topic: str, group: str) -> Mapping[str, Any] | None:
    """Why a group does not move, as REST explains it; None: it cannot say so now."""
    try:
        found: Mapping[str, Any] = await visit.rest.get("topics", topic, "groups", group, "explain")
    except RestError as error:
        if error.status == 401:  # the login is over
            raise
        return None
    return found


async def _of_all(visit: Visit) -> Listed:
    """Groups of all topics that the caller may see, page by page."""
    rows: list[dict[str, Any]] = []
    unknown, after = 0, ""
    for page in range(PAGES_MAX):
        found = await visit.rest.maybe("groups", query={"after": after or None})
        if found is None:  # the page says why
            return Listed(rows, page + 1, unknown)
        rows += found["groups"]
        unknown += len(found["unknown"])
        after = found["next"]
        if not after:
            return Listed(rows, page + 1, unknown)
    return Listed(rows, PAGES_MAX, unknown, after)


async def _of_topic(visit: Visit, name: str) -> Listed:
    try:
        topic, found = await asyncio.gather(
            visit.rest.get("topics", name, query={"limit": 0}),
            visit.rest.get("topics", name, "groups"),
        )
    except RestError as error:
        if error.status in _NOT_LISTED:  # alike: unknown, and another tenant's
            visit.rest.failures.append(error)
            return Listed((), 1)
        raise
    named = {"owner": topic["owner"], "topic": topic["name"]}
    return Listed([named | row for row in found["groups"]], 1)


def _path(row: Mapping[str, Any]) -> str:
    return f"{row['owner']}/{row['topic']}"


def _values(lags: series.Series, row: Mapping[str, Any], visit: Visit) -> Sequence[float | None]:
    """Lag over time; REST names the group of the caller's own tenant without the tenant."""
    group, topic = row["group"], _path(row)
    mine = row["owner"] if visit.who.administers else visit.who.owner
    names = {group, group if "/" in group else f"{mine}/{group}"}
    return next(
        (
            line.values
            for line in lags.lines
            if line.labels.get("topic") == topic and line.labels.get("group") in names
        ),
        (),
    )


def _source(visit: Visit, topic: str) -> str:
    span = visit.query.choice("span", tuple(series.SPANS), "1h")
    return series.source("lag", by="group", topic=topic or None, span=span)


PAGES = (Page(path="groups", show=show, menu="Groups"),)
