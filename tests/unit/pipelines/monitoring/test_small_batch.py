"""What the driver makes of a small batch, compared with plain Python; with Spark it is compared in
tests/spark."""

import random
from collections import defaultdict
from typing import Any

import pyarrow as pa

from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.monitoring.rollup_tables import LEVELS, METRICS, sketch_table
from opentalos.pipelines.monitoring.rollups import LEVEL_0
from opentalos.pipelines.monitoring.small_batch import hours_of, merged_level_0, rollups_of
from opentalos.pipelines.olap.table_set import HOUR, TABLE_NAME, hour_text

START = 1_764_000_000_000 // HOUR_MS * HOUR_MS
STEP_MS = 10_000
DIMENSIONS = ("service", "cluster", "machine", "tenant", "topic", "partition")


def row(step: int, offset: int, topic: str = "", **maps: Any) -> dict[str, Any]:
    """A row of level 0 whose interval begins ``step`` steps after the start."""
    began = START + step * STEP_MS
    dimensions = dict.fromkeys(DIMENSIONS[:-1], "") | {"topic": topic, "partition": -1}
    named = {name: list(maps.get(name, {}).items()) for name in ("sums", "gauges")}
    sketches = [(key, list(counts.items())) for key, counts in maps.get("sketches", {}).items()]
    place = {"source_partition": 0, "source_offset": offset, "began": began * 1000}
    times = {"at_ms": began + STEP_MS, "step_ms": STEP_MS}
    return {**dimensions, **times, **named, "sketches": sketches, **place}


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=LEVEL_0)


def test_the_last_row_of_a_key_in_the_topic_wins_whichever_is_stored() -> None:
    early, late = row(3, 5, sums={"a": 1.0}), row(3, 9, sums={"a": 2.0})
    other = row(4, 7)
    for stored, fresh in ((table(early, other), table(late)), (table(late), table(other, early))):
        found = merged_level_0(stored, fresh)
        assert found.schema.equals(LEVEL_0)
        assert sorted(found.to_pylist(), key=lambda item: item["at_ms"]) == (
            table(late, other).to_pylist()
        )


def test_rows_of_earlier_releases_get_the_begin_of_their_interval() -> None:
    unknown = table(row(1, 1)).set_column(
        LEVEL_0.get_field_index("began"),
        "began",
        pa.nulls(1, LEVEL_0.field("began").type),
    )
    found = merged_level_0(unknown, table())
    assert found.equals(table(row(1, 1)))


def test_no_rows_are_no_rollups() -> None:
    found = rollups_of(merged_level_0(table(), table()))
    assert found.num_rows == 0
    assert found.schema.equals(METRICS.layout().schema)
    assert hours_of(table()) == []


def test_the_step_that_ends_an_hour_is_of_this_hour() -> None:
    assert hours_of(table(row(360, 2), row(359, 1))) == [START, START + HOUR_MS]
    assert hours_of(table(row(359, 1))) == [START]


def test_rollups_of_every_level_are_what_level_0_says() -> None:
    lots = random.Random(4)
    rows = []
    for offset, step in enumerate(lots.sample(range(800), 120)):
        sums = {name: float(lots.randrange(9)) for name in lots.sample("abc", 2)}
        gauges = {"depth": float(lots.randrange(9))} if lots.random() < 0.7 else {}
        counts = {str(lots.randrange(-3, 3)): lots.randrange(1, 9) for _ in range(2)}
        maps = {"sums": sums, "gauges": gauges, "sketches": {"ms": counts, "none": {}}}
        rows.append(row(step, offset, lots.choice(["", "t"]), **maps))
    found = rollups_of(table(*rows))
    assert found.schema.equals(METRICS.layout().schema)
    named = [tuple(item[name] for name in (HOUR, TABLE_NAME)) for item in found.to_pylist()]
    assert named == sorted(named)
    for level, step_ms in LEVELS.items():
        assert measures(found, level) == expected_measures(rows, step_ms)
        assert sketches(found, level) == expected_sketches(rows, step_ms)


def measures(rollups: pa.Table, level: str) -> dict[Any, Any]:
    rows = [item for item in rollups.to_pylist() if item[TABLE_NAME] == level]
    found = {key_of(item, "kind"): tuple(item[name] for name in VALUES) for item in rows}
    assert len(found) == len(rows)
    return found


VALUES = ("total", "samples", "low", "high", "last")


def sketches(rollups: pa.Table, level: str) -> dict[Any, Any]:
    rows = [item for item in rollups.to_pylist() if item[TABLE_NAME] == sketch_table(level)]
    found = {key_of(item, "bucket"): item["count"] for item in rows}
    assert len(found) == len(rows)
    return found


def key_of(item: dict[str, Any], name: str) -> Any:
    time_ms = round(item["time"].timestamp() * 1000)
    assert item[HOUR] == hour_text(time_ms - time_ms % HOUR_MS)
    return time_ms, item["topic"], item["measure"], item[name]


def expected_measures(rows: list[dict[str, Any]], step_ms: int) -> dict[Any, Any]:
    groups = defaultdict[Any, list[float]](list)
    for item in sorted(rows, key=lambda item: item["at_ms"]):
        began = item["at_ms"] - STEP_MS
        for kind, column in (("sum", "sums"), ("gauge", "gauges")):
            for name, value in item[column]:
                groups[began - began % step_ms, item["topic"], name, kind].append(value)
    return {
        key: (sum(found), len(found), min(found), max(found), found[-1])
        for key, found in groups.items()
    }


def expected_sketches(rows: list[dict[str, Any]], step_ms: int) -> dict[Any, Any]:
    groups = defaultdict[Any, int](int)
    for item in rows:
        began = item["at_ms"] - STEP_MS
        for name, counts in item["sketches"]:
            for bucket, count in counts:
                groups[began - began % step_ms, item["topic"], name, int(bucket)] += count
    return dict(groups)
