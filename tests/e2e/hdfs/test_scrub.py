"""A replica of a sealed segment rots: the scrub reads past it, and HDFS replaces it."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from tests.e2e.hdfs.conftest import Place
from tests.waiting import eventually_async

from opentalos.adapters.hdfs import HdfsFileStore
from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.adapters.system_clock import SystemClock
from opentalos.log.log_store import LogStore
from opentalos.log.results import TopicLogSettings
from opentalos.model.errors import TalosError
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability, MessageBlock

pytestmark = pytest.mark.backend

TOPIC = TopicLogSettings("scrubbed", Durability.SYNCED, 86_400.0)
LIMITS = LogLimits(space_reserve_bytes=0, scrub_bytes_per_s=64 << 20, scrub_interval_s=3_600.0)
PAYLOAD = b"a message whose replica rots on one disk of three\n" * 400


async def open_log(place: Place, meta: MemoryMetaStore) -> tuple[LogStore, HdfsFileStore]:
    # Two replicas on three DataNodes, so that there is room for another one.
    files = await place.store(replication=2)
    store = LogStore(files=files, meta=meta, clock=SystemClock(), server="s1", limits=LIMITS)
    await store.start()
    return store, files


async def put(store: LogStore, count: int) -> None:
    log = store.partition(TOPIC, 0)
    for _ in range(count):
        stored: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def waiter(base: int, error: TalosError | None, to: asyncio.Future[int] = stored) -> None:
            to.set_result(base) if error is None else to.set_exception(error)

        log.append(MessageBlock(PAYLOAD, 1), waiter)
        await stored


def replicas(place: Place, block: str) -> dict[str, Path]:
    """Where DataNodes have the finalized block, by the names of their daemons."""
    return {
        name: path
        for name in place.hdfs.names()[1:]
        for path in place.hdfs.data_dir(name).rglob(block)
        if "finalized" in path.parts
    }


def contents(place: Place, block: str) -> list[bytes]:
    """What DataNodes have of the block."""
    found = []
    for path in replicas(place, block).values():
        with contextlib.suppress(FileNotFoundError):  # its DataNode deletes it just now
            found.append(path.read_bytes())
    return found


def chosen_replica(place: Place, files: HdfsFileStore) -> tuple[str, str]:
    """Of the only segment that is being read: its block, and the DataNode that is asked first.

    The client reads it from there until that fails.
    """
    (reader,) = files._readers.values()
    (block,) = reader.stream.getAllBlocks()
    names = {str(port): name for name, port in place.hdfs.ports.items()}
    node = str(block.getLocations()[0].getXferAddr()).rpartition(":")[2]
    return str(block.getBlock().getBlockName()), names[node]


async def test_the_scrub_reads_past_a_rotten_replica_and_hdfs_replaces_it(place: Place) -> None:
    meta = MemoryMetaStore(MemoryStorage())
    first, _ = await open_log(place, meta)
    await put(first, 5)
    await first.close()

    store, files = await open_log(place, meta)
    await store.partition(TOPIC, 0).offsets()
    await store.scrub.run_pass()
    assert store.counters.scrubbed_segments == 1
    block, node = chosen_replica(place, files)

    async def both() -> dict[str, Path] | None:
        found = await asyncio.to_thread(replicas, place, block)
        return found if len(found) == 2 else None

    # HDFS adds the second one if a DataNode failed the writer.
    found = await eventually_async("two DataNodes have the block", both)
    assert found is not None
    sound = found[node].read_bytes()
    assert PAYLOAD in sound
    rotten = bytearray(sound)
    rotten[len(rotten) // 2] ^= 1
    found[node].write_bytes(rotten)

    async def is_replaced() -> bool:
        await store.scrub.run_pass()
        return await asyncio.to_thread(contents, place, block) == [sound, sound]

    await eventually_async(
        "HDFS replaces the rotten replica",
        is_replaced,
        state=lambda: [each == sound for each in contents(place, block)],
    )
    assert store.counters.corrupt == 0
    assert store.figures.damaged_segments == 0
    await store.close()
