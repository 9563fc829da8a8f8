"""Quotas: use against limits, of organisations, of the caller, and of its topics."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import Data, Page, View, Visit, url
from opentalos.gateway.console.pages import series
from opentalos.gateway.console.pages.tenant import organisation
from opentalos.gateway.console.paging import Part, matching, part

REFRESH_S: Final = 10
TOPICS: Final = 15  # rows; each costs a call
FULL: Final = 1.0  # of a limit, from which its use is shown as bad
NEARLY: Final = 0.8  # and from which as a warning
RATES: Final = (
    ("put_bytes_per_s", "Bytes put per second", "bytes_in"),
    ("get_bytes_per_s", "Bytes read per second", "bytes_out"),
    ("put_requests_per_s", "Put requests per second", ""),
    ("get_requests_per_s", "Read requests per second", "fetches"),
)
_METRICS: Final = tuple(metric for _, _, metric in RATES if metric)


async def show(visit: Visit) -> View:
    """Grants and pending requests, the caller's own limits, and those of its topics."""
    grants, asked, own, topics, *rates = await asyncio.gather(
        visit.rest.get("quotas", "organisations"),
        visit.rest.get("quota-requests"),
        visit.rest.maybe("quota"),
        _topics(visit),
        *(series.read(visit, metric) for metric in _METRICS),
    )
    rows = rows_of(grants["organisations"], asked["requests"])
    found = matching(rows, visit.query.text("filter"), "organisation", "organisation_name")
    span = visit.query.choice("span", tuple(series.SPANS), "1h")
    use = {metric: read.first for metric, read in zip(_METRICS, rates, strict=True)}
    return View(
        template="tenant/quotas.html",
        title="Quotas",
        data={
            "part": part(visit.query, sorted(found, key=_urgency)),
            "pending": asked["requests"],
            "approves": asked["admin"],
            "own": own,
            "limits": _limits(own or {}, use),
            "space_kind": kind_of((own or {}).get("used_bytes", 0), (own or {}).get("space_bytes")),
            "topics": topics,
            "kind_of": kind_of,
            "charts": True,
            "span": span,
            "spans": tuple(series.SPANS),
            "charted": [
                (f"{text}, with its limit", url("quotas", "use", limit=name, span=span),
                 "bytes" if "bytes" in name else "")
                for name, text, metric in RATES if metric and "bytes" in name
            ],
        },
        cli=("talos quota show", "talos quota requests"),
        refresh_s=REFRESH_S,
    )  # fmt: skip


async def show_use(visit: Visit) -> Data:
    """Use of one of the caller's rates over time, and its limit as a line."""
    name = visit.query.choice("limit", tuple(name for name, _, metric in RATES if metric))
    metric = next(metric for other, _, metric in RATES if other == name)
    span_s = series.SPANS[visit.query.choice("span", tuple(series.SPANS), "1h")]
    found, own = await asyncio.gather(
        series.read(visit, metric, span_s=span_s), visit.rest.get("quota")
    )
    lines = [{"name": "use", "values": line.values} for line in found.lines[:1]]
    if own[name] and lines:
        lines.append({"name": "limit", "values": [own[name]] * len(found.times_s)})
    return Data({"times": found.times_s, "series": lines})


def rows_of(
    grants: Sequence[Mapping[str, Any]], requests: Sequence[Mapping[str, Any]]
) -> Sequence[dict[str, Any]]:
    """Organisations with what they use, what they may, and what they ask for."""
    asked = {request["organisation"]: request for request in requests}
    rows = {grant["organisation"]: dict(grant) | {"asked": None} for grant in grants}
    for name, request in asked.items():
        # Who has no grant yet is only in its request; the default is then not known here.
        rows.setdefault(name, dict(request) | {"total": None, "granted_ms": 0, "bytes_per_s": 0})
        rows[name]["asked"] = request
    return [row | {"kind": kind_of(row["used"], row["total"])} for row in rows.values()]


def kind_of(used: float, limit: float | None) -> str:
    """The state of a use: good, warn or bad; empty without a limit."""
    if not limit:
        return ""
    share = used / limit
    return "bad" if share >= FULL else "warn" if share >= NEARLY else "good"


def _urgency(row: Mapping[str, Any]) -> tuple[bool, float]:
    """Requests first, then who has used the most."""
    return row["asked"] is None, -(row["used"] / (row["total"] or 1))


def _limits(
    own: Mapping[str, Any], use: Mapping[str, series.Line | None]
) -> Sequence[Mapping[str, Any]]:
    """Limits of the caller's rates, with the latest use."""
    found = []
    for name, text, metric in RATES:
        line = use.get(metric)
        latest = line.latest if line is not None else None
        limit = own.get(name, 0)
        found.append(
            {
                "text": text,
                "unit": "bytes" if "bytes" in name else "number",
                "limit": limit,
                "use": latest,
                "values": line.values if line is not None else (),
                "kind": kind_of(latest or 0, limit),
            }
        )
    return found


async def _topics(visit: Visit) -> Part:
    """One part of the topics that the caller owns, with their quotas."""
    found = await visit.rest.maybe("topics")
    listed: Sequence[Mapping[str, Any]] = found["topics"] if found else ()
    cut = part(visit.query, listed, TOPICS, TOPICS)
    quotas = await asyncio.gather(*(_quota(visit, topic) for topic in cut.rows))
    return cut._replace(
        rows=[
            {"topic": topic, "quota": quota}
            for topic, quota in zip(cut.rows, quotas, strict=True)
            if quota is not None
        ]
    )


async def _quota(visit: Visit, topic: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """None: the caller may see the topic, but not its quota."""
    try:
        found: Mapping[str, Any] = await visit.rest.get(
            "topics", f"{topic['owner']}/{topic['name']}", "quota"
        )
    except RestError as error:
        if error.status in (403, 404):
            return None
        raise
    return found


PAGES = (
    Page(path="quotas", show=show, menu="Quotas"),
    Page(path="quotas/use", show=show_use),
    Page(path="quotas/{organisation}", show=organisation.show, change=organisation.change),
)
