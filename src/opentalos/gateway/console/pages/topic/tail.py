"""The live tail: the newest messages as they arrive.

A script asks every second for what came after the offsets it knows. A reply is bounded: of a
topic that is faster, messages are left out and counted, so neither the browser nor the server falls
behind, and a tab that is closed leaves nothing behind.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import Data, Page, View, Visit, url
from opentalos.gateway.console.pages.topic import payload
from opentalos.gateway.console.pages.topic.detail import header, trail
from opentalos.gateway.console.pages.topic.messages import read_messages, row_of, views_of
from opentalos.gateway.console.paging import part
from opentalos.gateway.console.shown import instant

ROWS_MAX: Final = 500  # of one reply: as many as the page keeps; they take 15 ms of CPU
BYTES_MAX: Final = 1 << 20
CELL_BYTES_MAX: Final = 512
READS_MAX: Final = 16  # of one reply
PARTITIONS_MAX: Final = 128  # that are followed together
_VECTOR: Final = re.compile(r"[0-9]{1,6}:[0-9]{1,16}(,[0-9]{1,6}:[0-9]{1,16}){0,127}")


async def show(visit: Visit) -> View:
    """The page, which the script fills."""
    name = visit.places["topic"]
    topic = await header(visit, name)
    partition = visit.query.integer("partition", -1, -1)
    count = topic["consumer_partitions"]
    followed = part(visit.query, range(count), PARTITIONS_MAX, PARTITIONS_MAX)
    chosen: dict[str, int] = {}
    if partition >= 0:
        chosen = {"partition": partition}
    elif followed.first > 1:
        chosen = {"first": followed.first - 1}
    kept = {"view": visit.query.text("view"), "mask": visit.query.text("mask")}
    only = f" --partition {partition}" if partition >= 0 else ""
    return View(
        template="topic/tail.html",
        title=topic["name"],
        data={
            "topic": topic,
            "tab": "tail",
            "source": url("topics", name, "tail", "rows", **chosen, **kept),
            "views": payload.VIEWS,
            "partition": partition,
            "followed": followed if partition < 0 and count > PARTITIONS_MAX else None,
        },
        cli=(f"talos consume {name}{only} --follow --format json",),
        trail=trail(),
    )


async def rows(visit: Visit) -> Data:
    """What came after ``?after=``; without it, where the partitions end now."""
    name, sent = visit.places["topic"], visit.query.text("after")
    known: dict[int, int] = {}
    if _VECTOR.fullmatch(sent):
        pairs = (pair.partition(":") for pair in sent.split(","))
        known = {int(partition): int(offset) for partition, _, offset in pairs}
    only = visit.query.integer("partition", -1, -1)
    wanted = list(known) or (only if only >= 0 else None)
    query: dict[str, Any] = {"partition": wanted}
    if wanted is None:
        first = visit.query.integer("first", 0)
        query = {"from_partition": first, "limit": PARTITIONS_MAX}
    offsets = await visit.rest.get("topics", name, "offsets", query=query)
    entries = [entry for entry in offsets["partitions"] if "error" not in entry][:PARTITIONS_MAX]
    failed = [entry for entry in offsets["partitions"] if "error" in entry and "start" in entry]
    damaged = {"damaged": {str(entry["partition"]): entry["error"] for entry in failed}}
    if not known:
        ends = {entry["partition"]: entry["next"] for entry in entries}
        return Data(damaged | {"after": _vector(ends), "rows": []})
    grown = [entry for entry in entries if entry["next"] > known.get(entry["partition"], 0)]
    found = await asyncio.gather(*(_read(visit, entry, known, len(grown)) for entry in grown))
    views = views_of(visit)
    messages = sorted(
        (message for read in found for message in read),
        key=lambda message: (message["append_ms"], message["offset"]),
    )
    came = sum(
        entry["next"] - max(entry["start"], known.get(entry["partition"], 0)) for entry in grown
    )
    after = known | {entry["partition"]: entry["next"] for entry in grown}
    return Data(
        damaged
        | {
            "after": _vector(after),
            "came": came,
            "left_out": max(0, came - len(messages)),
            "rows": [_cells(row_of(message, views, CELL_BYTES_MAX)) for message in messages],
        }
    )


async def _read(
    visit: Visit, entry: Mapping[str, Any], known: Mapping[int, int], grown: int
) -> Sequence[Mapping[str, Any]]:
    """The newest messages of a partition after the known offset, at most its share of the page."""
    partition, end = entry["partition"], entry["next"]
    share = max(1, ROWS_MAX // grown)
    offset = max(entry["start"], known.get(partition, 0), end - share)
    query = {"offset": offset, "messages_max": share, "bytes_max": max(BYTES_MAX // grown, 4096)}
    try:
        messages, _ = await read_messages(visit, partition, query, READS_MAX // grown)
    except RestError as error:
        if error.status in (401, 403, 404):
            raise
        return ()
    return [message for message in messages if message["offset"] < end]


def _cells(row: Mapping[str, Any]) -> Sequence[str | int]:
    """Time, partition, offset, key, text, and how many fields are masked."""
    text: payload.Shown = row["shown"]
    ending = " …" if text.cut else ""
    return (
        f"{instant(row['append_ms'])}.{row['append_ms'] % 1_000:03}",
        row["partition"],
        row["offset"],
        str(row.get("key", "")),
        text.text + ending,
        text.hidden,
    )


def _vector(offsets: Mapping[int, int]) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))


PAGES = (
    Page(path="topics/{topic}/tail", show=show),
    Page(path="topics/{topic}/tail/rows", show=rows),
)
