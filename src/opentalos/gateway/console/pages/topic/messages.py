"""The messages of a topic: by offset, by time, the newest, and one alone."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import Page, View, Visit, url
from opentalos.gateway.console.pages.topic import payload
from opentalos.gateway.console.pages.topic.detail import header, trail

FROM: Final = ("end", "start", "offset", "time")
ROWS: Final = 50
ROWS_MAX: Final = 500
SEARCHED_MAX: Final = 1_000  # messages of a partition that one page searches
PARTITIONS_MAX: Final = 32  # that a page reads together
READS_MAX: Final = 128  # of a page
BYTES_MAX: Final = 1 << 20  # of data that a page reads
CELL_BYTES_MAX: Final = 2 << 10  # of a message in the list
WHOLE_BYTES_MAX: Final = 256 << 10  # of a message on a page of its own


class Wanted(NamedTuple):
    """What a page shows, from its query."""

    partition: int | None  # None: all
    start: str  # one of FROM
    offset: int
    time_ms: int | None
    rows: int
    find: str


class Read(NamedTuple):
    """Messages of one partition, in order. ``searched``: those that were read."""

    partition: int
    messages: Sequence[Mapping[str, Any]]
    searched: int
    failure: str = ""


async def show(visit: Visit) -> View:
    """Messages in a table; those of several partitions by the time of storing."""
    name, wanted = visit.places["topic"], wanted_of(visit)
    topic, offsets = await asyncio.gather(
        header(visit, name),
        visit.rest.get("topics", name, "offsets", query={"partition": wanted.partition}),
    )
    partitions: list[dict[str, Any]] = offsets["partitions"]
    chosen = [
        entry
        for entry in partitions
        if "error" in entry or entry["next"] > entry["start"] or wanted.partition is not None
    ]
    left_out = max(0, len(chosen) - PARTITIONS_MAX)
    reads = await asyncio.gather(
        *(_read(visit, entry, wanted, len(chosen)) for entry in chosen[:PARTITIONS_MAX])
    )
    messages = _merged(reads, wanted)
    views = views_of(visit)
    return View(
        template="topic/messages.html",
        title=topic["name"],
        data={
            "topic": topic,
            "tab": "messages",
            "wanted": wanted,
            "froms": FROM,
            "views": payload.VIEWS,
            "rows": [row_of(message, views, CELL_BYTES_MAX) for message in messages],
            "searched": sum(read.searched for read in reads),
            "failures": [read for read in reads if read.failure],
            "left_out": left_out,
            "time": visit.query.text("time"),
            "links": _links(visit, wanted, messages, chosen),
        },
        cli=(_command(name, wanted),),
        trail=trail(),
    )


async def show_message(visit: Visit) -> View:
    """One message with everything that is stored of it."""
    name, partition = visit.places["topic"], visit.places["partition"]
    offset = visit.places["offset"]
    if not offset.isascii() or not offset.isdigit():
        raise RestError(404, f"{offset} is no offset")
    topic, found = await asyncio.gather(
        header(visit, name),
        visit.rest.get(
            "topics", name, "partitions", partition, "messages",
            query={"offset": offset, "messages_max": 1},
        ),
    )  # fmt: skip
    first = next(iter(found["messages"]), None)
    if first is None or first["offset"] != int(offset):
        raise RestError(404, f"partition {partition} has no message at offset {offset}")
    return View(
        template="topic/message.html",
        title=f"Message {partition}/{int(offset):,}",
        data={
            "topic": topic,
            "row": row_of(first, views_of(visit, payload.VIEWS[1:]), WHOLE_BYTES_MAX),
            "views": payload.VIEWS[1:],
        },
        cli=(f"talos consume {name} --partition {partition} --from {offset} -n 1 --format json",),
        trail=(
            *trail(),
            (topic["name"], url("topics", name)),
            ("Messages", url("topics", name, "messages")),
        ),
    )


class Views(NamedTuple):
    """How payloads are shown."""

    view: str
    masked: frozenset[str]


def views_of(visit: Visit, allowed: Sequence[str] = payload.VIEWS) -> Views:
    """The view and the masks of the query, with those of the configuration."""
    masked = payload.names_of(visit.settings.masked_fields, visit.query.text("mask"))
    return Views(visit.query.choice("view", allowed), masked)


def row_of(message: Mapping[str, Any], views: Views, bytes_max: int) -> dict[str, Any]:
    """A message with its payload as it is shown."""
    data = payload.data_of(message)
    fields = {name: value for name, value in message.items() if name != "base64"}
    return fields | {"shown": payload.shown(data, views.view, views.masked, bytes_max)}


def wanted_of(visit: Visit) -> Wanted:
    """What the query asks for; what makes no sense counts as absent."""
    query = visit.query
    time_ms = parsed_time(query.text("time"))
    start = query.choice("from", FROM)
    partition: int | None = query.integer("partition", -1, -1)
    if partition == -1:
        partition = 0 if start == "offset" else None
    return Wanted(
        partition,
        start if start != "time" or time_ms is not None else FROM[0],
        query.integer("offset", 0),
        time_ms,
        query.integer("rows", ROWS, 1, ROWS_MAX),
        query.text("find"),
    )


def parsed_time(text: str) -> int | None:
    """Unix milliseconds of an ISO time in UTC, or of a number of them; None: it is neither."""
    if text.isascii() and text.isdigit() and len(text) <= 14:  # until the year 5138
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000)


async def _read(visit: Visit, entry: Mapping[str, Any], wanted: Wanted, partitions: int) -> Read:
    """Messages of a partition. One that cannot be read now does not spoil the others.

    Of a damaged one what is whole, but for its end, which nobody knows.
    """
    partition, failure = entry["partition"], entry.get("error", "")
    if failure and ("start" not in entry or wanted.start == "end"):
        return Read(partition, (), 0, failure)
    count = SEARCHED_MAX if wanted.find else wanted.rows
    share = max(BYTES_MAX // min(partitions, PARTITIONS_MAX), 32 << 10)
    query: dict[str, str | int] = {"messages_max": count, "bytes_max": share}
    if wanted.start == "end":
        query["offset"] = max(entry["start"], entry["next"] - count)
    elif wanted.start == "offset":
        query["offset"] = max(wanted.offset, entry["start"])
    elif wanted.start == "time" and wanted.time_ms is not None:
        query["time_ms"] = wanted.time_ms
    try:
        messages, ended = await read_messages(
            visit, partition, query, reads=READS_MAX // min(max(partitions, 1), PARTITIONS_MAX)
        )
    except RestError as error:
        if error.status in (401, 403):
            raise
        return Read(partition, (), 0, failure or error.detail)
    matching = [message for message in messages if _contains(message, wanted.find)]
    return Read(partition, matching, len(messages), failure or ended)


async def read_messages(
    visit: Visit, partition: int, query: Mapping[str, str | int], reads: int
) -> tuple[list[Mapping[str, Any]], str]:
    """Messages of a partition, by so many reads at most: one may end at the end of a block.

    Returns: the messages, and the error of a later read, as behind them the log may be damaged.
    Args: query: as REST has it, with ``messages_max`` and ``bytes_max``.
    """
    path = ("topics", visit.places["topic"], "partitions", str(partition), "messages")
    wanted, left_bytes = int(query["messages_max"]), int(query["bytes_max"])
    messages: list[Mapping[str, Any]] = []
    failure = ""
    for _ in range(max(1, reads)):
        try:
            found = await visit.rest.get(*path, query=query)
        except RestError as error:
            if not messages:
                raise
            failure = error.detail
            break
        messages += found["messages"]
        left_bytes -= sum(len(message["base64"]) * 3 // 4 for message in found["messages"])
        ended = not found["messages"] or found["lag"] == 0
        if ended or len(messages) >= wanted or left_bytes <= 0:
            break
        query = {
            "offset": found["next_offset"],
            "messages_max": wanted - len(messages),
            "bytes_max": left_bytes,
        }
    return messages, failure


def _contains(message: Mapping[str, Any], text: str) -> bool:
    if not text:
        return True
    return text in str(message.get("key", "")) or text.encode() in payload.data_of(message)


def _merged(reads: Sequence[Read], wanted: Wanted) -> Sequence[Mapping[str, Any]]:
    """By time of storing, the newest first if they are read from the end."""
    newest = wanted.start == "end"
    found = [message for read in reads for message in read.messages]
    found.sort(key=lambda message: (message["append_ms"], message["offset"]), reverse=newest)
    return found[: wanted.rows]


def _links(
    visit: Visit,
    wanted: Wanted,
    messages: Sequence[Mapping[str, Any]],
    chosen: Sequence[Mapping[str, Any]],
) -> Mapping[str, str]:
    """Links to older and newer messages; within one partition only."""
    if wanted.partition is None or not messages or not chosen or wanted.find:
        return {}
    offsets = [message["offset"] for message in messages]
    first, last, entry = min(offsets), max(offsets), chosen[0]
    shared: dict[str, str | int | None] = {"from": "offset", "partition": wanted.partition}
    links = {}
    if first > entry.get("start", 0):
        older = max(entry.get("start", 0), first - wanted.rows)
        links["older"] = visit.query.link(**shared, offset=older, time=None)
    if last + 1 < entry.get("next", 0):
        links["newer"] = visit.query.link(**shared, offset=last + 1, time=None)
    return links


def _command(name: str, wanted: Wanted) -> str:
    start = {"offset": str(wanted.offset), "start": "start", "end": "5m"}.get(wanted.start)
    if wanted.start == "time" and wanted.time_ms is not None:
        start = f"@{wanted.time_ms // 1_000}"
    only = "" if wanted.partition is None else f" --partition {wanted.partition}"
    return f"talos consume {name}{only} --from {start} -n {wanted.rows} --format json"


PAGES = (
    Page(path="topics/{topic}/messages", show=show),
    Page(path="topics/{topic}/messages/{partition}/{offset}", show=show_message),
)
