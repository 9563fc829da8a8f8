"""The chains of the table "usage": which rows are read, and what is kept for the logs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.tables import HOUR_MS, HourTable
from opentalos.pipelines.metering import usage_chains
from opentalos.pipelines.metering.chain_bucket import Break
from opentalos.pipelines.metering.usage_chains import Floor, UsageChains
from opentalos.pipelines.metering.usage_lake import MinuteUse
from opentalos.pipelines.metering.usage_table import LAYOUT, SCHEMA

MINUTE_MS = 60_000
PLACES = [(topic, partition) for topic in "cab" for partition in (1, 0)]
FROM_THE_BEGIN = {place: Floor(0, 0) for place in PLACES}


def row(place: tuple[str, int], minute: int) -> dict[str, object]:
    """Two records of 20 bytes in each minute, from offset 0 on."""
    at = datetime.fromtimestamp(minute * 60, UTC)
    named = {"tenant": "t", "topic": place[0], "name": f"n-{place[0]}", "partition": place[1]}
    amounts = {"records": 2, "bytes": 20, "first_offset": 2 * minute, "next_offset": 2 * minute + 2}
    return {**named, "minute": at, **amounts}


def use(minute: int) -> MinuteUse:
    return MinuteUse(minute * MINUTE_MS, 2, 20, 2 * minute, 2 * minute + 2)


def store(home: Path, hour: int, rows: Sequence[dict[str, object]]) -> None:
    HourTable(home, "usage", SCHEMA).replace(hour * HOUR_MS, pa.Table.from_pylist(rows, SCHEMA))


def chains(home: Path, **options: Any) -> dict[tuple[str, int], tuple[object, ...]]:
    """Name and sums of each partition, and its breaks."""
    given = {"floors": {}} | options
    with UsageChains(pipeline_table(home, "", LAYOUT), **given) as found:
        return {
            (chain.topic, chain.partition): (*chain[3:7], list(chain.breaks))
            for bucket in found.buckets()
            for chain in bucket.chains()
        }


@pytest.mark.parametrize("order", ["by partition", "by minute"])
def test_chains_are_whole_however_their_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    monkeypatch.setattr(usage_chains, "_SLICE_ROWS", 7)
    for hour in range(3):
        rows = [row(place, 60 * hour + at) for at in range(60) for place in PLACES]
        if order == "by partition":
            rows.sort(key=lambda found: (str(found["topic"]), str(found["partition"])))
        store(tmp_path, hour, rows)
    assert chains(tmp_path) == {place: (f"n-{place[0]}", 360, 3_600, 360, []) for place in PLACES}


def test_a_gap_is_returned_with_the_end_of_what_is_before_it(tmp_path: Path) -> None:
    store(tmp_path, 0, [row(("a", 0), minute) for minute in (0, 1, 4, 5)])
    found = chains(tmp_path)["a", 0]
    assert found == ("n-a", 8, 80, 12, [Break(4, 4 * MINUTE_MS, 4, 8, 12)])


def test_minutes_out_of_order_are_returned_one_by_one(tmp_path: Path) -> None:
    late = row(("a", 0), 9) | {"first_offset": 2, "next_offset": 4}
    store(tmp_path, 0, [row(("a", 0), 0), row(("a", 0), 2), late, row(("b", 0), 0)])
    found = chains(tmp_path)
    at_ms = 9 * MINUTE_MS
    assert found["a", 0][-1] == [Break(2, 2 * MINUTE_MS, 2, 4, 6), Break(6, at_ms, 2, 2, 4)]
    assert found["b", 0][-1] == []


def test_runs_that_overlap_in_time_are_read_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Minute 3 comes after minute 4 and continues its offsets, so only time says what is wrong."""
    monkeypatch.setattr(usage_chains, "_SORT_BELOW", 0)
    moved = row(("a", 0), 1) | {"minute": datetime.fromtimestamp(4 * 60, UTC)}
    late = row(("a", 0), 2) | {"minute": datetime.fromtimestamp(3 * 60, UTC)}
    store(tmp_path, 0, [row(("a", 0), 0), moved, late])
    at_ms = 3 * MINUTE_MS
    breaks = [Break(2, at_ms, 2, 4, 6), Break(6, at_ms + MINUTE_MS, 2, 2, 4)]
    assert chains(tmp_path)["a", 0][-1] == breaks


def test_runs_that_overlap_in_offsets_are_read_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both rows of the second run are in two minutes."""
    monkeypatch.setattr(usage_chains, "_SORT_BELOW", 0)
    later = [row(("a", 0), at) | {"minute": datetime.fromtimestamp(60 * (at + 9), UTC)}
             for at in (1, 2)]  # fmt: skip
    store(tmp_path, 0, [*(row(("a", 0), minute) for minute in range(4)), *later])
    breaks = [Break(8, 10 * MINUTE_MS, 2, 2, 4), Break(8, 11 * MINUTE_MS, 2, 4, 6)]
    assert chains(tmp_path)["a", 0][-1] == breaks


def test_a_row_that_is_inconsistent_is_returned_alone(tmp_path: Path) -> None:
    wrong = row(("a", 0), 1) | {"records": 5}
    store(tmp_path, 0, [row(("a", 0), 0), wrong, row(("a", 0), 2)])
    assert chains(tmp_path)["a", 0][-1] == [Break(2, MINUTE_MS, 5, 2, 4)]


def test_only_the_topics_asked_for_are_read(tmp_path: Path) -> None:
    store(tmp_path, 0, [row(place, 0) for place in PLACES])
    assert set(chains(tmp_path, topics=["n-b"])) == {("b", 0), ("b", 1)}


def test_an_empty_table_has_no_chain(tmp_path: Path) -> None:
    assert chains(tmp_path) == {}


def test_minutes_are_compared_also_after_the_files_are_gone(tmp_path: Path) -> None:
    store(tmp_path, 0, [row(place, minute) for place in PLACES for minute in range(5)])
    logged, equal, different = [use(3), use(4)._replace(bytes=21), use(7)], 0, []
    with UsageChains(pipeline_table(tmp_path, "", LAYOUT), floors=FROM_THE_BEGIN) as found:
        for bucket in found.buckets():
            for file in (tmp_path / "lake" / "usage" / ".versions").iterdir():
                file.unlink()
            for chain in bucket.chains():
                bucket.add(chain.place, logged)
            for difference in bucket.differences():
                equal += difference.equal
                different += list(difference.pairs)
    assert equal == len(PLACES)
    assert sorted(set(different)) == [(logged[1], use(4)), (logged[2], None)]
    assert len(different) == 2 * len(PLACES)


def test_rows_that_no_log_has_are_not_copied(tmp_path: Path) -> None:
    store(tmp_path, 0, [row(("a", 0), minute) for minute in (0, 2, 4)])
    floors = {("a", 0): Floor(2 * MINUTE_MS, 4)}
    with UsageChains(pipeline_table(tmp_path, "", LAYOUT), floors=floors) as found:
        bucket = next(found.buckets())
        (place,) = [chain.place for chain in bucket.chains()]
        bucket.add(place, [use(0), use(2), use(4)])
        ((_, equal, pairs),) = bucket.differences()
        assert (equal, list(pairs)) == (2, [(use(0), None)])
