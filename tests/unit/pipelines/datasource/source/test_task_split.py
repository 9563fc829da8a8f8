"""Rows of a batch among tasks."""

from hypothesis import given
from hypothesis import strategies as st

from opentalos.pipelines.datasource.source.batch_range import BatchRange, ReadRange
from opentalos.pipelines.datasource.source.task_split import TASK_ROWS_MIN, split_tasks

RESOURCE = "o#t#u"
SLIVER = 4  # part of a share that is not cut off


def batch(rows: dict[int, int], tasks: int) -> BatchRange:
    begin = dict.fromkeys(rows, 100)
    return BatchRange(
        begin={RESOURCE: begin},
        end={RESOURCE: {partition: 100 + count for partition, count in rows.items()}},
        tasks=tasks,
    )


def offsets(ranges: list[ReadRange]) -> list[tuple[int, int, int]]:
    """Slices with those that follow each other joined."""
    joined: list[tuple[int, int, int]] = []
    for range_ in ranges:
        if joined and joined[-1][0] == range_.partition and joined[-1][2] == range_.begin:
            joined[-1] = (range_.partition, joined[-1][1], range_.end)
        else:
            joined.append((range_.partition, range_.begin, range_.end))
    return joined


@given(
    st.dictionaries(st.integers(0, 50), st.integers(0, 300_000), max_size=20), st.integers(1, 40)
)
def test_every_row_is_in_one_task_and_tasks_are_alike(rows: dict[int, int], tasks: int) -> None:
    given_ = batch(rows, tasks)
    split = split_tasks(given_)
    assert offsets([item for task in split for item in task]) == offsets(given_.ranges)
    assert all(task and all(item.rows > 0 for item in task) for task in split)
    assert len(split) <= tasks
    total = sum(rows.values())
    assert len(split) <= max(1, total // TASK_ROWS_MIN)
    share = -(-total // max(1, min(tasks, total // TASK_ROWS_MIN)))
    counts = [sum(item.rows for item in task) for task in split]
    assert all(count <= share + share // SLIVER for count in counts[:-1])
    # The last one also has what others left, rather than cut a partition for it.
    assert sum(counts[-1:]) <= share + len(split) * (share // SLIVER)
    assert split_tasks(BatchRange.parse(given_.as_json())) == split


def test_a_small_batch_is_one_task() -> None:
    assert len(split_tasks(batch({0: 4_000, 1: 4_000, 2: 4_000}, 8))) == 1


def test_small_partitions_share_tasks() -> None:
    split = split_tasks(batch(dict.fromkeys(range(8), 10_000), 2))
    assert [len(task) for task in split] == [4, 4]


def test_a_large_partition_is_cut() -> None:
    split = split_tasks(batch({0: 1_000_000}, 4))
    assert [task[0].rows for task in split] == [250_000] * 4


def test_nothing_to_read_plans_no_task() -> None:
    assert split_tasks(batch({0: 0}, 4)) == []
