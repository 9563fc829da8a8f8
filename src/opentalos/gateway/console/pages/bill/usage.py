"""Usage of a topic: a month by day, a day by hour, an hour of a partition by minute.

Days and hours are exact: the offsets at their begins, counted by the log. Minutes are the ones that
are billed. What retention dropped is in invoices only.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import Page, View, Visit, url
from opentalos.gateway.console.pages.bill.bars import Bar, Bars
from opentalos.gateway.console.shown import size

PARTITIONS_MAX: Final = 32  # of one page
MINUTES: Final = 60
_AT: Final = re.compile(r"(\d{4})-(\d{2})(?:-(\d{2})(?:T(\d{2}))?)?")
_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Span:
    """A month, a day or an hour in UTC. ``step``: what it is split by."""

    text: str
    begin: datetime
    end: datetime
    step: timedelta

    @property
    def edges(self) -> Sequence[datetime]:
        """The begins of its parts, and its end."""
        count = (self.end - self.begin) // self.step
        return [self.begin + self.step * index for index in range(count + 1)]


def span_of(text: str, now_ms: int) -> Span:
    """YYYY-MM, with -DD and THH; anything else selects the present month."""
    found = _AT.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        year, month, day, hour = (int(part or 0) for part in found.groups())
        begin = datetime(year, month, day or 1, hour, tzinfo=UTC)
        if not 1970 <= year < 9999:
            raise ValueError
    except ValueError:
        return span_of(datetime.fromtimestamp(now_ms / _MS, UTC).strftime("%Y-%m"), now_ms)
    if found[4]:
        return Span(text, begin, begin + timedelta(hours=1), timedelta(minutes=1))
    if found[3]:
        return Span(text, begin, begin + timedelta(days=1), timedelta(hours=1))
    end = (begin + timedelta(days=31)).replace(day=1)
    return Span(text, begin, end, timedelta(days=1))


async def show(visit: Visit) -> View:
    """One level of the drill-down."""
    name = visit.places["topic"]
    topic = await visit.rest.get("topics", name, query={"limit": 0})
    span = span_of(visit.query.text("at"), visit.now_ms)
    chosen = visit.query.integer("partition", -1, -1)
    chosen = chosen if chosen < topic["consumer_partitions"] else -1
    first = visit.query.integer("first", 0, 0, max(0, topic["consumer_partitions"] - 1))
    last = min(first + PARTITIONS_MAX, topic["consumer_partitions"])
    partitions = [chosen] if chosen >= 0 else list(range(first, last))
    minutes = span.step == timedelta(minutes=1)
    edges = [span.begin, span.end] if minutes else span.edges
    counts = await _counts(visit, name, partitions, edges)
    data: dict[str, Any] = {
        "topic": topic,
        "span": span,
        "chosen": chosen,
        "partitions": [partition for partition, _ in counts],
        "above": _above(span),
        "around": _around(span),
        "later": url("usage", name, at=span.text, first=last)
        if chosen < 0 and last < topic["consumer_partitions"]
        else "",
        "kept_since_ms": visit.now_ms - topic["retention_s"] * _MS,
        "path": f"{topic['owner']}/{topic['name']}",
    }
    if minutes:
        data |= await _minutes(visit, name, span, chosen, counts)
    else:
        data |= _parts(visit, name, span, counts, chosen)
    return View(
        template="bill/usage.html",
        title=f"Usage of {topic['name']}",
        data=data,
        cli=(f"talos bill export --month {span.text[:7]} --tenant {topic['owner']}",),
        trail=(
            ("Bills", url("bills")),
            (f"Bill of {topic['owner']}", url("bills", topic["owner"])),
        ),
    )


Counts = Sequence[tuple[int, Sequence[int]]]  # partition, messages between neighbouring edges


async def _counts(
    visit: Visit, name: str, partitions: Sequence[int], edges: Sequence[datetime]
) -> Counts:
    """Messages that are kept, by the offsets at the edges."""
    now = datetime.fromtimestamp(visit.now_ms / _MS, UTC)
    past = [edge for edge in edges if edge <= now]
    read = await asyncio.gather(
        *(
            visit.rest.get(
                "topics", name, "offsets",
                query={"partition": partitions, "time_ms": int(edge.timestamp()) * _MS},
            )
            for edge in past
        )
    )  # fmt: skip
    found = []
    for index, partition in enumerate(partitions):
        entries = [reply["partitions"][index] for reply in read]
        if not entries or any("at" not in entry for entry in entries):
            continue  # its server cannot be reached now
        offsets = [entry["at"] for entry in entries]
        offsets += [entries[-1]["next"]] * (len(edges) - len(past))
        pairs = pairwise(offsets)
        found.append((partition, [max(0, after - before) for before, after in pairs]))
    return found


def _parts(visit: Visit, name: str, span: Span, counts: Counts, chosen: int) -> Mapping[str, Any]:
    """Bars of days or hours, and the shades of partitions."""
    sums = [sum(column) for column in zip(*(values for _, values in counts), strict=True)]
    form = "%Y-%m-%d" if span.step == timedelta(days=1) else "%Y-%m-%dT%H"
    only = chosen if chosen >= 0 else None
    texts = [edge.strftime(form) for edge in span.edges[:-1]]
    links = [url("usage", name, at=text, partition=only) for text in texts]
    bars = Bars(
        [
            Bar(text, (count,), f"{count:,} messages", link)
            for text, count, link in zip(texts, sums, links, strict=True)
        ]
        if sums
        else [],
        label_from=0 if span.step == timedelta(days=1) else len("2026-01-31T"),
    )
    return {
        "bars": bars,
        "sums": sum(sums),
        "columns": [text[-2:] for text in texts],
        "heat": [
            (partition, url("usage", name, at=span.text, partition=partition), values, sum(values))
            for partition, values in counts
        ],
        "most": max((max(values) for _, values in counts), default=0),
    }


async def _minutes(
    visit: Visit, name: str, span: Span, chosen: int, counts: Counts
) -> Mapping[str, Any]:
    """The minutes of a partition, the busiest one unless one was chosen."""
    ordered = sorted(counts, key=lambda row: sum(row[1]), reverse=True)
    partition = chosen if chosen >= 0 else ordered[0][0] if ordered else 0
    begin_ms = int(span.begin.timestamp()) * _MS
    failure, usage = "", None
    try:
        offsets = await visit.rest.get(
            "topics", name, "offsets", query={"partition": partition, "time_ms": begin_ms}
        )
        at = offsets["partitions"][0].get("at", 0)
        usage = await visit.rest.get(
            "topics", name, "usage",
            query={"partition": partition, "offset": at, "minutes_max": MINUTES},
        )  # fmt: skip
    except RestError as error:
        if error.status not in (403, 404, 503):
            raise
        failure = error.detail
    rows = _of_hour(usage, begin_ms)
    return {
        "partition": partition,
        "others": [(row[0], sum(row[1]), url("usage", name, at=span.text, partition=row[0]))
                   for row in ordered],
        "failure": failure,
        "usage": usage,
        "minutes": [row for row in rows if row["records"]],
        "bars": _minute_bars(rows, "records", lambda count: f"{count:,} messages"),
        "sizes": _minute_bars(rows, "bytes", size),
        "sums": sum(row["records"] for row in rows),
        "bytes": sum(row["bytes"] for row in rows),
    }  # fmt: skip


def _of_hour(usage: Mapping[str, Any] | None, begin_ms: int) -> Sequence[Mapping[str, Any]]:
    """A row for each minute of the hour."""
    found = {minute["minute_ms"]: minute for minute in (usage["minutes"] if usage else ())}
    nothing = {"records": 0, "bytes": 0, "first_offset": 0, "next_offset": 0}
    times = (begin_ms + minute * 60_000 for minute in range(MINUTES))
    return [found.get(time, {"minute_ms": time, **nothing}) for time in times]


def _minute_bars(rows: Sequence[Mapping[str, Any]], name: str, shown: Any) -> Bars:
    bars = [Bar.at(row["minute_ms"], (row[name],), shown(row[name])) for row in rows]
    return Bars(bars, label_from=len("2026-01-31 "))


def _above(span: Span) -> Sequence[str]:
    """The spans that this one is part of, and itself."""
    return [span.text[:length] for length in (7, 10, 13) if length <= len(span.text)]


def _around(span: Span) -> tuple[str, str]:
    """The same span before and after."""
    form = {7: "%Y-%m", 10: "%Y-%m-%d", 13: "%Y-%m-%dT%H"}[len(span.text)]
    before = span.begin - timedelta(minutes=1)
    return before.strftime(form), span.end.strftime(form)


PAGES = (Page(path="usage/{topic}", show=show),)
