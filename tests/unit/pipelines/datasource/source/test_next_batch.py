"""What the next batch takes."""

import logging

import pytest

from opentalos.model.errors import ConfigError, CorruptLog, OffsetOutOfRange
from opentalos.model.message import OffsetRange
from opentalos.pipelines.datasource.source.batch_range import BatchRange, Positions
from opentalos.pipelines.datasource.source.next_batch import (
    Bounds,
    Retained,
    backlog_rows,
    bounded_batch,
    next_batch,
    only_partitions,
    unread,
)
from opentalos.sdk import DamagedRange

A, B = "o#a#1", "o#b#2"
ALL = Bounds(rows_max=None, skip_expired=False, tasks=2)
SKIP = Bounds(rows_max=None, skip_expired=True, tasks=2)


def at(positions: Positions, skipped: int = 0) -> BatchRange:
    return BatchRange(begin=positions, end=positions, tasks=2, skipped=skipped)


def test_it_continues_where_the_last_batch_ended() -> None:
    last = BatchRange(begin={A: {0: 0}}, end={A: {0: 5}}, tasks=9)
    found = next_batch(last, {A: {0: OffsetRange(0, 8)}}, ALL)
    assert found == BatchRange(begin={A: {0: 5}}, end={A: {0: 8}}, tasks=2)


def test_no_batch_without_new_messages() -> None:
    assert next_batch(at({A: {0: 8}}), {A: {0: OffsetRange(3, 8)}}, ALL) is None


def test_new_partitions_and_topics_begin_at_their_first_message() -> None:
    there = {A: {0: OffsetRange(0, 8), 1: OffsetRange(40, 41)}, B: {0: OffsetRange(0, 2)}}
    found = next_batch(at({A: {0: 8}}), there, ALL)
    assert found is not None
    assert found.begin == {A: {0: 8, 1: 40}, B: {0: 0}}
    assert found.end == {A: {0: 8, 1: 41}, B: {0: 2}}


def test_a_removed_partition_keeps_its_position() -> None:
    found = next_batch(at({A: {0: 1, 1: 7}}), {A: {0: OffsetRange(0, 2)}}, ALL)
    assert found is not None
    assert found.end == {A: {0: 2, 1: 7}}
    assert [range_.partition for range_ in found.ranges] == [0]


def test_a_limit_is_split_over_partitions_with_a_backlog() -> None:
    there = {A: {0: OffsetRange(0, 100), 1: OffsetRange(0, 100), 2: OffsetRange(0, 0)}}
    bounds = Bounds(rows_max=30, skip_expired=False, tasks=2)
    found = next_batch(at({A: {0: 0, 1: 90, 2: 0}}), there, bounds)
    assert found is not None
    assert found.end == {A: {0: 20, 1: 100, 2: 0}}


def test_a_limit_in_bytes_is_split_by_the_sizes_of_messages() -> None:
    there = {A: {0: OffsetRange(0, 100), 1: OffsetRange(0, 100), 2: OffsetRange(7, 7)}}
    sizes = {(A, 0): 10, (A, 1): 50}
    bounds = Bounds(rows_max=None, skip_expired=False, tasks=2, bytes_max=1_000, sizes=sizes)
    last = at({A: {0: 0, 1: 0, 2: 7}})
    found = next_batch(last, there, bounds)
    assert found is not None
    assert found.end == {A: {0: 50, 1: 10, 2: 7}}
    bounds = Bounds(rows_max=30, skip_expired=False, tasks=2, bytes_max=1_000, sizes=sizes)
    found = next_batch(last, there, bounds)
    assert found is not None
    assert found.end == {A: {0: 15, 1: 15, 2: 7}}


def test_nothing_after_the_target_is_taken() -> None:
    there = {A: {0: OffsetRange(0, 9), 1: OffsetRange(0, 9)}, B: {0: OffsetRange(0, 9)}}
    bounds = Bounds(rows_max=None, skip_expired=False, tasks=2, target={A: {0: 4}})
    found = next_batch(at({A: {0: 0}}), there, bounds)
    assert found is not None
    assert [(range_.resource, range_.partition, range_.end) for range_ in found.ranges] == [
        (A, 0, 4)
    ]
    assert next_batch(found, there, bounds) is None


def test_an_expired_position_fails_and_names_what_is_left() -> None:
    with pytest.raises(OffsetOutOfRange, match=r"a\[0\]: position 3 has expired.*starts at 5"):
        next_batch(at({A: {0: 3}}), {A: {0: OffsetRange(5, 8)}}, ALL)


def test_an_expired_position_is_skipped_logged_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "opentalos.datasource"):
        found = next_batch(at({A: {0: 3}}, skipped=10), {A: {0: OffsetRange(5, 8)}}, SKIP)
    assert found is not None
    assert (found.begin, found.end, found.skipped) == ({A: {0: 5}}, {A: {0: 8}}, 12)
    assert "skipped=2" in caplog.text


