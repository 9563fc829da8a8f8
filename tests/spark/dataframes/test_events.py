"""Events are used or put aside with a reason; none ends a job."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from opentalos.model.errors import LeaseNotHeld
from opentalos.pipelines.lake.delta.files import DeltaFileWriter
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.written_rows import RowsMissing
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.service_events.json_events import (
    AMOUNT_MAX,
    COUNT_MAX,
    EventCheck,
    bad_messages,
    number,
)
from opentalos.pipelines.service_events.side_output import (
    SideOutput,
    side_folder,
    side_layout,
    write_side,
)
from opentalos.pipelines.session import set_epoch

SCHEMA = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("partition", IntegerType(), True, number(-1, 100)),
        StructField("records", LongType(), False),
        StructField("sums", MapType(StringType(), DoubleType()), True, number(0)),
        StructField("counts", MapType(StringType(), MapType(StringType(), LongType()))),
    ]
)
GOOD: dict[str, Any] = {"v": 1, "topic": "t", "partition": 3, "records": 5}
MESSAGES = "partition INT, offset BIGINT, value BINARY"
MISTYPED = "not JSON of the event's types"


def split_events(
    batch: DataFrame, schema: StructType, version: int, rules: dict[str, str] | None = None
) -> tuple[DataFrame, DataFrame]:
    """Valid events and invalid messages."""
    check = EventCheck(schema, version, rules)
    judged = check.judged(batch)
    return check.good(judged), bad_messages(judged)


def event(**fields: object) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()


USED = {
    "plain": (event(), ("t", 3, 5)),
    "a field from later": (event(colour={"a": [1]}), ("t", 3, 5)),
    "what may be missing": (without("partition"), ("t", None, 5)),
    "the least": (event(partition=-1, records=0), ("t", -1, 0)),
    "the most": (event(records=COUNT_MAX), ("t", 3, COUNT_MAX)),
    "maps": (event(sums={"a": 0, "b": 1.5e99}, counts={"x": {"1": 2}}), ("t", 3, 5)),
    "white space": (b" \n" + event() + b"\n ", ("t", 3, 5)),
    "any text": (event(topic="\u0000\U0001f600'\"\\"), ("\u0000\U0001f600'\"\\", 3, 5)),
}
REFUSED: dict[str, tuple[bytes | None, str]] = {
    "null": (None, "empty"),
    "empty": (b"", "empty"),
    "white space only": (b"  ", "no version"),
    "cut off": (event()[:-1], MISTYPED),
    "text behind it": (event() + b"x", MISTYPED),
    "two events": (event() + b"\n" + event(), MISTYPED),
    "two with a comma": (event() + b"," + event(), MISTYPED),
    "a list": (b"[" + event() + b"]", MISTYPED),
    "a number": (b"1", MISTYPED),
    "JSON null": (b"null", MISTYPED),
    "binary": (bytes(range(256)), "not UTF-8"),
    "broken UTF-8": (event().replace(b'"t"', b'"\xff"'), "not UTF-8"),
    "deep": (b"[" * 100_000, MISTYPED),
    "newer": (event(v=2), "newer version: 2"),
    "newer with other types": (event(v=7, topic={}, records="many"), "newer version: 7"),
    "version 0": (event(v=0), "no version"),
    "no version": (without("v"), "no version"),
    "null version": (event(v=None), "no version"),
    "version as text": (event(v="1"), MISTYPED),
    "huge version": (event(v=10**30), MISTYPED),
    "no topic": (without("topic"), "missing: topic"),
    "null topic": (event(topic=None), "missing: topic"),
    "topic as number": (event(topic=5), MISTYPED),
    "topic as object": (event(topic={"a": 1}), MISTYPED),
    "records as text": (event(records="5"), MISTYPED),
    "records as fraction": (event(records=1.5), MISTYPED),
    "records as truth": (event(records=True), MISTYPED),
    "negative": (event(records=-1), "out of bounds: records"),
    "too many": (event(records=COUNT_MAX + 1), "out of bounds: records"),
    "above 64 bits": (event(records=2**64), MISTYPED),
    "partition above 32 bits": (event(partition=2**40), MISTYPED),
    "partition above its bound": (event(partition=101), "out of bounds: partition"),
    "NaN": (event(sums={"a": 0}).replace(b": 0}", b": NaN}"), MISTYPED),
    "NaN as text": (event(sums={"a": "NaN"}), MISTYPED),
    "infinite": (event(sums={"a": 0}).replace(b": 0}", b": 1e999}"), "out of bounds: sums"),
    "too large to add up": (event(sums={"a": 2 * AMOUNT_MAX}), "out of bounds: sums"),
    "negative sum": (event(sums={"a": -0.5}), "out of bounds: sums"),
    "null in a map": (event(sums={"a": None}), "out of bounds: sums"),
    "negative in a map of maps": (event(counts={"x": {"1": -1}}), "out of bounds: counts"),
    "a field twice": (b'{"v":1,"topic":"a",' + event()[1:], MISTYPED),
    "a key twice": (event(sums={"a": 1}).replace(b'"a"', b'"a": 0, "a"'), MISTYPED),
    "null in a map of maps": (event(counts={"x": None}), "out of bounds: counts"),
    "by a rule": (event(records=13), "unlucky"),
    "by a rule over the message": (event(topic="x" * 1000), "long"),
}
RULES = {"unlucky": "records <> 13", "long": "length(message.value) < 900"}


def messages(spark: SparkSession, values: list[bytes | None]) -> DataFrame:
    rows = [(7, place, value) for place, value in enumerate(values)]
    return spark.createDataFrame(rows, MESSAGES)


@pytest.fixture(scope="module")
def outcome(spark: SparkSession) -> dict[str, tuple[Any, ...] | str]:
    """What became of each message, by its name."""
    names = [*USED, *REFUSED]
    values: list[bytes | None] = [value for value, _ in (*USED.values(), *REFUSED.values())]
    good, bad = split_events(messages(spark, values), SCHEMA, 1, RULES)
    found: list[tuple[str, tuple[Any, ...] | str]] = []
    for row in good.collect():
        assert row.source_partition == 7
        found.append((names[row.source_offset], (row.topic, row.partition, row.records)))
    for row in bad.collect():
        assert row.partition == 7
        assert row.value == values[row.offset]
        found.append((names[row.offset], row.reason))
    assert sorted(name for name, _ in found) == sorted(names)  # each message once
    return dict(found)


@pytest.mark.parametrize("name", USED)
def test_an_event_that_can_be_used_is(outcome: dict[str, tuple[Any, ...] | str], name: str) -> None:
    assert outcome[name] == USED[name][1]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_put_aside(
    outcome: dict[str, tuple[Any, ...] | str], name: str
) -> None:
    assert outcome[name] == REFUSED[name][1]


def test_the_side_output_is_the_same_after_a_repeated_batch(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    batch = messages(spark, [event(), b"{", b"", event(v=9)])
    _, bad = split_events(batch, SCHEMA, 1)
    for _ in range(2):
        assert write_side(bad, tmp_path, "jobs", 4) == 3
    assert caplog.messages[0].startswith(
        "invalid messages: pipeline=jobs messages=3 batch=4 folder="
    )
    kept = pq.read_table(side_folder(tmp_path, "jobs")).to_pylist()
    assert sorted((row["offset"], row["reason"], row["value"]) for row in kept) == [
        (1, MISTYPED, b"{"),
        (2, "empty", b""),
        (3, "newer version: 9", event(v=9)),
    ]


def test_a_batch_number_of_a_new_checkpoint_takes_nothing_away(
    spark: SparkSession, tmp_path: Path
) -> None:
    for offset in (10, 20):
        batch = spark.createDataFrame([(0, offset, b"{")], MESSAGES)
        write_side(split_events(batch, SCHEMA, 1)[1], tmp_path, "jobs", 0)
    assert pq.read_table(side_folder(tmp_path, "jobs")).num_rows == 2


def test_a_run_that_was_replaced_changes_nothing_of_the_side_output(
    spark: SparkSession, tmp_path: Path
) -> None:
    def put_aside(text: bytes, batch_id: int, epoch: int) -> None:
        set_epoch(spark, epoch)
        batch = spark.createDataFrame([(0, 10, text)], MESSAGES)
        write_side(split_events(batch, SCHEMA, 1)[1], tmp_path, "jobs", batch_id)

    def kept() -> list[bytes]:
        found = pq.read_table(side_folder(tmp_path, "jobs")).to_pylist()
        return sorted(row["value"] for row in found)

    try:
        put_aside(b"{", 1, 2)
        for batch_id in (1, 2):  # the same batch with other rows, and one that nobody has written
            with pytest.raises(LeaseNotHeld, match="a run with epoch 2 has written it"):
                put_aside(b"late", batch_id, 1)
        assert kept() == [b"{"]
        put_aside(b"}", 1, 3)
        put_aside(b"]", 2, 0)  # a run without a lease
        assert kept() == [b"]", b"}"]
        with pytest.raises(LeaseNotHeld):
            put_aside(b"late", 3, 2)
    finally:
        set_epoch(spark, 0)


def test_good_batches_leave_no_side_output(spark: SparkSession, tmp_path: Path) -> None:
    _, bad = split_events(messages(spark, [event()]), SCHEMA, 1)
    assert write_side(bad, tmp_path, "jobs", 1) == 0
    assert not side_folder(tmp_path, "jobs").exists()


def test_the_side_output_of_a_lake_has_a_batch_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = PipelineSettings(url="", key="", home=tmp_path, lake=f"delta+file://{tmp_path}/lake")
    side = SideOutput(settings, "jobs")
    batch = messages(spark, [event(), b"{", b"", event(v=9)])
    _, bad = split_events(batch, SCHEMA, 1)
    assert side.write(bad.where("false"), 3) == 0
    assert not (tmp_path / "lake").exists()
    with monkeypatch.context() as patch:
        patch.setattr(DeltaFileWriter, "stored_rows", lambda _, paths: [0] * len(paths))
        with pytest.raises(RowsMissing, match="the side output of jobs did not take the batch"):
            side.write(bad, 4)
    for _ in range(2):
        assert SideOutput(settings, "jobs").write(bad, 4) == 3
    assert side.write(bad.where("reason = 'empty'"), 4, "again") == 1
    table = pipeline_table(tmp_path, settings.lake, side_layout("jobs"))
    rows = sorted((row["offset"], row["reason"], row["value"]) for row in table.read().to_pylist())
    assert rows == [
        (1, MISTYPED, b"{"),
        (2, "empty", b""),
        (2, "empty", b""),
        (3, "newer version: 9", event(v=9)),
    ]
    assert not side_folder(tmp_path, "jobs").exists()
