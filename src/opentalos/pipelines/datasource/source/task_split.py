"""Distributes the rows of a batch among its tasks; a pure function of the batch."""

from typing import Final

from opentalos.pipelines.datasource.source.batch_range import BatchRange, ReadRange

# Source: docs/internals/spark-source.md#cost-of-tasks.
TASK_ROWS_MIN: Final = 10_000
_SLIVER: Final = 4  # part of a task's share below which an offset range is not cut


def split_tasks(batch: BatchRange) -> list[tuple[ReadRange, ...]]:
    """The ranges of each task, none of them empty; at most ``batch.tasks``.

    Small partitions share a task, large ones are cut. All tasks but the last have at most their
    share and a quarter; the last one has the rest, so up to that much more for each task before it.
    Another rule needs another version of the offset: a batch that is replayed is split as before.
    """
    ranges = batch.ranges
    total = sum(span.rows for span in ranges)
    if not total:
        return []
    count = max(1, min(batch.tasks, total // TASK_ROWS_MIN))
    share = -(-total // count)
    sliver = share // _SLIVER
    tasks: list[list[ReadRange]] = [[]]
    room = share
    for span in ranges:
        rest: ReadRange | None = span
        while rest is not None:
            if room <= sliver and room < rest.rows and len(tasks) < count:
                tasks.append([])
                room = share
            piece, rest = _cut(rest, room, sliver, last=len(tasks) == count)
            tasks[-1].append(piece)
            room -= piece.rows
    return [tuple(task) for task in tasks]


def _cut(
    span: ReadRange, room: int, sliver: int, *, last: bool
) -> tuple[ReadRange, ReadRange | None]:
    """The part that fits, and the rest if it is large enough for a cut."""
    if last or span.rows <= room + sliver:
        return span, None
    middle = span.begin + room
    return (
        ReadRange(span.resource, span.partition, span.begin, middle),
        ReadRange(span.resource, span.partition, middle, span.end),
    )
