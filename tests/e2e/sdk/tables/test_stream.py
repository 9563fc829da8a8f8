"""Followers of a table's stream with a real server: what they have is the table."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from tests.waiting import eventually

from opentalos.model import errors
from opentalos.model.table import NEVER
from opentalos.sdk import (
    Client,
    ClientConfig,
    ConsumerSettings,
    Message,
    Record,
    SimpleConsumer,
    SimpleProducer,
    TalosAdmin,
    aio,
)
from opentalos.sdk.aio import tables as aio_tables
from opentalos.sdk.aio.stream import TableFollower as AsyncFollower
from opentalos.sdk.stream import (
    Change,
    ChangeKind,
    ChangeMissing,
    ChangeReader,
    Replica,
    StreamDecoder,
    TableFollower,
)
from opentalos.sdk.tables import (
    DataType,
    KeyPart,
    RowExists,
    StreamSpec,
    StreamView,
    TableAdmin,
    TableSchema,
    TalosTable,
)

PARTITIONS = 3
VIEWS = pytest.mark.parametrize(
    "view", [StreamView.MUTATE_LOG, StreamView.RECORD_IMAGE], ids=lambda view: view.name.lower()
)


def schema(topic: str, view: StreamView = StreamView.MUTATE_LOG, ttl_s: int = NEVER) -> TableSchema:
    return TableSchema(
        group=(KeyPart("user"),),
        hashed=True,
        primary=(KeyPart("id"),),
        attributes={
            "user": DataType.STRING, "id": DataType.INT64, "n": DataType.INT64,
            "text": DataType.STRING,
        },
        shards=3,
        streams={topic: StreamSpec(view=view)},
        ttl_s=ttl_s,
    )  # fmt: skip


def make(
    client: Client, name: str, view: StreamView = StreamView.MUTATE_LOG, ttl_s: int = NEVER
) -> tuple[TalosTable, str]:
    """A table with a stream into a topic of a name like its own."""
    topic = f"{name}-changes"
    with TalosAdmin(client) as topics:
        topics.topics.create(topic, partitions=PARTITIONS)
    TableAdmin(client).create(name, schema(topic, view, ttl_s))
    return TalosTable(client, name), topic


def write(table: TalosTable, seed: int, count: int = 60) -> None:
    """Updates of all kinds, on few rows."""
    draw = random.Random(seed)
    for number in range(count):
        key = {"user": draw.choice("abcd"), "id": draw.randrange(4)}
        match draw.randrange(6):
            case 0 | 1:
                table.put({**key, "n": number, "text": f"text {number}"})
            case 2 | 3:
                table.increment(key, {"n": draw.randrange(-9, 9)})
            case 4:
                table.remove(key)
            case 5:
                table.remove(key, ["text"])


def ordered(rows: Any) -> list[Any]:
    return sorted(rows, key=lambda row: (row["user"], row["id"]))


def records(client: Client, topic: str) -> Iterator[Record]:
    """What the topic holds, partition by partition."""
    with SimpleConsumer(client, topic) as consumer:
        for partition, retained in consumer.offsets().items():
            offset = retained.start
            while offset < retained.next:
                found = consumer.fetch(partition, offset)
                yield from found
                offset = found[-1].offset + 1


def send_again(client: Client, topic: str, again: Sequence[Record]) -> None:
    """As a publisher does that does not know what has arrived."""
    for record in again:
        with SimpleProducer(client, topic, record.partition) as producer:
            message = Message(record.data, record.partition_key, record.sequence_number)
            producer.put([message])


@VIEWS
def test_a_follower_from_the_start_has_the_table(client: Client, view: StreamView) -> None:
    table, topic = make(client, f"start-{view.value}", view)
    with TableFollower(client, table.name, topic, complete=True) as follower:
        assert follower.consistent is True
        for seed in range(2):
            write(table, seed)
            resolved_ms = follower.catch_up()
            assert ordered(follower.replica.rows()) == ordered(table.scan())
        send_again(client, topic, list(records(client, topic))[5:])
        write(table, 2)
        assert follower.catch_up() > resolved_ms
        assert ordered(follower.replica.rows()) == ordered(table.scan())
        counters = follower.replica.counters
        assert counters.repeated > 0
        assert counters.late == 0


@VIEWS
def test_a_follower_that_comes_later_has_the_table(client: Client, view: StreamView) -> None:
    table, topic = make(client, f"later-{view.value}", view)
    write(table, 10, 120)
    with TableFollower(client, table.name, topic) as follower:
        assert follower.consistent is False
        send_again(client, topic, list(records(client, topic)))
        write(table, 11)
        follower.catch_up()
        assert ordered(follower.replica.rows()) == ordered(table.scan())
        write(table, 12)
        follower.catch_up()
        assert ordered(follower.replica.rows()) == ordered(table.scan())
        assert follower.replica.counters.late == 0
    assert follower.consistent  # since the first of the two


@VIEWS
def test_records_with_a_time_to_live_are_followed_from_a_scan(
    client: Client, view: StreamView
) -> None:
    """Some have expired when it comes, one is written again after that."""
    table, topic = make(client, f"mortal-{view.value}", view, ttl_s=1)
    old = {"user": "old", "id": 1}
    table.put({**old, "n": 1, "text": "forgotten"})
    table.put({"user": "old", "id": 2, "n": 1})
    table.remove({"user": "old", "id": 2})
    eventually("the row expires", lambda: table.get(old) is None)
    with TableFollower(client, table.name, topic) as follower:
        follower.catch_up()
        states = {
            (state.key["id"], state.sequence): state.record for state in follower.replica.states()
        }
        assert states[2, 2] is None
        assert states[1, 1] == {**old, "n": 1, "text": "forgotten"}
        begun_ms = next(table.states()).timestamp_ms
        assert list(follower.replica.rows(begun_ms + 1_000)) == []
        assert table.increment(old, {"n": 5}) == {"n": 5}
        written_ms = follower.catch_up()
        assert list(follower.replica.rows(begun_ms + 1_000)) == [{**old, "n": 5}]
        assert list(follower.replica.rows(written_ms + 1_000)) == []


def test_a_table_is_scanned_in_parts_with_versions(client: Client) -> None:
    table, _ = make(client, "parts")
    write(table, 30, 100)
    with_all = {tuple(state.key.values()): state for state in table.states()}
    parts = [list(table.states(part)) for part in table.splits()]
    assert len(parts) > 1
    assert sum(map(len, parts)) == len(with_all)
    assert {tuple(item.key.values()): item for part in parts for item in part} == with_all
    assert ordered(item.record for item in with_all.values() if item.record) == ordered(
        table.scan()
    )
    (some, *_) = table.states(columns=["n"])
    assert set(some.record or ()) <= {"user", "id", "n"}


def test_a_follower_may_begin_while_the_table_is_written(config: ClientConfig) -> None:
    """Scan and stream meet rows at every stage."""

    async def scenario() -> None:
        async with aio.Client(config) as client:
            name, topic = "written", "written-changes"
            await aio.TalosAdmin(client).topics.create(topic, partitions=PARTITIONS)
            await aio_tables.TableAdmin(client).create(name, schema(topic))
            table = aio_tables.TalosTable(client, name)
            stop = asyncio.Event()

            async def writer(number: int) -> None:
                draw = random.Random(number)
                while not stop.is_set():
                    key = {"user": draw.choice("ab"), "id": draw.randrange(9)}
                    await table.increment(key, {"n": draw.randrange(1, 5)})
                    if draw.randrange(5) == 0:
                        await table.remove(key)
                    elif draw.randrange(3) == 0:
                        await table.put({**key, "text": "x"})

            writers = [asyncio.create_task(writer(number)) for number in range(4)]
            try:
                async with AsyncFollower(client, name, topic) as follower:
                    for _ in range(5):
                        await follower.step()
                    stop.set()
                    await asyncio.gather(*writers)
                    await follower.catch_up()
                    assert follower.consistent
                    rows = ordered([row async for row in table.scan()])
                    assert ordered(follower.replica.rows()) == rows
                    assert follower.replica.counters.late == 0
            finally:
                stop.set()
                await asyncio.gather(*writers)

    asyncio.run(scenario())


def test_a_reader_returns_each_change_of_a_row_in_order(client: Client) -> None:
    table, topic = make(client, "read")
    key = {"user": "u", "id": 1}
    table.put({**key, "n": 1, "text": "x"})
    assert not table.put({**key, "n": 9}, RowExists(False))  # publishes nothing
    table.increment(key, {"n": 4})
    table.remove(key, ["text"])
    table.remove(key)
    table.remove(key)  # there is nothing left to remove
    settings = ConsumerSettings(commit_interval_s=0.1)
    with ChangeReader(client, table.name, topic, "readers", settings) as reader:
        changes = take(reader, 4)
        reader.commit()
        assert reader.consumer.counters.commits > 0
    assert [change.kind for change in changes] == [
        ChangeKind.PUT, ChangeKind.INCREMENT, ChangeKind.DELETE, ChangeKind.DELETE
    ]  # fmt: skip
    assert [change.sequence for change in changes] == [1, 2, 3, 4]
    assert [change.row_deleted for change in changes] == [False, False, False, True]
    assert [plain(change.columns) for change in changes] == [
        {"n": 1, "text": "x"}, {"n": 5}, {"text": "x"}, {}
    ]  # fmt: skip
    assert plain(changes[1].amounts) == {"n": 4}
    times = [change.timestamp_ms for change in changes]
    assert times == sorted(set(times))


def take(reader: ChangeReader, count: int) -> list[Change]:
    found = []
    for item in reader:
        found.append(item.change)
        if len(found) == count:
            break
    return found


def plain(columns: Any) -> dict[str, Any]:
    return {name: datum.value for name, datum in columns.items()}


def test_raw_messages_make_the_same_table(client: Client) -> None:
    table, topic = make(client, "raw")
    write(table, 20)
    with TableFollower(client, table.name, topic, complete=True) as follower:
        follower.catch_up()
    decoder = StreamDecoder.of(table.schema(), topic)
    replica = Replica(table.schema(), decoder.view)
    for record in records(client, topic):
        name, change = decoder.payload(record.data, record.sequence_number)
        assert name == table.name
        replica.apply(change)
    assert ordered(replica.rows()) == ordered(table.scan())
    with pytest.raises(errors.BadRequest, match="is not a change"):
        decoder.payload(b"\x00\x01")


def test_a_change_that_is_missing_is_noticed(client: Client) -> None:
    """The table is switched off and on again while its stream is off."""
    table, topic = make(client, "gap")
    key = {"user": "u", "id": 1}
    table.put({**key, "n": 1})
    with TableFollower(client, table.name, topic, complete=True) as follower:
        follower.catch_up()
        admin = TableAdmin(client)
        on = table.schema()
        with stream_off(admin, table.name, on):
            table.put({**key, "n": 2})
        table.put({**key, "n": 3})
        with pytest.raises(ChangeMissing, match="was disabled or stopped"):
            follower.catch_up()
    eventually("both changes are published", lambda: len(list(records(client, topic))) == 2)
    decoder, replica = StreamDecoder.of(on, topic), Replica(on, StreamView.MUTATE_LOG)
    first, third = (decoder.record(record).change for record in records(client, topic))
    assert replica.apply(first)
    with pytest.raises(
        ChangeMissing, match=r"change 3 of row .*: changes are missing after change 1"
    ):
        replica.apply(third)
    with TableFollower(client, table.name, topic) as fresh:
        fresh.catch_up()
        assert list(fresh.replica.rows()) == [{**key, "n": 3}]


@contextmanager
def stream_off(admin: TableAdmin, name: str, on: TableSchema) -> Iterator[None]:
    off = TableSchema(
        group=on.group, hashed=on.hashed, primary=on.primary, attributes=on.attributes,
        shards=on.shards,
    )  # fmt: skip
    admin.alter(name, off)
    yield
    admin.alter(name, on)


def test_a_stream_that_is_not_there_is_named(client: Client) -> None:
    table, topic = make(client, "unnamed", StreamView.KEYS_ONLY)
    with pytest.raises(errors.ValidationFailed, match=f"no stream into other; it has: {topic}"):
        TableFollower(client, table.name, "other").start()
    with pytest.raises(errors.NotSupported, match="KEYS_ONLY"):
        TableFollower(client, table.name, topic).start()
    with pytest.raises(errors.TableNotExist):
        TableFollower(client, "nowhere", topic).start()
