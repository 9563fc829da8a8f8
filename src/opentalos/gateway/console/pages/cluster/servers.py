"""The servers: health, load, the hash ring, moves; and one server, which can be drained."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import LOOKERS, Done, Page, View, Visit, url
from opentalos.gateway.console.pages import series
from opentalos.gateway.console.pages.cluster import weights
from opentalos.gateway.console.pages.cluster.ring import colours_of, ring_of
from opentalos.gateway.console.paging import matching, part

REFRESH_S: Final = 5
RECENT_S: Final = 900
MOVES_MAX: Final = 50  # of each list
_STATES: Final[Mapping[str, str]] = {
    "serving": "good", "joining": "warn", "draining": "warn", "restarting": "warn", "gone": "bad",
}  # fmt: skip
_ALONE: Final = 409


async def show(visit: Visit) -> View:
    """All servers."""
    span = visit.query.choice("span", tuple(series.SPANS), "1h")
    cluster, arcs, bytes_in, bytes_out = await asyncio.gather(
        visit.rest.get("cluster"),
        _ring(visit),
        series.read(visit, "bytes_in", by="server", span_s=RECENT_S, limit=series.LIMIT_MAX),
        series.read(visit, "bytes_out", by="server", span_s=RECENT_S, limit=series.LIMIT_MAX),
    )
    servers: list[dict[str, Any]] = cluster["servers"]
    colours = colours_of([server["name"] for server in servers])
    moving, recent = cluster["moving"], list(reversed(cluster["recent"]))
    names = await names_of(visit) if moving or recent else {}
    found = matching(servers, visit.query.text("filter"), "name", "state", "address")
    return View(
        template="cluster/servers.html",
        title="Servers",
        data={
            "cluster": cluster,
            "part": part(visit.query, [row(server) for server in found]),
            "colours": colours,
            "ring": ring_of(arcs, colours) if arcs is not None else None,
            "most": max((server["partitions"] for server in servers), default=0),
            "answering": sum(1 for server in servers if server["answers"]),
            "bytes_in": bytes_in,
            "bytes_out": bytes_out,
            "latest": {
                name: (latest_of(bytes_in, name), latest_of(bytes_out, name)) for name in colours
            },
            "moving": [_move(move, names) for move in moving[:MOVES_MAX]],
            "recent": [_move(move, names) for move in recent[:MOVES_MAX]],
            "charts": True,
            "span": span,
            "spans": tuple(series.SPANS),
            "charted": [
                ("Bytes in per second, by server", _source("bytes_in", span), "bytes"),
                ("P99 of puts by server, ms", _source("put_p99", span), ""),
                ("P99 of REST reads by server, ms", _source("rest_read_p99", span), ""),
                ("P99 of REST changes by server, ms", _source("rest_write_p99", span), ""),
            ],
        },
        cli=("talos cluster status",),
        refresh_s=REFRESH_S,
    )


async def show_server(visit: Visit) -> View:
    """One server with its counters."""
    name = visit.places["server"]
    span = visit.query.choice("span", tuple(series.SPANS), "1h")
    cluster, load = await asyncio.gather(
        visit.rest.get("cluster"),
        series.read(visit, "bytes_in", by="server", span_s=RECENT_S, limit=series.LIMIT_MAX),
    )
    found = next((server for server in cluster["servers"] if server["name"] == name), None)
    if found is None:
        raise RestError(404, f"no server {name} is known")
    moves = [
        move
        for move in (*cluster["moving"], *reversed(cluster["recent"]))
        if name in (move["source"], move["target"])
    ]
    names = await names_of(visit) if moves else {}
    return View(
        template="cluster/server.html",
        title=name,
        data={
            "cluster": cluster,
            "found": row(found),
            "colour": colours_of([server["name"] for server in cluster["servers"]])[name],
            "counters": sorted(found["counters"].items()),
            "latest": latest_of(load, name),
            "moves": [_move(move, names) for move in moves[:MOVES_MAX]],
            "charts": True,
            "span": span,
            "spans": tuple(series.SPANS),
            "charted": [("Bytes in per second, by server", _source("bytes_in", span), "bytes")],
        },
        cli=(f"talos cluster drain {name}", f"talos cluster undrain {name}"),
        refresh_s=REFRESH_S,
        trail=(("Servers", url("servers")),),
    )


async def change_server(visit: Visit) -> Done:
    """Drain, or end it: the field ``action`` says what."""
    name = visit.places["server"]
    if visit.form.get("action") == "undrain":
        await visit.rest.delete("cluster", "servers", name, "drain")
        return Done(url("servers", name), f"Server {name} gets partitions again.")
    if visit.form.get("confirmed", "").strip() != name:
        raise RestError(422, "nothing is drained: the name that you typed is another one")
    await visit.rest.post("cluster", "servers", name, "drain")
    return Done(url("servers", name), f"Server {name} is drained: its partitions move away.")


def row(server: Mapping[str, Any]) -> dict[str, Any]:
    """A server with the kind of its state."""
    answers = server["answers"]
    kind = _STATES.get(server["state"], "") if answers else "bad"
    word = server["state"] if answers else f"{server['state']}, no answer"
    return dict(server) | {"kind": kind, "word": word}


def latest_of(found: series.Series, server: str) -> float | None:
    """The latest value of a server; None: it was not measured."""
    return next((line.latest for line in found.lines if line.labels.get("server") == server), None)


async def names_of(visit: Visit) -> Mapping[str, str]:
    """OWNER/NAME of topics by uuid; of those that the caller may see."""
    found = await visit.rest.maybe("topics", query={"scope": "visible"})
    return {
        topic["resource"].rpartition("#")[2]: f"{topic['owner']}/{topic['name']}"
        for topic in (found["topics"] if found else ())
    }


async def _ring(visit: Visit) -> Mapping[str, Any] | None:
    """Arcs of the ring; None: a server alone has none."""
    try:
        found: Mapping[str, Any] = await visit.rest.get("cluster", "ring")
    except RestError as error:
        if error.status == _ALONE:
            return None
        raise
    return found


def _move(move: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    took = move["ended_ms"] - move["at_ms"] if move["ended_ms"] and move["at_ms"] else None
    return dict(move) | {
        "topic": names.get(move["topic_uuid"], ""),
        "took_s": None if took is None else took / 1_000,
    }


def _source(metric: str, span: str) -> str:
    return series.source(metric, by="server", span=span, limit=24)


PAGES = (
    Page(path="servers", show=show, menu="Servers", roles=LOOKERS),
    Page(path="servers/weights", show=weights.show, change=weights.change,
         roles=weights.ADMINISTRATORS),
    Page(path="servers/{server}", show=show_server, change=change_server, roles=LOOKERS),
)  # fmt: skip
