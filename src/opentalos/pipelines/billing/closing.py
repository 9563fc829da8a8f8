"""Whether a month may be closed: no partition can have usage of it that the table lacks.

The minutes of a partition are a chain of offsets. A month of it is complete if the chain has no
break, joins what was metered before, and either continues in a later month or has everything that
the log has. ``month_edges`` finds the ends of the chain; ``unfinished`` judges, without I/O.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from opentalos.model.errors import TopicNotExist
from opentalos.model.names import uuid_of
from opentalos.pipelines.lake.periods.month import Month
from opentalos.sdk.rest_client import RestClient

_OFFSET_MAX: Final = (1 << 62) - 1  # beyond every log: a question for its state, not its minutes
_KEY: Final = ("topic", "partition")
_UNREPORTED: Final = (
    "the table does not say that its messages were kept to the month's end; servers report it "
    "every [metering] storage_interval_s"
)
Place = tuple[str, int]  # uuid of the topic, partition


class Watermark(NamedTuple):
    """What the server says of a partition."""

    name: str
    metered_offset: int  # usage events cover every message before it; below 0: none are made
    metered_since: int  # metering began here, if messages were dropped while it was off
    next_offset: int  # of the log
    start_offset: int = 0  # likewise


class Edges(NamedTuple):
    """The chain of a partition in the table; None: it has no minutes there."""

    name: str
    before: int | None  # the next offset of earlier months
    first: int | None  # offset of the month
    reach: int | None  # the next offset of the month
    after: int | None  # the first offset of later months


_NOTHING: Final = Edges("", None, None, None, None)


def month_edges(usage: DataFrame, month: Month) -> DataFrame:
    """One row per partition: topic, partition and ``Edges``. ``usage``: the table, all months."""
    minute = F.unix_millis("minute")
    past, later = minute < month.begin_ms, minute >= month.end_ms
    inside = ~past & ~later
    # First by name, which rarely differs: a greatest text would make Spark sort all rows.
    edges = usage.groupBy(*_KEY, "name").agg(
        F.max(F.when(past, F.col("next_offset"))).alias("before"),
        F.min(F.when(inside, F.col("first_offset"))).alias("first"),
        F.max(F.when(inside, F.col("next_offset"))).alias("reach"),
        F.min(F.when(later, F.col("first_offset"))).alias("after"),
    )
    return edges.groupBy(*_KEY).agg(
        F.max("name").alias("name"),
        F.max("before").alias("before"),
        F.min("first").alias("first"),
        F.max("reach").alias("reach"),
        F.min("after").alias("after"),
    )


def edges_of(usage: DataFrame, month: Month) -> dict[Place, Edges]:
    """``month_edges`` by partition."""
    rows = month_edges(usage, month).collect()
    return {(row[0], row[1]): Edges(*row[2:]) for row in rows}


def watermarks(call: RestClient) -> dict[Place, Watermark]:
    """What the server says of all partitions that ever existed. Raises: the server's errors."""
    found: dict[Place, Watermark] = {}
    for topic in call("GET", "topics", query={"scope": "visible"})["topics"]:
        try:
            _add(call, str(topic["resource"]), found)
        except TopicNotExist:
            continue  # deleted meanwhile
    return found


def _add(call: RestClient, resource: str, found: dict[Place, Watermark]) -> None:
    partition, partitions = 0, 1
    while partition < partitions:
        query = {"partition": partition, "offset": _OFFSET_MAX, "minutes_max": 1}
        page = call("GET", f"topics/{quote(resource, safe='')}/usage", query=query)
        found[uuid_of(resource), partition] = Watermark(
            *(page["name"], page["metered_offset"], page["metered_since"]),
            *(page["next_offset"], page["start_offset"]),
        )
        partition, partitions = partition + 1, page["partitions"]


def unfinished(
    marks: Mapping[Place, Watermark], edges: Mapping[Place, Edges]
) -> Iterable[tuple[Place, str, str]]:
    """The partitions for which the month cannot be closed: place, topic's name and the reason.

    Args: marks: asked for before the table was read, after the month's end; a deleted topic is in
          ``edges`` only.
    """
    for place in sorted(marks.keys() | edges.keys()):
        mark, chain = marks.get(place), edges.get(place, _NOTHING)
        reason = _broken(chain, mark) or _late(chain, mark)
        if reason:
            yield place, chain.name or (mark.name if mark else ""), reason


def unreported(
    marks: Mapping[Place, Watermark], reported: Collection[Place]
) -> Iterable[tuple[Place, str, str]]:
    """The partitions that keep messages and were not reported since the month's end.

    Args: reported: the partitions of the table "kept" with a report from the month's end on.
    """
    for place, mark in sorted(marks.items()):
        if mark.start_offset < mark.next_offset and place not in reported:
            yield place, mark.name, _UNREPORTED


def _broken(chain: Edges, mark: Watermark | None) -> str:
    """Where the chain does not join other months. Messages may have gone while metering was off."""
    since = mark.metered_since if mark else 0
    begin = chain.before or 0
    if chain.before is None and mark is None and chain.first is not None:
        begin = chain.first  # of a deleted topic; nobody knows any more where it began
    if chain.first is not None and chain.first not in (begin, max(begin, since)):
        return f"its minutes begin at offset {chain.first}, those before the month end at {begin}"
    end = chain.reach or max(begin, since)
    if chain.after is not None and chain.after not in (end, max(end, since)):
        return f"its minutes end at offset {end}, those after the month begin at {chain.after}"
    return ""


def _late(chain: Edges, mark: Watermark | None) -> str:
    """What may still be metered of the month."""
    if chain.after is not None or mark is None or mark.metered_offset < 0:
        return ""
    end = max(mark.metered_since, chain.before or 0, chain.reach or 0)
    if mark.metered_offset < mark.next_offset:
        return f"the server has not metered offsets {mark.metered_offset} to {mark.next_offset - 1}"
    if end < mark.metered_offset:
        return f"the table does not have offsets {end} to {mark.metered_offset - 1} yet"
    return ""
