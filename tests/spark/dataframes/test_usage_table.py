"""Usage events become one row per partition and minute, whatever order they come in."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.spark.lakes import LAKES, lake_url

from opentalos.model.errors import StoreUnavailable
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import Batch
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.metering import egress_table, kept_table
from opentalos.pipelines.metering.pipeline import UsageWriter
from opentalos.pipelines.metering.usage_table import LAYOUT
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.service_events.side_output import side_folder, side_layout
from opentalos.wire.metrics.egress import EgressEvent
from opentalos.wire.metrics.kept import KeptEvent
from opentalos.wire.metrics.usage import MINUTE_MS, UsageEvent

HOUR = 1_764_000_000_000 // HOUR_MS * HOUR_MS
MESSAGES = "partition INT, offset BIGINT, value BINARY"
APPENDED = HOUR + 100 * HOUR_MS


def event(minute: int = 0, next_offset: int = 10, **changed: Any) -> UsageEvent:
    """Usage of a partition from offset 0 on."""
    usual = UsageEvent(
        topic="uuid-1",
        name="orders",
        tenant="CLshop",
        partition=0,
        minute_ms=HOUR + minute * MINUTE_MS,
        records=next_offset,
        bytes=100 * next_offset,
        first_offset=0,
        next_offset=next_offset,
    )
    return usual._replace(**changed)


def changed(one: UsageEvent, **fields: object) -> bytes:
    """The event's line with other fields; None takes one away."""
    found = {**json.loads(one.encode()), **fields}
    return json.dumps({name: value for name, value in found.items() if value is not None}).encode()


class Bench:
    """The table and the writer of one test."""

    def __init__(self, spark: SparkSession, home: Path, lake: str) -> None:
        self._spark, self._home, self._lake = spark, home, lake
        self.table = pipeline_table(home, lake, LAYOUT, create=True)
        settings = PipelineSettings(url="", key="", home=home, lake=lake)
        self.writer = UsageWriter(settings, self.table)
        self._batch = 0

    def messages(self, values: Sequence[bytes], offset: int = 0) -> DataFrame:
        rows = [(0, offset + index, bytearray(value)) for index, value in enumerate(values)]
        plain = self._spark.createDataFrame(rows, MESSAGES)
        return plain.selectExpr("*", f"timestamp_millis({APPENDED}) AS append_time")

    def take(self, *events: UsageEvent | EgressEvent | KeptEvent | bytes) -> None:
        values = [item if isinstance(item, bytes) else item.encode() for item in events]
        self.writer(self.messages(values, self._batch * 100), self._batch)
        self._batch += 1

    def rows(self) -> list[dict[str, Any]]:
        order = [("minute", "ascending"), ("partition", "ascending")]
        found: list[dict[str, Any]] = self.table.read().sort_by(order).to_pylist()
        return found

    @property
    def egress(self) -> LakeTable:
        return pipeline_table(self._home, self._lake, egress_table.LAYOUT)

    @property
    def kept(self) -> LakeTable:
        return pipeline_table(self._home, self._lake, kept_table.LAYOUT)

    def reasons(self) -> list[str]:
        if self._lake:
            rows = self._side().read().to_pylist()
        else:
            files = sorted(side_folder(self._home, "metering").rglob("*.parquet"))
            rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        return [row["reason"] for row in sorted(rows, key=lambda row: int(row["offset"]))]

    def _side(self) -> LakeTable:
        return pipeline_table(self._home, self._lake, side_layout("metering"))

    def next_offsets(self) -> list[int]:
        return [row["next_offset"] for row in self.rows()]


@pytest.fixture(params=LAKES)
def bench(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path, lake_url(request.param, tmp_path))


def test_a_first_event_makes_the_row_of_its_minute(bench: Bench) -> None:
    bench.take(event())
    (row,) = bench.rows()
    assert row.pop("minute").timestamp() * 1000 == HOUR
    assert row == {
        "tenant": "CLshop",
        "topic": "uuid-1",
        "name": "orders",
        "partition": 0,
        "records": 10,
        "bytes": 1_000,
        "first_offset": 0,
        "next_offset": 10,
    }


def test_the_larger_next_offset_wins_in_any_order(bench: Bench) -> None:
    bench.take(event(next_offset=10), event(next_offset=30), event(next_offset=20))
    assert bench.next_offsets() == [30]
    bench.take(event(next_offset=25))
    assert bench.next_offsets() == [30]
    bench.take(event(next_offset=40))
    assert bench.next_offsets() == [40]


