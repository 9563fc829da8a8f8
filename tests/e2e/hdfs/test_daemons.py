"""DataNodes die and hang under a writer; the NameNode restarts."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from tests.e2e.hdfs.conftest import RECORD_BYTES, RECOVER_S, BusyWriter, Place, assert_records

from opentalos.adapters.hdfs import HdfsFileStore
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, Unavailable
from opentalos.model.message import Durability

pytestmark = [pytest.mark.backend, pytest.mark.timeout(240)]

SYNCED = Durability.SYNCED
REFUSED_S = 5.0  # a NameNode that is down is noticed within
IDLE_S = 18.0  # a DataNode waits 15 s for a word of its writer
NEW_FILE_S = 60.0  # a DataNode that hangs is no longer used after 14 s without a heartbeat


async def test_a_killed_datanode_does_not_stop_a_writer(place: Place) -> None:
    store = await place.store()
    writer = await place.writer(store, "killed")
    async with place.killed(place.pipeline(writer.file)[1]):
        await writer.reach(writer.acked + 50)
        assert len(place.pipeline(writer.file)) == 2
    await writer.reach(writer.acked + 10)
    await writer.stop()
    assert await writer.file.close() == RECORD_BYTES * writer.acked


async def test_an_idle_writer_keeps_its_pipeline(place: Place) -> None:
    store = await place.store()
    files = [await store.create(f"idle/{number}", durability=SYNCED) for number in range(20)]
    for file in files:
        await file.commit([b"before"])
    nodes = [sorted(place.pipeline(file)) for file in files]
    await asyncio.sleep(IDLE_S)
    for file in files:
        await file.commit([b"after"])
    assert [sorted(place.pipeline(file)) for file in files] == nodes
    for file in files:
        assert await file.close() == 11


async def test_too_few_datanodes_acknowledge_nothing_until_they_are_back(place: Place) -> None:
    store = await place.store(replicas_min=3)
    writer = BusyWriter(await store.create("short", durability=SYNCED))
    await writer.reach(20)
    async with place.killed("dn2"):
        error = await writer.fails()
        assert "replicas_min is 3" in str(error)
        length = await store.recover("short", deadline_s=RECOVER_S)
        assert_records(await store.read("short", position=0, bytes_max=length), writer.acked)
        again = await store.create("short-again", durability=SYNCED)
        with pytest.raises(OutcomeUnknown):
            await again.commit([b"refused"])
    await write_somewhere(store, "back", until_s=time.monotonic() + RECOVER_S)


@pytest.mark.parametrize("place_in_pipeline", [0, 2])
async def test_a_paused_datanode_ends_the_file_and_not_the_service(
    place: Place, place_in_pipeline: int
) -> None:
    store, other = await place.store(), await place.store()
    writer = await place.writer(store, "hangs")
    async with place.paused(place.pipeline(writer.file)[place_in_pipeline]):
        began_s = time.monotonic()
        error = await writer.fails()
        assert "did not answer" in str(error)
        assert time.monotonic() - began_s < place.limits().commit_timeout_s + RECOVER_S
        length = await other.recover("hangs", deadline_s=NEW_FILE_S)
        assert_records(await other.read("hangs", position=0, bytes_max=length), writer.acked)
        await write_somewhere(store, f"after-{place_in_pipeline}", until_s=began_s + NEW_FILE_S)


async def write_somewhere(store: HdfsFileStore, name: str, *, until_s: float) -> None:
    """Try new files until a commit succeeds, as a log does."""
    for attempt in range(100):
        file = await store.create(f"{name}/{attempt}", durability=SYNCED)
        try:
            await file.commit([b"served"])
        except (OutcomeUnknown, Unavailable):
            assert time.monotonic() < until_s, "HDFS serves no new file"
        else:
            return


async def test_commits_continue_while_the_namenode_restarts(place: Place) -> None:
    store = await place.store()
    writer = BusyWriter(await store.create("open", durability=SYNCED))
    await writer.reach(20)
    async with place.killed("nn"):
        await writer.reach(writer.acked + 50)
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: store.list(""),
            lambda: store.create("new", durability=SYNCED),
            lambda: store.recover("open", deadline_s=RECOVER_S),
        ]
        for call in calls:
            began_s = time.monotonic()
            with pytest.raises(StoreUnavailable):
                await call()
            assert time.monotonic() - began_s < REFUSED_S
    await writer.reach(writer.acked + 50)
    await writer.stop()
    assert await writer.file.close() == RECORD_BYTES * writer.acked
    new = await store.create("new", durability=SYNCED)
    assert await new.commit([b"done"]) == 4


async def test_a_hanging_namenode_stops_neither_commits_nor_the_close(place: Place) -> None:
    store = await place.store(call_timeout_s=2.0)
    writer = BusyWriter(await store.create("open", durability=SYNCED))
    await writer.reach(20)
    async with place.paused("nn"):
        await writer.reach(writer.acked + 50)
        with pytest.raises(StoreUnavailable, match="did not answer"):
            await store.list("")
        with pytest.raises(OutcomeUnknown):
            await store.create("unknown", durability=SYNCED)
        await writer.stop()
        async with asyncio.timeout(8):
            await store.close()
