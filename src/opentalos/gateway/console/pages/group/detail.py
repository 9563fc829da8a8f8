"""One consumer group on one topic: lag over time, who owns what, and why it does not move."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentalos.gateway.console.calls import Query
from opentalos.gateway.console.page import EVERYBODY, READERS, Page, View, Visit, url
from opentalos.gateway.console.pages import series
from opentalos.gateway.console.pages.group import heat, resets
from opentalos.gateway.console.pages.group.groups import STATES, explained
from opentalos.gateway.console.paging import Part, part

REFRESH_S: Final = 5
COLOURS: Final = 8  # of members; a ninth has that of the first again
CELLS_MAX: Final = 1_000  # partitions in the picture of owners
STEPS: Final = 60  # columns of the heat map
_ORDERS: Final = ("partition", "lag", "worker")
_LEVELS: Final = {"error": "bad", "warning": "warn", "info": "good"}
# How worker ids begin, by what joins; those of our SDKs have no form of their own.
_KINDS: Final = (("kafka:", "Kafka member"), ("rest-", "REST worker"))


class Member(NamedTuple):
    """A worker or a Kafka member, with the first of the partitions that it holds."""

    name: str
    kind: str
    address: str
    partitions: Sequence[int]
    held: int
    lag: int | None
    colour: int


async def show(visit: Visit) -> View:
    """State, explanation, lag over time, members, partitions."""
    topic, group = visit.places["topic"], visit.places["group"]
    span = visit.query.choice("span", tuple(series.SPANS), "1h")
    span_s = series.SPANS[span]
    found, why, lags = await asyncio.gather(
        visit.rest.get("topics", topic, "groups", group, query={"limit": CELLS_MAX}),
        explained(visit, topic, group),
        series.read(
            visit, "lag", topic=topic, group=group, by="partition", span_s=span_s,
            limit=heat.ROWS_MAX, step_s=max(10, span_s // STEPS),
        ),
    )  # fmt: skip
    members = members_of(found["members"])
    colours = {member.name: member.colour for member in members}
    order = visit.query.choice("order", _ORDERS)
    shown = await _part(visit, found, order)
    return View(
        template="group/group.html",
        title=group,
        data={
            "group": group,
            "topic": topic,
            "tab": "",
            "found": found,
            "why": why,
            "state": STATES.get(why["state"], (why["state"], "")) if why else ("unknown", "warn"),
            "levels": _LEVELS,
            "ends_in_s": _ends_in_s(why),
            "heat": heat.heat_of(lags, "partition", "messages behind"),
            "heat_rows_max": heat.ROWS_MAX,
            "members": members,
            "members_count": found["members_count"],
            "colours": colours,
            "cells": found["partitions"],
            "count": found["partitions_count"],
            "held": found["held"],
            "most": found["lag_max"] or 0,
            "part": shown,
            "order": order,
            "charts": True,
            "span": span,
            "spans": tuple(series.SPANS),
            "charted": [
                (
                    "Lag of the group, messages",
                    series.source("lag", topic=topic, group=group, by="total", span=span),
                    "",
                )
            ],
        },
        cli=(f"talos group describe {topic} {group}", f"talos group explain {topic} {group}"),
        refresh_s=REFRESH_S,
        trail=(("Groups", url("groups")),),
    )


async def _part(visit: Visit, found: Mapping[str, Any], order: str) -> Part:
    """The partitions of the table; those that were not read yet are read now."""
    shown = part(visit.query, range(found["partitions_count"]))
    start, count = max(0, shown.first - 1), len(shown.rows)
    read: Sequence[Any] = found["partitions"]
    if order != _ORDERS[0] or start + count > len(read):
        query: Query = {"order": order, "from": start, "limit": count}
        place = visit.places["topic"], "groups", visit.places["group"]
        read, start = (await visit.rest.get("topics", *place, query=query))["partitions"], 0
    return shown._replace(rows=read[start : start + count])


def members_of(found: Sequence[Mapping[str, Any]]) -> Sequence[Member]:
    """Members as REST lists them, by name."""
    return [
        Member(
            entry["worker"],
            kind_of(entry["worker"]),
            entry["address"],
            entry["partitions"],
            entry["partitions_count"],
            entry["lag"],
            place % COLOURS,
        )
        for place, entry in enumerate(found)
    ]


def kind_of(worker: str) -> str:
    """What joined under a worker id."""
    return next((kind for start, kind in _KINDS if worker.startswith(start)), "Talos worker")


def _ends_in_s(why: Mapping[str, Any] | None) -> float | None:
    """When the lag ends if it continues to shrink as now; None: it does not, or is not known."""
    for reason in why["reasons"] if why else ():
        figures: Mapping[str, float] = reason["figures"]
        rate = figures.get("lag_per_s")
        if rate is not None and rate < 0:
            return figures.get("lag", 0.0) / -rate
    return None


PAGES = (
    Page(path="groups/{topic}/{group}", show=show),
    Page(path="groups/{topic}/{group}/reset", show=resets.show, change=resets.change,
         roles=EVERYBODY - READERS),
)  # fmt: skip