def test_a_repeated_batch_writes_nothing(bench: Bench) -> None:
    batch = bench.messages([event().encode(), event(61).encode(), b"{"])
    bench.writer(batch, 0)
    files = bench.table.files()
    assert len(files) == 2
    bench.writer(batch, 0)
    bench.writer(batch.where("offset < 2"), 1)  # nor do rows that are stored already
    assert bench.table.files() == files
    assert bench.reasons() == ["not JSON of the event's types"]


def test_late_events_change_their_own_hour_only(bench: Bench) -> None:
    bench.take(event(0), event(60), event(120))
    before = bench.table.files()
    bench.take(event(60, 50))
    assert len(set(before) & set(bench.table.files())) == 2
    assert bench.next_offsets() == [10, 50, 10]


def test_the_first_of_two_that_contradict_each_other_is_kept(bench: Bench) -> None:
    bench.take(event(bytes=1), event(bytes=2), event(bytes=1))
    assert [row["bytes"] for row in bench.rows()] == [1]
    assert bench.writer.conflicts == 1
    bench.take(event(bytes=3))
    assert [row["bytes"] for row in bench.rows()] == [1]
    assert bench.writer.conflicts == 2
    assert bench.reasons() == ["contradicts the first event of the same next_offset"] * 2


def test_what_is_superseded_contradicts_nobody(bench: Bench) -> None:
    bench.take(event(bytes=1), event(bytes=2), event(next_offset=20))
    assert bench.writer.conflicts == 0


BAD: list[tuple[dict[str, object], str]] = [
    ({"records": -1}, "out of bounds: records"),
    ({"records": 0}, "out of bounds: records"),
    ({"bytes": -1}, "out of bounds: bytes"),
    ({"bytes": 1 << 62}, "out of bounds: bytes"),
    ({"bytes": 1 << 70}, "not JSON of the event's types"),
    ({"records": 1.5}, "not JSON of the event's types"),
    ({"partition": -1}, "out of bounds: partition"),
    ({"first_offset": 10}, "first_offset is not below next_offset"),
    ({"first_offset": 11}, "first_offset is not below next_offset"),
    ({"records": 9}, "records is not next_offset - first_offset"),
    ({"first_offset": -(1 << 63)}, "out of bounds: first_offset"),
    ({"minute_ms": HOUR + 1}, "not a whole minute"),
    ({"tenant": ""}, "empty name"),
    ({"tenant": None}, "missing: tenant"),
    ({"v": 2}, "newer version: 2"),
    ({"minute_ms": APPENDED + HOUR_MS + MINUTE_MS}, "in the future"),
    ({"minute_ms": 4_070_908_800_000}, "in the future"),  # the year 2099
]


def test_what_cannot_be_true_goes_aside(bench: Bench) -> None:
    bench.take(*(changed(event(), **fields) for fields, _ in BAD), event(1))
    assert len(bench.rows()) == 1
    assert bench.writer.bad == len(BAD)
    assert bench.reasons() == [reason for _, reason in BAD]


def test_late_events_of_compacted_hours_leave_the_others_compact(bench: Bench) -> None:
    bench.take(*(event(60 * hour) for hour in range(4)))
    bench.table.compact()
    bench.take(event(60, 50), event(61, 5))
    assert bench.next_offsets() == [10, 50, 5, 10, 10]
    if len(bench.table.files()) < 4:  # Delta: the hour apart from the three others
        assert len(bench.table.files()) == 2
    bench.take(event(0, 60), event(60, 70), event(180, 80))
    assert bench.next_offsets() == [60, 70, 5, 10, 80]


def test_what_another_writer_added_meanwhile_is_not_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.take(event(0))
    real, rows = type(bench.table).replace, bench.table.read()
    place, partition = rows.column_names.index("partition"), rows.schema.field("partition")
    fresh = rows.set_column(place, partition, pa.array([7], partition.type))

    def late(table: LakeTable, *given: Any) -> bool:
        monkeypatch.undo()
        table.merge(Batch("another", 0), fresh)
        return real(table, *given)

    monkeypatch.setattr(type(bench.table), "replace", late)
    with pytest.raises(StoreUnavailable, match="another writer changed it; repeat the batch"):
        bench.take(event(0, 20))
    assert bench.next_offsets() == [10, 10]
    bench.take(event(0, 20))
    assert bench.next_offsets() == [20, 10]


def test_unknown_fields_are_ignored(bench: Bench) -> None:
    bench.take(changed(event(), colour="red"))
    assert len(bench.rows()) == 1


