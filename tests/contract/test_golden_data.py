"""This version opens, reads and writes data directories of earlier versions."""

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
from opentalos.log.maintenance.verify import LogVerifier
from opentalos.model.errors import TalosError
from opentalos.model.limits import LogLimits
from opentalos.model.message import MessageBlock, ProducerStamp
from opentalos.server.data_directory import DataDirectory

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = sorted(path.name for path in GOLDEN.glob("data_v*"))
KILLED = sorted(path.name for path in GOLDEN.glob("killed_v*"))  # see test_golden_killed
LIMITS = LogLimits(space_reserve_bytes=0)


@pytest.fixture(params=["off", "on"], ids=["files", "journal"])
def limits(request: pytest.FixtureRequest) -> LogLimits:
    """With a shared journal and without: both open what either left."""
    return replace(LIMITS, journal=request.param)


@pytest.fixture(params=VERSIONS)
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy: opening recovers, so it writes."""
    return Path(shutil.copytree(GOLDEN / request.param, tmp_path / "data"))


@asynccontextmanager
async def opened(data: Path, limits: LogLimits) -> AsyncIterator[Broker]:
    directory = DataDirectory(data, SystemClock())
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
    )
    broker = open_broker(files=files, meta=meta, rows=rows, clock=SystemClock(), config=config)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.close()
        await files.close()
        await meta.close()
        await rows.close()
        directory.close()


async def check_content(broker: Broker, expected: dict[str, Any]) -> None:
    key_id, secret = expected["root_key"]
    key = broker.principals.key(key_id)
    assert key is not None
    assert key.secret == secret.encode()
    root = key.principal
    topic = broker.topics.find_topic(root, f"{expected['owner']}/{expected['topic']}")
    resource = topic.resource
    for partition, blocks in expected["partitions"].items():
        offset, found = 0, []
        while offset < blocks[-1]["base_offset"] + blocks[-1]["messages"]:
            query = GetQuery(resource, int(partition), offset, 10_000, 1 << 20)
            result = await broker.messages.get(root, query)
            for block in result.blocks:
                fields = block._asdict()
                payload, extras = bytes(block.payload).hex(), block.extras.hex()
                found.append({**fields, "payload": payload, "extras": extras})
            offset = result.blocks[-1].next_offset
        assert found == blocks
        bounds = await broker.messages.offsets(root, resource, int(partition))
        assert bounds == (0, offset)
        middle = blocks[len(blocks) // 2]
        at = await broker.messages.offset_at(root, resource, int(partition), middle["append_ms"])
        assert at == middle["base_offset"]
    empty = await broker.messages.offsets(root, resource, topic.partitions - 1)
    assert empty == (0, 0)


def test_there_is_golden_data_of_the_first_format() -> None:
    assert VERSIONS[:1] == ["data_v1"]


@pytest.mark.parametrize("data", [*VERSIONS, *KILLED], indirect=True)
async def test_golden_data_has_no_problem(data: Path) -> None:
    files = await open_local_file_store(data / "log")
    meta = await open_sqlite_meta_store(data / "meta.sqlite")
    verifier = LogVerifier(files, meta)
    findings = [
        finding
        for key in await verifier.partitions()
        async for finding in verifier.check(key, lambda: None)
    ]
    assert not [finding for finding in findings if finding.problem]
    await files.close()
    await meta.close()


async def test_golden_data_opens_reads_and_accepts_writes(data: Path, limits: LogLimits) -> None:
    expected = json.loads((data / "expected.json").read_text())
    async with opened(data, limits) as broker:
        await check_content(broker, expected)
        root = broker.principals.key(expected["root_key"][0])
        assert root is not None
        topic = broker.topics.find_topic(root.principal, "alice/clicks")
        infos = broker.principals.list_principals(root.principal)
        alice = next(info.principal for info in infos if info.principal.id == "alice")
        checkpoint = await broker.consumers.query_offset(alice, "readers", topic.resource, 0)
        assert checkpoint == 7
        last = expected["partitions"]["1"][-1]
        answers: list[tuple[int, TalosError | None]] = []
        stamp = ProducerStamp(77, 1, last["base_offset"])
        again = MessageBlock(bytes.fromhex(last["payload"]), last["messages"], producer=stamp)
        log = broker.context.partition_log(topic, 1)
        log.append(again, lambda base, error: answers.append((base, error)))
        await log.stats()
        await log.read(0, messages_max=1, bytes_max=1)
        await broker.context.log.close()
        assert answers == [(last["base_offset"], None)]
    async with opened(data, limits) as broker:
        await check_content(broker, expected)