def test_a_skip_is_kept_even_if_nothing_is_left_to_read() -> None:
    there = {A: {0: OffsetRange(8, 8)}}
    found = next_batch(at({A: {0: 3}}), there, SKIP)
    assert found is not None
    assert (found.ranges, found.skipped) == ([], 5)
    assert next_batch(found, there, SKIP) is None


def test_a_position_after_the_end_reveals_a_truncated_log() -> None:
    there = {A: {0: OffsetRange(0, 8)}}
    with pytest.raises(OffsetOutOfRange, match=r"beyond the end of the log, 8.*truncated"):
        next_batch(at({A: {0: 11}}), there, ALL)
    found = next_batch(at({A: {0: 11}}), there, SKIP)
    assert found is not None
    assert (found.end, found.ranges, found.skipped) == ({A: {0: 8}}, [], 0)


def test_a_bounded_read_is_empty_where_it_ends_before_it_begins() -> None:
    there = {A: {0: OffsetRange(2, 8), 1: OffsetRange(0, 8)}}
    found = bounded_batch({A: {0: 5, 1: 0}}, {A: {0: 3, 1: 6}}, there, False, 2)
    assert [(range_.partition, range_.begin, range_.end) for range_ in found.ranges] == [(1, 0, 6)]


def test_a_bounded_read_of_offsets_that_are_not_retained_fails() -> None:
    there = {A: {0: OffsetRange(2, 8)}}
    with pytest.raises(OffsetOutOfRange, match="position 1 has expired"):
        bounded_batch({A: {0: 1}}, {A: {0: 8}}, there, False, 2)
    with pytest.raises(OffsetOutOfRange, match="position 9 is beyond the end"):
        bounded_batch({A: {0: 2}}, {A: {0: 9}}, there, False, 2)
    skipping = bounded_batch({A: {0: 1}}, {A: {0: 9}}, there, True, 2)
    assert [(range_.begin, range_.end) for range_ in skipping.ranges] == [(2, 8)]


def test_no_partition_starves_when_the_limit_is_below_their_number() -> None:
    there = {A: {number: OffsetRange(0, 100 + number) for number in range(9)}}
    bounds = Bounds(rows_max=2, skip_expired=False, tasks=2)
    last = at({A: dict.fromkeys(range(9), 0)})
    for _ in range(5):  # 10 rows for 9 partitions
        found = next_batch(last, there, bounds)
        assert found is not None
        last = found
    assert min(last.end[A].values()) == 1


def test_the_backlog_is_what_is_retained_after_the_last_batch() -> None:
    last = at({A: {0: 5, 1: 3, 2: 50}})
    there = {A: {n: OffsetRange(4, 8) for n in range(4)}, B: {0: OffsetRange(2, 9)}}
    assert backlog_rows(last, there) == 3 + 4 + 0 + 4 + 7
    assert unread(last, there) == {
        (A, 0): OffsetRange(5, 8),
        (A, 1): OffsetRange(4, 8),
        (A, 3): OffsetRange(4, 8),
        (B, 0): OffsetRange(2, 9),
    }


def test_only_the_chosen_partitions_are_read() -> None:
    positions = {A: {0: 5, 1: 3, 2: 50}, B: {0: 9}}
    assert only_partitions(positions, None) == positions
    assert only_partitions(positions, frozenset((0, 2))) == {A: {0: 5, 2: 50}, B: {0: 9}}
    assert only_partitions({}, frozenset((7,))) == {}
    with pytest.raises(ConfigError, match="no topic of this read has partition 3"):
        only_partitions(positions, frozenset((0, 3, 4)))


def test_of_a_damaged_partition_a_batch_reads_what_was_named_and_never_less() -> None:
    there = {A: {0: DamagedRange(CorruptLog("a/0 is damaged"), 5)}}
    found = bounded_batch({A: {0: 6}}, {A: {0: 1_000}}, there, False, 2)
    assert (found.begin, found.end) == ({A: {0: 6}}, {A: {0: 1_000}})
    with pytest.raises(OffsetOutOfRange, match="the log starts at 5"):
        bounded_batch({A: {0: 1}}, {A: {0: 8}}, there, False, 2)
    assert bounded_batch({A: {0: 1}}, {A: {0: 8}}, there, True, 2).begin == {A: {0: 5}}


def test_a_stream_names_the_partition_whose_end_is_not_known() -> None:
    damaged = DamagedRange(CorruptLog("a/0 is damaged"), 5)
    there: Retained = {A: {0: damaged, 1: OffsetRange(0, 9)}}
    with pytest.raises(CorruptLog, match="a/0 is damaged"):
        next_batch(at({A: {0: 5, 1: 0}}), there, ALL)