def test_any_batches_in_any_order_end_the_same(bench: Bench) -> None:
    """Each minute of two partitions is published up to three times; whole batches come again."""
    lots = random.Random(6)
    events = [
        event(minute, upto, partition=partition, first_offset=0)
        for partition in (0, 1)
        for minute in (0, 1, 59, 60)
        for upto in lots.sample(range(1, 1_000), 3)
    ]
    best: dict[tuple[str, int, int], int] = {}
    for item in events:
        best[item.key] = max(best.get(item.key, 0), item.next_offset)
    lots.shuffle(events)
    batches = [events[:9], events[9:15], events[15:]]
    for batch in [batches[0], batches[1], batches[0], batches[2], batches[1]]:
        bench.take(*batch)
    found = {
        (row["topic"], row["partition"], int(row["minute"].timestamp() * 1000)): row["next_offset"]
        for row in bench.rows()
    }
    assert found == best
    assert len(bench.rows()) == len(best)


def test_a_minute_in_the_future_of_this_machine_goes_aside_too(bench: Bench) -> None:
    """The server that appended the event may have the fast clock."""
    ahead = bench.messages([event(minute_ms=4_070_908_800_000).encode()])
    bench.writer(ahead.withColumn("append_time", F.lit("2100-01-01").cast("timestamp")), 0)
    assert bench.reasons() == ["in the future"]
    assert bench.rows() == []


def egress(number: int = 0, minute: int = 0, **changed: Any) -> EgressEvent:
    """What a tenant read of another's topic in one minute."""
    usual = EgressEvent(
        topic="uuid-1",
        name="orders",
        tenant="CLshop",
        reader="CLreader",
        minute_ms=HOUR + minute * MINUTE_MS,
        source="s1/9f",
        number=number,
        messages=3,
        bytes=300,
    )
    return usual._replace(**changed)


def test_egress_has_a_table_of_its_own(bench: Bench) -> None:
    bench.take(event(), egress(0), egress(1, 61), egress(0, source="s1/a0"))
    assert bench.next_offsets() == [10]
    assert bench.writer.bad == 0
    rows = bench.egress.read().sort_by([("source", "ascending"), ("number", "ascending")])
    first, *_ = rows.to_pylist()
    assert first.pop("minute").timestamp() * 1000 == HOUR
    assert first == {
        "tenant": "CLshop",
        "topic": "uuid-1",
        "name": "orders",
        "reader": "CLreader",
        "source": "s1/9f",
        "number": 0,
        "messages": 3,
        "bytes": 300,
    }
    assert rows.select(["source", "number"]).to_pylist() == [
        {"source": "s1/9f", "number": 0},
        {"source": "s1/9f", "number": 1},
        {"source": "s1/a0", "number": 0},
    ]


def test_an_egress_event_that_comes_again_counts_once(bench: Bench) -> None:
    bench.take(egress(0), egress(0), egress(1))
    files = bench.egress.files()
    bench.take(egress(1), egress(0))
    assert bench.egress.files() == files
    bench.take(egress(1), egress(2))
    assert sorted(row["number"] for row in bench.egress.read().to_pylist()) == [0, 1, 2]


def test_an_invalid_egress_event_goes_to_the_side_output(bench: Bench) -> None:
    wrong = [egress(minute_ms=HOUR + 1), egress(bytes=-1), egress(reader="")]
    newer = egress().encode().replace(b'"v":1', b'"v":2')
    topic = egress(name='x"kind":"egress"')  # of a usage event it would be escaped
    bench.take(*(item.encode() for item in wrong), newer, topic.encode())
    assert bench.reasons() == [
        "not a whole minute", "out of bounds: bytes", "empty name", "newer version: 2",
    ]  # fmt: skip
    bench.take(event(name='"kind":"egress"'))
    assert bench.next_offsets() == [10]


def test_reports_of_what_is_kept_are_a_set_in_a_table_of_their_own(bench: Bench) -> None:
    first = KeptEvent("uuid-1", "orders", "CLshop", 0, HOUR, 0)
    later = first._replace(minute_ms=HOUR + 90 * MINUTE_MS, start_offset=7)
    wrong = first._replace(minute_ms=HOUR + 1)
    bench.take(first, event(), later, first, wrong)
    bench.take(later)
    rows = bench.kept.read().sort_by("minute").to_pylist()
    assert [(row["minute"].timestamp() * 1000, row["start_offset"]) for row in rows] == [
        (HOUR, 0),
        (later.minute_ms, 7),
    ]
    assert set(rows[0]) == {"tenant", "topic", "name", "partition", "minute", "start_offset"}
    assert bench.next_offsets() == [10]
    assert bench.reasons() == ["not a whole minute"]
