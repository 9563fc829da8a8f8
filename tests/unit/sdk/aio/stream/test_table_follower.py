"""A follower joins a scan with the stream, in virtual time: late marks, resends, late changes."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.sdk.fake_group import FakeGroup
from tests.unit.sdk.fake_servers import S1, run
from tests.unit.sdk.fake_tables import FakeTables
from tests.unit.sdk.stream_model import SCHEMA, ModelTable, key_of, sorted_rows

from opentalos.model.change import Change, StreamView
from opentalos.model.errors import TableNotExist, Unavailable, ValidationFailed
from opentalos.model.table import StreamSpec, TableSchema, TableSpec
from opentalos.sdk.aio.stream import ChangeReader, TableFollower
from opentalos.sdk.aio.stream.table_follower import MARK_WAIT_S, TABLE_CHECK_S
from opentalos.sdk.core.table.values import typed_columns
from opentalos.sdk.core.values import Message
from opentalos.sdk.errors import ChangeMissing, ClientClosed, CorruptLog
from opentalos.wire._generated import sds
from opentalos.wire.sds.change import encode_change
from opentalos.wire.sds.datum import columns_to
from opentalos.wire.sds.table_schema import spec_to

TOPIC = "demo"
PARTITIONS = 2
BEGIN_S = 1_700_000_000
LOG = StreamView.MUTATE_LOG


@dataclass(eq=False)
class World:
    """A table whose stream lies in a topic. ``lag_ms``: how far its marks are behind."""

    view: StreamView = LOG
    lag_ms: int = 0
    table: ModelTable = field(default_factory=ModelTable)
    servers: FakeTables = field(default_factory=FakeTables)
    scans: int = 0
    uuid: str = "first"
    enabling: int = 1

    def __post_init__(self) -> None:
        streams = {TOPIC: StreamSpec(view=self.view)}
        self.schema = TableSchema(
            primary=SCHEMA.primary, attributes=SCHEMA.attributes, streams=streams
        )
        self.topic = FakeGroup(partitions=PARTITIONS, servers=self.servers)
        self.servers.on(S1, "describeTable", lambda _: self._described())
        self.servers.on(S1, "getServerTime", lambda _: self.now_ms() // 1000)
        self.servers.on(S1, "getLatestStreamCheckpoint", self._mark)
        self.servers.on(S1, "scan", self._scan)

    def now_ms(self) -> int:
        return int((BEGIN_S + asyncio.get_running_loop().time()) * 1000)

    def do(self, call: str, *arguments: Any, **columns: Any) -> Change:
        """Change the table and publish the change."""
        self.table.now_ms = self.now_ms()
        change: Change = getattr(self.table, call)(*arguments, **columns)
        self.send(change)
        return change

    def send(self, change: Change, table: str = "users", partition: int | None = None) -> None:
        data = encode_change(self.view, table, change, None)
        if partition is None:
            partition = ord(key_of(change)) % PARTITIONS
        self.topic.append(partition, [Message(data, sequence_number=str(change.sequence))])

    def follower(self, **settings: Any) -> TableFollower:
        return TableFollower(self.topic.client(), "users", TOPIC, **settings)

    def offsets(self) -> dict[int, int]:
        return {number: self.topic.next(number) for number in range(self.topic.partitions)}

    def _described(self) -> sds.TableSpec:
        found = spec_to(TableSpec(schema=self.schema))
        assert found.metadata is not None
        found.metadata.tableId = self.uuid
        return found

    def _mark(self, _: Any) -> sds.StreamCheckpoint:
        states = [
            sds.TopicPartitionState(partitionId=item, offset=end)
            for item, end in self.offsets().items()
        ]
        return sds.StreamCheckpoint(
            timestamp=self.now_ms() - 1 - self.lag_ms,
            partitionStates=states,
            enabling=self.enabling,
        )

    def _scan(self, _: Any) -> sds.ScanResult:
        self.scans += 1
        states = list(self.table.states())
        rows = [state.record or state.key for state in states]
        return sds.ScanResult(
            records=[columns_to(typed_columns(SCHEMA.attributes, row)) for row in rows],
            timestamps=[state.timestamp_ms for state in states],
            sequences=[state.sequence for state in states],
            removed=[state.record is None for state in states],
        )


@pytest.mark.parametrize("lag_ms", [0, 5_000])
def test_a_follower_is_the_table_once_it_says_so(lag_ms: int) -> None:
    async def scenario() -> None:
        world = World(lag_ms=lag_ms)
        world.do("put", "a", n=1)
        world.do("put", "b", text="x")
        first = world.do("increment", "a", 5)
        async with world.follower() as follower:
            assert (world.scans, follower.consistent) == (1, False)
            world.do("put", "c", n=7)
            world.send(first)  # again, after the scan
            world.do("remove", "b")
            await follower.catch_up()
            assert follower.consistent
            assert sorted_rows(follower.replica.rows()) == world.table.records()
            assert dict(follower.positions) == world.offsets()
            world.do("increment", "a", 1)
            await follower.step()
            assert follower.replica.get({"id": "a"}) == {"id": "a", "n": 7}
            assert follower.replica.counters.late == 0

    run(scenario())


def test_a_mark_is_waited_for_within_a_bound() -> None:
    async def scenario() -> None:
        world = World(lag_ms=int(MARK_WAIT_S * 2000))
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        with pytest.raises(Unavailable, match="the stream of users into demo lags"):
            await world.follower().start()
        assert MARK_WAIT_S <= loop.time() - begin_s <= 2 * MARK_WAIT_S

    run(scenario())


def test_a_change_below_a_mark_that_was_reached_is_counted() -> None:
    async def scenario() -> None:
        world = World()
        async with world.follower(complete=True) as follower:
            world.table.now_ms = world.now_ms()
            held_back = world.table.put("a", n=1)
            await follower.catch_up()
            world.send(held_back)
            await follower.step()
            assert follower.replica.counters.late == 1
            assert follower.replica.get({"id": "a"}) == {"id": "a", "n": 1}

    run(scenario())


def test_a_missing_change_is_reported_on_each_read() -> None:
    async def scenario() -> None:
        world = World()
        async with world.follower(complete=True) as follower:
            world.do("put", "a", n=1)
            world.table.put("a", n=2)
            world.do("put", "a", n=3)
            for _ in range(2):
                with pytest.raises(ChangeMissing):
                    await follower.step()
            assert follower.replica.get({"id": "a"}) == {"id": "a", "n": 1}

    run(scenario())


def test_what_comes_before_the_change_it_follows_waits_once_the_topic_has_grown() -> None:
    """Rows moved to other partitions, which have no order among each other."""

    async def scenario() -> None:
        world = World()
        world.do("put", "b", n=1)  # partition 0
        async with world.follower() as follower:
            await follower.catch_up()
            world.topic.partitions = PARTITIONS + 1
            world.table.now_ms = world.now_ms()
            second, third = world.table.put("b", n=2), world.table.increment("b", 5)
            world.send(third, partition=2)
            for _ in range(2):
                await follower.step()
            assert follower.replica.get({"id": "b"}) == {"id": "b", "n": 1}
            world.send(second)
            await follower.catch_up()
            assert follower.replica.get({"id": "b"}) == {"id": "b", "n": 7}
            world.table.put("b", n=3)  # not published
            world.send(world.table.put("b", n=4), partition=1)
            with pytest.raises(ChangeMissing):
                await follower.catch_up()

    run(scenario())


def test_a_follower_that_only_steps_polls_at_intervals() -> None:
    async def scenario() -> None:
        world = World()
        async with world.follower() as follower:
            world.topic.partitions = PARTITIONS + 1
            await asyncio.sleep(TABLE_CHECK_S)
            await follower.step()
            assert follower.positions.keys() == {0, 1, 2}
            world.enabling += 1
            await asyncio.sleep(TABLE_CHECK_S)
            with pytest.raises(ChangeMissing, match="was disabled or stopped"):
                await follower.step()
            world.enabling -= 1
            world.uuid = "second"
            await asyncio.sleep(TABLE_CHECK_S)
            with pytest.raises(TableNotExist, match="dropped and recreated"):
                await follower.step()

    run(scenario())


def test_changes_of_other_tables_are_passed_over() -> None:
    async def scenario() -> None:
        world = World()
        other = ModelTable()
        async with world.follower(complete=True) as follower:
            world.send(other.put("a", n=99), "others")
            world.do("put", "a", n=1)
            await follower.catch_up()
            assert follower.replica.get({"id": "a"}) == {"id": "a", "n": 1}
        async with ChangeReader(world.topic.client(), "users", TOPIC, "g") as reader:
            async for item in reader:
                assert (item.table, item.change.columns["n"].value) == ("users", 1)
                break

    run(scenario())


def test_a_stream_that_is_off_is_refused() -> None:
    async def scenario() -> None:
        world = World()
        with pytest.raises(ValidationFailed, match="no stream into elsewhere; it has: demo"):
            await TableFollower(world.topic.client(), "users", "elsewhere").start()
        follower = world.follower()
        with pytest.raises(ClientClosed, match="not started"):
            await follower.step()
        assert not follower.consistent

    run(scenario())


def test_a_damaged_partition_is_raised_after_the_others_are_applied() -> None:
    async def scenario() -> None:
        world = World()
        world.do("put", "b", n=1)  # partition 0
        world.topic.damaged[0] = False
        async with world.follower(complete=True) as follower:
            assert await follower.step() == 1
            for n in (1, 2):
                world.do("put", "a", n=n)  # partition 1
                with pytest.raises(CorruptLog, match="partition 0 is damaged"):
                    await follower.step()
                assert follower.replica.get({"id": "a"}) == {"id": "a", "n": n}
            assert follower.replica.get({"id": "b"}) == {"id": "b", "n": 1}

    run(scenario())
