"""Compares the rows that a batch has written with the offsets that it has read; no I/O.

Executors of a cluster may write to disks that nobody else sees, and Spark calls that a success. So
a batch counts as archived only if its files have a row for every offset of its ranges.
"""

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from opentalos.model.errors import RequestError
from opentalos.model.names import ResourceName
from opentalos.pipelines.datasource.source.batch_range import BatchRange
from opentalos.pipelines.lake.written_rows import RowsMissing

_KEYS: Final = {"v", "begin", "end", "tasks"}  # of an offset of the source, ``batch_range``


class WrittenRows(NamedTuple):
    """What the files of a batch have of one partition."""

    topic: str
    partition: int
    rows: int
    first: int  # the smallest offset
    last: int


def logged_batch(text: str) -> BatchRange:
    """The batch in a file of Spark's offset log: a version, then JSON line by line.

    Raises: RequestError: it has no offset of the source.
    """
    for line in text.splitlines():
        if line.startswith("{"):
            found = json.loads(line)
            if found.keys() >= _KEYS:
                return BatchRange.parse(found)
    raise RequestError(
        "the archive cannot check its rows: Spark's offset log has no offsets of the source; "
        "leave spark.sql.streaming.offsetLog.formatVersion at 1"
    )


def check_rows(batch: BatchRange, written: Iterable[WrittenRows], *, may_lack: bool) -> int:
    """The number of messages of the batch that have no row.

    Args:    may_lack: messages may expire, or their topic be deleted, before they are read.
    Raises:  RowsMissing: rows lack though they may not, or are no messages of the batch.
    """
    left = {(ResourceName.parse(it.resource).topic, it.partition): it for it in batch.ranges}
    total = sum(span.rows for span in left.values())
    lacking = total
    for rows in written:
        span = left.pop((rows.topic, rows.partition), None)
        inside = span and span.begin <= rows.first <= rows.last < span.end
        if span is None or not inside or rows.rows > span.rows:
            raise RowsMissing(
                f"the archive did not take the batch: its files have {rows.rows} rows of "
                f"{rows.topic}[{rows.partition}], offsets {rows.first} to {rows.last}, which the "
                "batch did not read; do not write into the folder of batches"
            )
        lacking -= rows.rows
    if lacking and not may_lack:
        raise RowsMissing(
            f"the archive did not take the batch: its files have {total - lacking} of {total} "
            "messages; give a path on which all executors and the driver see the same files"
        )
    return lacking
