"""Where rows go and how they are cut: a function of the rows and their order."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types

from opentalos.model import message
from opentalos.model.errors import BadRequest
from opentalos.model.message import StoredBlock
from opentalos.model.settings.partitioning import Partitioning
from opentalos.pipelines.datasource.sink.block_comparison import same_messages
from opentalos.pipelines.datasource.sink.columns import WriteColumns
from opentalos.pipelines.datasource.sink.options import write_options
from opentalos.pipelines.datasource.sink.plan import Target
from opentalos.pipelines.datasource.sink.routing import TOPICS_MAX, Cut, Router
from opentalos.sdk.core.blocks import decode_block_records
from opentalos.sdk.core.values import Record, TopicRef

TEXT, NUMBER = types.StringType(), types.IntegerType()
PARTITIONS = 3
NOW_MS = 1_700_000_000_000


EVEN = "even"  # a topic whose keys are placed by murmur2


def find(name: str) -> Target:
    placed = Partitioning.MURMUR2 if name == EVEN else Partitioning.OFFICIAL
    return Target(TopicRef(name, f"root#{name}#0a", PARTITIONS, partitioning=placed), {})


def router(names: Sequence[str], *, task: int = 0, **given: str) -> Router:
    kinds = {"type": NUMBER, "partition": NUMBER, "create_time": types.TimestampType()}
    fields = [types.StructField(name, kinds.get(name, TEXT)) for name in names]
    topic = {} if "topic" in names else {"topic": "demo"}
    options = write_options({"url": "http://h:1", "key": "a:b", **topic, **given})
    columns = WriteColumns(types.StructType(fields), topic_option=bool(topic))
    return Router(options, columns, find, task=task, create_ms=NOW_MS)


def records(cut: Cut) -> list[Record]:
    return decode_block_records(cut.target.ref.name, cut.partition, stored(cut), 0)


def stored(cut: Cut, offset: int = 0) -> StoredBlock:
    block = cut.block
    return StoredBlock(offset, block.messages, 0, 0, block.compression, block.format, block.payload)


def values(cuts: Sequence[Cut]) -> list[tuple[int, list[bytes]]]:
    return [(cut.partition, [record.data for record in records(cut)]) for cut in cuts]


def test_rows_with_a_key_go_where_every_producer_sends_it() -> None:
    keys = [f"user-{number}" * 3 for number in range(50)]
    window = pa.table({"value": keys, "key": keys})
    for cut in router(["value", "key"]).cuts(window):
        for record in records(cut):
            assert record.partition_key is not None
            assert message.partition_of(record.partition_key, PARTITIONS) == cut.partition


def test_a_topic_says_how_its_keys_are_placed() -> None:
    keys = [f"user-{number}" for number in range(50)]
    window = pa.table({"value": keys, "key": keys, "topic": [EVEN, "demo"] * 25})
    for cut in router(["value", "key", "topic"]).cuts(window):
        place = find(cut.target.ref.name).ref.partitioning.partition_of
        held = records(cut)
        assert all(cut.partition == place(str(each.partition_key), PARTITIONS) for each in held)


def test_the_column_partition_comes_before_the_key() -> None:
    window = pa.table(
        {"value": ["a", "b", "c"], "key": ["k", None, "k"], "partition": [2, 1, None]},
        pa.schema([("value", pa.string()), ("key", pa.string()), ("partition", pa.int32())]),
    )
    own = message.partition_of("k", PARTITIONS)
    found = values(list(router(["value", "key", "partition"]).cuts(window)))
    assert sorted(found) == sorted([(2, [b"a"]), (1, [b"b"]), (own, [b"c"])])


def test_rows_without_a_key_go_round_by_blocks_from_the_tasks_own_partition_on() -> None:
    cutter = router(["value"], task=4, blockMessages="2")
    first = list(cutter.cuts(pa.table({"value": ["a", "b", "c", "d", "e"]})))
    second = list(cutter.cuts(pa.table({"value": ["f"]})))
    assert values(first) == [(1, [b"a", b"b"]), (2, [b"c", b"d"]), (0, [b"e"])]
    assert values(second) == [(1, [b"f"])]


def test_each_row_may_name_its_topic() -> None:
    window = pa.table({"value": ["a", "b", "c"], "topic": ["x", "y", "x"]})
    found = list(router(["value", "topic"]).cuts(window))
    assert [(cut.target.ref.name, [record.data for record in records(cut)]) for cut in found] == [
        ("x", [b"a", b"c"]),
        ("y", [b"b"]),
    ]


def test_too_many_topics_are_refused() -> None:
    names = [f"t{number}" for number in range(TOPICS_MAX + 1)]
    with pytest.raises(BadRequest, match="more than 100 topics"):
        list(router(["value", "topic"]).cuts(pa.table({"value": names, "topic": names})))


def test_the_same_rows_give_the_same_blocks() -> None:
    window = pa.table(
        {"value": [str(n) for n in range(99)], "key": [str(n % 7) for n in range(99)]}
    )

    def blocks(given: Any) -> list[tuple[int, bytes]]:
        cuts = router(["value", "key"], blockMessages="5").cuts(given)
        return [(cut.partition, cut.block.payload) for cut in cuts]

    assert blocks(window) == blocks(pa.concat_tables([window.slice(0, 13), window.slice(13)]))


def test_what_a_message_says_is_compared_and_not_how_it_is_compressed() -> None:
    window = pa.table({"value": ["a", "b"], "key": ["k", "k"]})
    (ours,) = router(["value", "key"]).cuts(window)
    (plain,) = router(["value", "key"], compression="none").cuts(window)
    assert same_messages(ours.block, stored(plain, 5), 5, own_times=True)
    assert not same_messages(ours.block, stored(plain, 5), 4, own_times=True)


@pytest.mark.parametrize("other", [["a", "c"], ["b", "a"], ["a"], ["a", "b", "c"]])
def test_other_rows_are_not_the_same(other: list[str]) -> None:
    (ours,) = router(["value"]).cuts(pa.table({"value": ["a", "b"]}))
    (theirs,) = router(["value"]).cuts(pa.table({"value": other}))
    assert not same_messages(ours.block, stored(theirs), 0, own_times=False)


def test_create_times_count_only_if_they_are_the_rows_own() -> None:
    (ours,) = router(["value"]).cuts(pa.table({"value": ["a"]}))
    (later,) = router(["value", "create_time"]).cuts(
        pa.table({"value": ["a"], "create_time": pa.array([1], pa.timestamp("us", "UTC"))})
    )
    assert same_messages(ours.block, stored(later), 0, own_times=False)
    assert not same_messages(ours.block, stored(later), 0, own_times=True)


def test_a_damaged_block_is_not_the_same() -> None:
    (ours,) = router(["value"]).cuts(pa.table({"value": ["a"]}))
    damaged = stored(ours)._replace(payload=b"no block")
    assert not same_messages(ours.block, damaged, 0, own_times=False)
