"""The bill is compared with the log: what deviates is counted, what is late is not."""

from collections.abc import Sequence

import pytest
from tests.unit.pipelines.billing.both_reconciliations import reconciled

from opentalos.pipelines.billing.partition_reconciliation import (
    LogUsage,
    PartitionResult,
    compare_kept,
)
from opentalos.pipelines.metering.usage_lake import MinuteUse

PLACE = ("u", 0)


def minute(number: int, first: int, end: int, count: int | None = None) -> MinuteUse:
    """A minute with ten bytes a record, unless said otherwise."""
    records = end - first
    return MinuteUse(60_000 * number, records, 10 * records if count is None else count, first, end)


CHAIN = (minute(1, 0, 5), minute(2, 5, 9), minute(4, 9, 20))


def compared(
    rows: Sequence[MinuteUse],
    kept: Sequence[MinuteUse] = CHAIN,
    *,
    start: int = 0,
    end: int = 20,
    metered: int = 20,
    since: int = 0,
) -> PartitionResult:
    log = LogUsage(
        topic="u", name="orders", tenant="t", partition=0, start_offset=start, next_offset=end,
        metered_offset=metered, metered_since=since, total_bytes=10 * end + 1_000,
        minutes=list(kept),
    )  # fmt: skip
    (found,) = reconciled([log], [(PLACE, row) for row in rows])
    return found


def deviation(found: PartitionResult) -> tuple[int, int]:
    assert bool(found.faults) == found.differs
    return found.difference_records, found.difference_bytes


def test_the_same_minutes_are_no_difference() -> None:
    found = compared(CHAIN)
    assert deviation(found) == (0, 0)
    assert (found.records, found.bytes, found.minutes_compared) == (20, 200, 3)
    assert (found.pending, found.unmetered) == (0, 0)


def test_what_is_not_there_yet_is_pending() -> None:
    found = compared(CHAIN[:2], metered=15)
    assert deviation(found) == (0, 0)
    assert (found.pending, found.unmetered, found.minutes_compared) == (11, 5, 2)


def test_an_open_minute_is_pending_from_its_last_offset() -> None:
    found = compared([*CHAIN[:2], minute(4, 9, 12)], metered=9)
    assert deviation(found) == (0, 0)
    assert (found.pending, found.unmetered) == (8, 8)


def test_an_empty_table_is_behind_and_not_wrong() -> None:
    found = compared([])
    assert (deviation(found), found.pending, found.unmetered) == ((0, 0), 20, 0)


def test_minutes_that_retention_dropped_still_chain() -> None:
    assert deviation(compared(CHAIN, CHAIN[2:], start=9)) == (0, 0)
    assert deviation(compared(CHAIN, [], start=20)) == (0, 0)
    assert deviation(compared([CHAIN[0], CHAIN[2]], CHAIN[2:], start=9)) == (4, 0)


def test_records_before_the_first_metered_one_are_not_a_gap() -> None:
    assert deviation(compared(CHAIN[1:], CHAIN[1:], start=5, since=5)) == (0, 0)
    assert compared([], CHAIN[1:], start=5, since=5).pending == 15
    assert deviation(compared(CHAIN[2:], CHAIN[2:], start=5, since=5)) == (4, 0)


def test_of_a_minute_that_retention_cut_only_the_end_is_compared() -> None:
    assert deviation(compared(CHAIN, [minute(4, 15, 20)], start=15)) == (0, 0)
    assert deviation(compared(CHAIN, [minute(4, 15, 20, 111)], start=15)) == (0, 1)


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (CHAIN[1:], (5, 50)),  # the first minute is missing
        ((CHAIN[0], CHAIN[2]), (4, 40)),  # one in between
        ((*CHAIN[:2], minute(3, 5, 9), CHAIN[2]), (4, 0)),  # one is there twice
        ((*CHAIN[:2], minute(4, 9, 22)), (2, 20)),  # more than there is
        ((CHAIN[0], minute(2, 5, 9, 41), CHAIN[2]), (0, 1)),
        ((CHAIN[0], minute(2, 5, 9, 39), CHAIN[2]), (0, 1)),
        ((CHAIN[0], minute(2, 5, 10, 40), minute(4, 10, 20, 110)), (2, 0)),  # in another minute
        ((CHAIN[0], minute(3, 5, 9), CHAIN[2]), (4, 40)),
        ((CHAIN[0], CHAIN[1]._replace(records=3), CHAIN[2]), (1, 0)),
    ],
)
def test_every_deviation_is_counted(rows: Sequence[MinuteUse], wanted: tuple[int, int]) -> None:
    found = compared(rows)
    assert found.differs
    assert deviation(found) == wanted, found.faults


def test_deviations_do_not_make_up_for_each_other() -> None:
    found = compared((minute(1, 0, 5, 49), minute(2, 5, 9, 41), CHAIN[2]))
    assert deviation(found) == (0, 2)


def test_bytes_that_the_log_never_had_are_a_deviation_even_without_the_log() -> None:
    assert deviation(compared((minute(1, 0, 20, 1_201),), [], start=20)) == (0, 1)


def test_what_a_server_does_not_meter_stays_pending() -> None:
    found = compared([], metered=-1)
    assert (deviation(found), found.pending, found.unmetered) == ((0, 0), 20, 20)


def test_what_went_while_nothing_was_metered_is_left_out() -> None:
    rows, kept = CHAIN[1:], CHAIN[2:]
    assert deviation(compared(rows, kept, start=9, since=5)) == (0, 0)
    assert deviation(compared(rows, kept, start=9, since=4)) == (1, 0)
    assert deviation(compared([CHAIN[0], CHAIN[2]], kept, start=9, since=9)) == (0, 0)
    found = compared([], kept, start=9, since=9)
    assert (deviation(found), found.pending) == ((0, 0), 11)


@pytest.mark.parametrize(("rows", "wanted"), [(CHAIN, (0, 0)), (CHAIN[1:], (5, 0))])
def test_of_a_deleted_topic_the_chain_is_checked(
    rows: Sequence[MinuteUse], wanted: tuple[int, int]
) -> None:
    (found,) = reconciled([], [(PLACE, row) for row in rows])
    assert found.deleted
    assert deviation(found) == wanted


def test_a_report_of_what_is_kept_may_not_be_ahead_of_the_log() -> None:
    found = PartitionResult(topic="u", name="t", tenant="CL", partition=0, start_offset=5)
    for start in (0, 5):
        compare_kept(found, start)
    assert not found.differs
    compare_kept(found, 7)
    assert found.difference_records == 2
    assert found.faults == ["a report says that the log begins at offset 7, but it begins at 5"]
