"""This version opens what an earlier one left when it was killed, and goes on where it stopped."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opentalos.adapters.local import open_local_file_store
from opentalos.adapters.secret_box import AesGcmSecretBox
from opentalos.adapters.sqlite import open_sqlite_meta_store, open_sqlite_row_store
from opentalos.adapters.system_clock import SystemClock
from opentalos.broker.broker import Broker, BrokerConfig, open_broker
from opentalos.broker.messaging.messages import GetQuery
from opentalos.broker.values import Topic
from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import TalosError
from opentalos.model.identity import Principal
from opentalos.model.limits import LogLimits, MessageLimits, MeteringSettings
from opentalos.model.message import Durability, MessageBlock, ProducerStamp
from opentalos.server.data_directory import DataDirectory

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = sorted(path.name for path in GOLDEN.glob("killed_v*"))
LIMITS = LogLimits(space_reserve_bytes=0)
NO_WAIT = MessageLimits(get_wait_s=0.0)  # at the end of each log, which is read to its end
MINUTE_MS = 60_000
LAST = {"clicks/1": 78, "old/0": 77}  # partitions with an idempotent producer


class ClockOf:
    """The clock of the data: retention must find it as young as it was."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def token(self, bytes_count: int) -> bytes:
        return SystemClock().token(bytes_count)


@pytest.fixture(params=["off", "on"], ids=["files", "journal"])
def limits(request: pytest.FixtureRequest) -> LogLimits:
    """With a shared journal and without: both open what either left."""
    return replace(LIMITS, journal=request.param)


@pytest.fixture(params=VERSIONS)
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy: opening recovers, so it writes."""
    return Path(shutil.copytree(GOLDEN / request.param, tmp_path / "data"))


@asynccontextmanager
async def opened(data: Path, now_ms: int, limits: LogLimits) -> AsyncIterator[Broker]:
    clock = ClockOf(now_ms)
    directory = DataDirectory(data, clock)
    box = AesGcmSecretBox(directory.server_key())
    files = await open_local_file_store(data / "log")
    meta = await open_sqlite_meta_store(data / "meta.sqlite")
    rows = await open_sqlite_row_store(data / "rows.sqlite")
    config = BrokerConfig(
        server=directory.server,
        advertise="127.0.0.1:9420",
        secret_box=box,
        seal_memory=directory,
        log=limits,
        message=NO_WAIT,
        metering=MeteringSettings(),
    )
    broker = open_broker(files=files, meta=meta, rows=rows, clock=clock, config=config)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.close()
        for store in (files, meta, rows):
            await store.close()
        directory.close()


def root_of(broker: Broker, expected: dict[str, Any]) -> Principal:
    key_id, secret = expected["root_key"]
    key = broker.principals.key(key_id)
    assert key is not None
    assert key.secret == secret.encode()
    return key.principal


def alice_of(broker: Broker, root: Principal) -> Principal:
    infos = broker.principals.list_principals(root)
    return next(info.principal for info in infos if info.principal.id == "alice")


def topic_of(broker: Broker, root: Principal, partition: str) -> tuple[Topic, int]:
    name, number = partition.split("/")
    return broker.topics.find_topic(root, f"alice/{name}"), int(number)


def payload_of(partition: str, number: int) -> bytes:
    name, of = partition.split("/")
    return f"{name} {of} {number}; ".encode() * 9


async def read_all(
    broker: Broker, root: Principal, partition: str, start: int
) -> list[tuple[int, int, bytes]]:
    topic, number = topic_of(broker, root, partition)
    found: list[tuple[int, int, bytes]] = []
    offset = start
    while True:
        query = GetQuery(topic.resource, number, offset, 10_000, 1 << 20)
        result = await broker.messages.get(root, query)
        if not result.blocks:
            return found
        found += [(b.base_offset, b.append_ms, bytes(b.payload)) for b in result.blocks]
        offset = result.blocks[-1].next_offset


async def put(broker: Broker, topic: Topic, partition: int, block: MessageBlock) -> int:
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def waiter(base: int, error: TalosError | None) -> None:
        done.set_exception(error) if error else done.set_result(base)

    broker.context.partition_log(topic, partition).append(block, waiter)
    return await done


async def check_content(broker: Broker, expected: dict[str, Any], more: int) -> None:
    """All blocks of the golden data, then ``more`` of this test's, are read."""
    root, each = root_of(broker, expected), expected["messages_per_block"]
    for partition, blocks in expected["partitions"].items():
        topic, number = topic_of(broker, root, partition)
        start = expected["start_offsets"].get(partition, 0)
        end = start + len(blocks) * each
        bounds = await broker.messages.offsets(root, topic.resource, number)
        assert bounds == (start, end + more), partition
        golden = [
            (base, append_ms, payload_of(partition, block))
            for block, (base, append_ms) in enumerate(blocks)
        ]
        found = await read_all(broker, root, partition, start)
        assert found[: len(golden)] == golden, partition
        added = [(base, payload) for base, _, payload in found[len(golden) :]]
        assert added == [(end + n, b"more") for n in range(more)]
    alice = alice_of(broker, root)
    topic, _ = topic_of(broker, root, "clicks/0")
    checkpoint = await broker.consumers.query_offset(alice, "readers", topic.resource, 0)
    assert checkpoint == expected["checkpoint"]
    for number in range(expected["records"]):
        key = {"user": Datum(DataType.STRING, f"user {number}")}
        record = await broker.tables.get(alice, "people", key)
        assert record is not None
        assert record["city"].value == f"city {number}"


