"""The list of topics, and the form that creates one."""

import asyncio
from typing import Any, Final

from opentalos.gateway.console.page import EVERYBODY, READERS, Done, Page, View, Visit, url
from opentalos.gateway.console.pages import series
from opentalos.gateway.console.pages.overview import refresh_of
from opentalos.gateway.console.paging import matching, part

ORDERS: Final = ("name", "partitions", "messages", "bytes", "messages_per_s", "bytes_per_s")
REFRESH_S: Final = 10
_DAY_S: Final = 86_400
_NAMED: Final = "name"


async def show(visit: Visit) -> View:
    """Topics that the caller may see; amounts and rates of those that REST measures."""
    listed, status, rate = await asyncio.gather(
        visit.rest.get("topics", query={"scope": "visible"}),
        visit.rest.maybe("status"),
        series.read(visit, "messages_in", by="topic", limit=series.LIMIT_MAX, step_s=60),
    )
    measured = {(row["owner"], row["name"]): row for row in (status["topics"] if status else [])}
    found: list[dict[str, Any]] = [
        topic | {"state": measured.get((topic["owner"], topic["name"]), {})}
        for topic in matching(listed["topics"], visit.query.text("filter"), "name", "owner")
    ]
    order = visit.query.choice("order", ORDERS)
    if order == "partitions":
        found.sort(key=lambda topic: topic["partitions"], reverse=True)
    elif order != _NAMED:
        found.sort(key=lambda topic: topic["state"].get(order) or 0, reverse=True)
    return View(
        template="topic/topics.html",
        title="Topics",
        data={"part": part(visit.query, found), "order": order, "rate": rate},
        cli=("talos topic list",),
        refresh_s=refresh_of(status["topics"] if status else (), REFRESH_S),
    )


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
