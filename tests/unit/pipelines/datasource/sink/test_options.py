"""Options and columns of a write: what is unknown or unfit is refused by its name."""

import pyarrow as pa
import pytest
from pyspark.sql import types

from opentalos.model.errors import BadRequest, ConfigError
from opentalos.model.message import Compression
from opentalos.pipelines.datasource.sink.columns import WriteColumns, check_partitions
from opentalos.pipelines.datasource.sink.options import Delivery, write_options

TYPES: dict[str, types.DataType] = {
    "binary": types.BinaryType(),
    "string": types.StringType(),
    "int": types.IntegerType(),
    "bigint": types.LongType(),
    "timestamp_ntz": types.TimestampNTZType(),
}
SERVER = {"url": "http://h:1", "key": "id:secret"}


def columns(ddl: str, *, topic_option: bool = True, ignore: bool = False) -> WriteColumns:
    fields = [part.split() for part in ddl.split(", ")]
    schema = types.StructType([types.StructField(name, TYPES[kind]) for name, kind in fields])
    return WriteColumns(schema, topic_option=topic_option, ignore_metadata=ignore)


def test_a_write_needs_no_more_than_server_and_topic() -> None:
    options = write_options({**SERVER, "topic": "t"})
    assert (options.topic, options.compression) == ("t", Compression.SNAPPY)
    assert (options.delivery, options.write_id) == (Delivery.AUTO, "")


def test_options_are_found_in_any_case_and_sparks_own_are_passed_over() -> None:
    given = {"WRITEID": "w", "blockmessages": "5", "checkpointLocation": "/c", "delivery": "AUTO"}
    options = write_options({**SERVER, **given, "compression": "LZ4"})
    assert (options.write_id, options.block_messages) == ("w", 5)
    assert options.compression is Compression.LZ4


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topics": "a"}, "no option 'topics'"),
        ({"topic": "a", "path": "b"}, "given twice, as the path 'b' and as the option topic"),
        ({"metadata": "drop"}, "metadata is 'drop': choose fail or ignore"),
        ({"compression": "rar"}, "compression is .rar.: choose one of none, snappy"),
        ({"delivery": "maybe"}, "choose one of auto"),
        ({"blockBytes": "0"}, "blockBytes is '0': give a whole number from 1"),
        ({"blockMessages": "100001"}, "from 1 to 100000"),
        ({"writeId": "x" * 1001}, "writeId is too long: give at most 1000"),
        ({"key": "nocolon"}, "ID:SECRET"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        write_options({**SERVER, **given})


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        ("key string", "needs the column value"),
        ("value int", "column 'value' is int: cast it to binary or string"),
        ("value binary, key binary", "column 'key' is binary: cast it to string"),
        (
            "value binary, key string, offset bigint",
            "offset is set by the log .* metadata = ignore",
        ),
        ("value binary, colour string", "a column 'colour'; known: value, key"),
        ("value binary, partition bigint", "column 'partition' is bigint"),
        ("value binary, create_time timestamp_ntz", "column 'create_time'"),
        ("value binary, topic string", "both were given"),
    ],
)
def test_a_column_that_cannot_be_written_is_named(ddl: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        columns(ddl)


def test_without_the_option_each_row_names_its_topic() -> None:
    assert columns("value binary, topic string", topic_option=False).topic
    with pytest.raises(ConfigError, match="neither was given"):
        columns("value binary", topic_option=False)


def test_columns_get_the_names_of_the_sdk_and_routes_are_left_out() -> None:
    table = pa.table({"value": ["v"], "key": ["k"], "type": [1], "partition": [0], "tag": ["t"]})
    known = columns("value string, key string, type int, partition int, tag string")
    assert known.messages(table).column_names == [
        "data",
        "partition_key",
        "message_type",
        "tag",
    ]


def test_a_row_without_a_value_is_refused_with_a_count() -> None:
    with pytest.raises(BadRequest, match="2 of 3 rows have no value"):
        columns("value string").check(pa.table({"value": ["a", None, None]}))


@pytest.mark.parametrize("partition", [-1, 4])
def test_a_partition_that_is_not_there_is_named(partition: int) -> None:
    check_partitions(pa.chunked_array([[0, 3, None]], pa.int32()), 4, "t")
    with pytest.raises(BadRequest, match=rf"has partition {partition}; t has 0 to 3"):
        check_partitions(pa.chunked_array([[0, partition]], pa.int32()), 4, "t")


def test_a_path_is_the_topic() -> None:
    assert write_options({**SERVER, "path": "o/t"}).topic == "o/t"


def test_columns_of_a_read_that_cannot_be_written_are_ignored_on_request() -> None:
    assert write_options({**SERVER, "metadata": "IGNORE"}).ignore_metadata
    assert not write_options(SERVER).ignore_metadata
    read = "topic string, partition int, offset bigint, value binary, append_time timestamp_ntz"
    found = columns(read, ignore=True)
    assert (found.topic, found.partition) == (False, True)
    rows = pa.table(
        {
            "topic": [None, "from"],
            "partition": [0, 1],
            "offset": [5, 6],
            "value": [b"a", b"b"],
            "append_time": [0, 0],
        }
    )
    found.check(rows)
    assert found.messages(rows).column_names == ["data"]


def test_without_the_option_the_column_topic_says_where_rows_go() -> None:
    ddl = "topic string, value binary, offset bigint"
    assert columns(ddl, topic_option=False, ignore=True).topic
    with pytest.raises(ConfigError, match="neither was given"):
        columns("value binary, offset bigint", topic_option=False, ignore=True)


def test_columns_that_no_read_gives_are_never_ignored() -> None:
    with pytest.raises(ConfigError, match="a write cannot have a column 'price'"):
        columns("value binary, price int", ignore=True)
