"""Tables and large blocks against a real server."""

import os

import polars as pl
import pyarrow as pa

from opentalos.sdk import ClientConfig, Compression, Message, aio
from opentalos.sdk.arrow import SCHEMA, decode_json

MIB = 1 << 20


async def test_a_fetched_table_holds_the_fetched_records(sdk_config: ClientConfig) -> None:
    async with aio.Client(sdk_config) as client:
        await aio.TalosAdmin(client).topics.create("tables", partitions=1)
        producer = aio.SimpleProducer(client, "tables")
        await producer.put([Message(b"a", "key", "1", 5), b"b"])
        await producer.put([b"c"])
        consumer = aio.SimpleConsumer(client, "tables")
        records = await consumer.fetch(0, 1)
        table = await consumer.fetch_arrow(0, 1)
        assert table.schema == SCHEMA
        for name in ("topic", "partition", "offset", "data", "partition_key"):
            assert table.column(name).to_pylist() == [getattr(record, name) for record in records]
        assert [record.data for record in records] == [b"b", b"c"]
        assert (await consumer.fetch_arrow(0, 3)).num_rows == 0


async def test_a_range_of_a_topic_is_one_table_and_a_pandas_frame(sdk_config: ClientConfig) -> None:
    async with aio.Client(sdk_config) as client:
        await aio.TalosAdmin(client).topics.create("ranges", partitions=2)
        producer = aio.SimpleProducer(client, "ranges")
        for partition in (0, 1):
            await producer.put([Message(b'{"n": 1}', schema_fingerprint="v1")], partition=partition)
            await producer.put([b"1", b"2", b"3"], partition=partition)
        consumer = aio.SimpleConsumer(client, "ranges")
        table = await consumer.read_range(1, 3, columns=["partition", "offset", "data"])
        frame = table.to_pandas()
        assert frame["data"].tolist() == [b"1", b"2"] * 2
        assert frame["offset"].tolist() == [1, 2] * 2
        values = decode_json(await consumer.read_range(0, 1), {"v1": pa.schema([("n", pa.int8())])})
        assert values["v1"].to_pylist() == [
            {"partition": partition, "offset": 0, "n": 1} for partition in (0, 1)
        ]


async def test_a_range_of_a_topic_is_a_polars_frame(sdk_config: ClientConfig) -> None:
    async with aio.Client(sdk_config) as client:
        await aio.TalosAdmin(client).topics.create("polars-ranges", partitions=2)
        producer = aio.SimpleProducer(client, "polars-ranges")
        for partition in (0, 1):
            messages = [Message(b"%d" % n, partition_key=f"k{n % 2}") for n in range(10)]
            await producer.put(messages, partition=partition)
        consumer = aio.SimpleConsumer(client, "polars-ranges")
        frame = await consumer.read_polars(
            2, 8, partitions=[1], columns=["offset", "partition_key", "data", "append_time"]
        )
        assert isinstance(frame, pl.DataFrame)
        assert frame.schema == {
            "offset": pl.Int64,
            "partition_key": pl.String,
            "data": pl.Binary,
            "append_time": pl.Datetime("us", "UTC"),
        }
        assert frame["offset"].to_list() == list(range(2, 8))
        counted = frame.group_by("partition_key").agg(pl.len(), pl.col("data").last())
        assert sorted(counted.rows()) == [("k0", 3, b"6"), ("k1", 3, b"7")]
        everything = await consumer.read_polars()
        assert everything.columns == SCHEMA.names
        assert everything.height == 20
        empty = await consumer.read_polars(10)
        assert (empty.columns, empty.height) == (SCHEMA.names, 0)


async def test_a_block_of_many_mebibytes_is_stored_and_read(sdk_config: ClientConfig) -> None:
    data = os.urandom(9 * MIB + 1)
    async with aio.Client(sdk_config) as client:
        await aio.TalosAdmin(client).topics.create("wide", partitions=1)
        producer = aio.SimpleProducer(client, "wide", compression=Compression.NONE)
        await producer.put([data, b"small"])
        consumer = aio.SimpleConsumer(client, "wide")
        assert [record.data for record in await consumer.fetch(0, 0)] == [data, b"small"]
        table = await consumer.fetch_arrow(0, 0)
        assert table.column("data").to_pylist() == [data, b"small"]