def test_there_is_golden_data_of_a_killed_server_of_the_first_format() -> None:
    assert VERSIONS[:1] == ["killed_v1"]


def test_there_is_golden_data_of_a_killed_server_with_a_journal() -> None:
    data = GOLDEN / "killed_v2_journal"
    journals = [path.read_bytes() for path in data.glob("log/journal/*/*.jnl")]
    segments = [path.read_bytes() for path in data.glob("log/*/1/*.log")]
    last = payload_of("clicks/1", 23)
    assert any(last in journal for journal in journals)
    assert not any(last in segment for segment in segments)


async def test_a_killed_server_of_an_earlier_version_goes_on(data: Path, limits: LogLimits) -> None:
    expected = json.loads((data / "expected.json").read_text())
    now_ms = expected["now_ms"] + MINUTE_MS
    async with opened(data, now_ms, limits) as broker:
        await check_content(broker, expected, more=0)
        root = root_of(broker, expected)
        assert topic_of(broker, root, "views/0")[0].durability is Durability.FLUSHED
        for partition in expected["partitions"]:
            topic, number = topic_of(broker, root, partition)
            await put(broker, topic, number, MessageBlock(b"more", 1))
    async with opened(data, now_ms + MINUTE_MS, limits) as broker:
        await check_content(broker, expected, more=1)
        assert broker.metering is not None
        await broker.metering.run_once()
        await broker.context.log.upkeep.run_pass()
    async with opened(data, now_ms + 2 * MINUTE_MS, limits) as broker:
        await check_content(broker, expected, more=1)


async def test_producers_of_an_earlier_version_repeat_without_a_duplicate(
    data: Path, limits: LogLimits
) -> None:
    expected = json.loads((data / "expected.json").read_text())
    each = expected["messages_per_block"]
    async with opened(data, expected["now_ms"] + MINUTE_MS, limits) as broker:
        root = root_of(broker, expected)
        for partition, producer_id in LAST.items():
            topic, number = topic_of(broker, root, partition)
            end = expected["start_offsets"].get(partition, 0)
            end += len(expected["partitions"][partition]) * each
            last = ProducerStamp(producer_id, 1, end - each)
            block = MessageBlock(b"repeated", each, producer=last)
            assert await put(broker, topic, number, block) == end - each
            following = ProducerStamp(producer_id, 1, end)
            block = MessageBlock(b"following", each, producer=following)
            assert await put(broker, topic, number, block) == end
