"""Streams of a table: the topics that its changes are published to, and how far they are."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import Done, Page, View, Visit, url
from opentalos.gateway.console.pages import series
from opentalos.gateway.console.pages.table.tables import trail

MARKED_MAX: Final = 16  # streams whose mark is read; a new mark costs the server a scan
REFRESH_S: Final = 15
VIEWS: Final = ("mutate-log", "record-image", "keys-only")
_KINDS: Final = {"running": "good", "gap": "bad", "disabled": "warn"}


async def show(visit: Visit) -> View:
    """Streams with state and lag."""
    name = visit.places["table"]
    table, listed = await asyncio.gather(
        visit.rest.get("tables", name), visit.rest.get("tables", name, "streams")
    )
    streams: list[dict[str, Any]] = listed["streams"]
    marks = await asyncio.gather(
        *(_mark(visit, name, stream) for stream in streams[:MARKED_MAX]),
    )
    rows = [
        stream | {"mark": mark, "link": _topic(stream), "kind": _KINDS[stream["state"]]}
        for stream, mark in zip(streams, [*marks, *[{}] * len(streams[MARKED_MAX:])], strict=True)
    ]
    return View(
        template="table/streams.html",
        title=table["name"],
        data={"table": table, "tab": "streams", "streams": rows, "views": VIEWS},
        cli=(f"talos table stream list {name}", f"talos table stream enable {name} TOPIC"),
        refresh_s=REFRESH_S,
        trail=trail(),
    )


async def change(visit: Visit) -> Done:
    """Set, disable or remove a stream: the field ``action`` says what."""
    name, topic = visit.places["table"], visit.form.get("topic", "").strip()
    back, action = url("tables", name, "streams"), visit.form.get("action", "set")
    if not topic:
        raise RestError(422, "name the topic of the stream")
    if action == "remove":
        if visit.form.get("confirmed", "").strip() != topic:
            raise RestError(422, "nothing was removed: the topic that you typed is another one")
        await visit.rest.delete("tables", name, "streams", topic)
        return Done(back, f"The stream to {topic} was removed.")
    document: dict[str, Any] = {"enabled": action != "disable"}
    if visit.form.get("view"):
        document["view"] = visit.form["view"]
    names = [column.strip() for column in visit.form.get("columns", "").split(",")]
    if any(names):
        document["columns"] = [column for column in names if column]
    await visit.rest.put("tables", name, "streams", topic, document=document)
    state = "disabled" if action == "disable" else "set"
    return Done(back, f"The stream to {topic} is {state}.")


async def _mark(visit: Visit, table: str, stream: Mapping[str, Any]) -> Mapping[str, Any]:
    """How far the stream is complete, and the rate of its topic."""
    topic = _topic(stream)
    found, rate = await asyncio.gather(
        _stream(visit, table, stream["topic"]),
        series.read(visit, "messages_in", topic=topic) if topic else _nothing(),
    )
    mark = found.get("mark")
    lag_s = (visit.now_ms - mark["timestamp_ms"]) / 1_000 if mark else None
    values: Sequence[float | None] = rate.first.values if rate.first else ()
    return {
        "at_ms": mark["timestamp_ms"] if mark else None,
        "lag_s": None if lag_s is None else max(0.0, lag_s),
        "missing": found.get("no_mark", ""),
        "rate": values,
    }


async def _stream(visit: Visit, table: str, topic: str) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = await visit.rest.get("tables", table, "streams", topic)
    except RestError as error:
        if error.status == 401:  # the login is over
            raise
        return {"no_mark": error.detail}
    return found


def _topic(stream: Mapping[str, Any]) -> str:
    """OWNER/NAME; empty: its owner is not known."""
    owner = stream["topic_owner"]
    return f"{owner}/{stream['topic'].rpartition('/')[2]}" if owner else ""


async def _nothing() -> series.Series:
    return series.Series((), ())


PAGES = (Page(path="tables/{table}/streams", show=show, change=change),)
