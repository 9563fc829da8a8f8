"""The list of topics, and the form that creates one."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentalos.gateway.console.calls import Query
from opentalos.gateway.console.page import EVERYBODY, READERS, Done, Page, View, Visit, url
from opentalos.gateway.console.pages import series
from opentalos.gateway.console.paging import Part, matching, part

ORDERS: Final = ("name", "partitions", "messages", "bytes", "messages_per_s", "bytes_per_s")
REFRESH_S: Final = 10
_DAY_S: Final = 86_400
SLOW_REFRESH_S: Final = 60
QUICK: Final = 200  # topics: so many are one page of the status
PAGES_MAX: Final = 50  # of the status
NAMED_MAX: Final = 25  # topics that one call names
_LISTED: Final = ("name", "partitions")  # orders that need no amounts


async def show(visit: Visit) -> View:
    """Topics that the caller may see; amounts, rates and lags of those that are shown, or of all
    if they decide the order."""
    order = visit.query.choice("order", ORDERS)
    by_amount = order not in _LISTED
    listed, measured, rate = await asyncio.gather(
        visit.rest.get("topics", query={"scope": "visible"}),
        _all_states(visit) if by_amount else _no_states(),
        series.read(visit, "messages_in", by="topic", limit=series.LIMIT_MAX, step_s=60),
    )
    found = list(matching(listed["topics"], visit.query.text("filter"), "name", "owner"))
    if order == "partitions":
        found.sort(key=lambda topic: topic["partitions"], reverse=True)
    elif by_amount:
        found.sort(key=lambda topic: measured.get(_path(topic), {}).get(order) or 0, reverse=True)
    shown = part(visit.query, found)
    if order == ORDERS[0] and len(found) == len(listed["topics"]):
        measured = await _following(visit, found, shown)
    elif not by_amount:
        measured = await _named(visit, list(map(_path, shown.rows)))
    rows = [topic | {"state": measured.get(_path(topic), {})} for topic in shown.rows]
    return View(
        template="topic/topics.html",
        title="Topics",
        data={"part": shown._replace(rows=rows), "order": order, "rate": rate},
        cli=("talos topic list",),
        refresh_s=SLOW_REFRESH_S if by_amount and len(listed["topics"]) > QUICK else REFRESH_S,
    )


def _path(topic: Mapping[str, Any]) -> str:
    return f"{topic['owner']}/{topic['name']}"


async def _states(visit: Visit, query: Query) -> Mapping[str, Any]:
    """What the status says of topics, by OWNER/NAME; empty: it cannot be read, the page says so."""
    found = await visit.rest.maybe("status", query=query)
    return {_path(row): row for row in found["topics"]} if found is not None else {}


async def _named(visit: Visit, names: Sequence[str]) -> Mapping[str, Any]:
    parts = [names[start : start + NAMED_MAX] for start in range(0, len(names), NAMED_MAX)]
    found = await asyncio.gather(*(_states(visit, {"topics": part}) for part in parts))
    return {path: row for states in found for path, row in states.items()}


async def _following(
    visit: Visit, listed: Sequence[Mapping[str, Any]], shown: Part
) -> Mapping[str, Any]:
    """Of the rows that are shown, which follow each other in the list of all."""
    before = _path(listed[shown.first - 2]) if shown.first > 1 else ""
    return await _all_states(visit, before, len(shown.rows))


async def _all_states(visit: Visit, after: str = "", count: int = 1 << 30) -> Mapping[str, Any]:
    """Of so many topics that follow one, page by page."""
    states: dict[str, Any] = {}
    for _ in range(PAGES_MAX):
        limit = min(count - len(states), QUICK)
        if limit <= 0:
            break
        found = await visit.rest.maybe("status", query={"after": after or None, "limit": limit})
        if found is None:
            break
        states |= {_path(row): row for row in found["topics"]}
        after = found["next"]
        if not after:
            break
    return states


async def _no_states() -> Mapping[str, Any]:
    return {}


async def show_form(visit: Visit) -> View:
    """The form of a new topic."""
    return View(
        template="topic/new.html",
        title="New topic",
        cli=("talos topic create NAME --partitions N --retention DURATION",),
        trail=(("Topics", url("topics")),),
    )


async def create(visit: Visit) -> Done:
    """A new topic."""
    name, days = visit.form.get("name", "").strip(), visit.form.get("retention_days", "").strip()
    document: dict[str, Any] = {"name": name, "partitions": visit.number("partitions")}
    if days:
        document["retention_s"] = seconds(days)
    if visit.form.get("owner_name"):
        document["owner_name"] = visit.form["owner_name"]
    made = await visit.rest.post("topics", document=document)
    path = url("topics", f"{made['owner']}/{made['name']}")
    return Done(path, f"Topic {made['name']} was created.")


def seconds(days: str) -> int | str:
    """Seconds of a number of days, or what was sent, which REST then rejects."""
    try:
        return round(float(days) * _DAY_S)
    except (ValueError, OverflowError):
        return days


PAGES = (
    Page(path="topics", show=show, menu="Topics"),
    Page(path="topics/new", show=show_form, change=create, roles=EVERYBODY - READERS),
)
