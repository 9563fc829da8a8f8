"""A file is taken from a writer that is busy, or paused in another process."""

import asyncio
import signal

import pytest
from tests.e2e.hdfs.conftest import (
    RECORD_BYTES,
    BusyWriter,
    Place,
    assert_records,
)
from tests.waiting import limit_s

from opentalos.model.errors import NotFound, OutcomeUnknown, RecoveryStuck
from opentalos.model.message import Durability

pytestmark = pytest.mark.backend

SYNCED = Durability.SYNCED
ZOMBIES = 3
TURNS = 4


@pytest.mark.parametrize("replication", [1, 3])
@pytest.mark.parametrize("durability", list(Durability))
async def test_taking_over_a_busy_writer_loses_nothing(
    place: Place, replication: int, durability: Durability
) -> None:
    """With one replica it never hangs: with plain hsync three files of four stayed open for good.

    With three, HDFS itself may refuse for good; then the DataNodes have to start again.
    """
    store, other = await place.store(replication=replication), await place.store()
    for turn in range(TURNS):
        path = f"busy/{turn}"
        writer = BusyWriter(await store.create(path, durability=durability))
        await writer.reach(20 + 10 * turn)
        if replication == 1:
            length = await other.recover(path, deadline_s=limit_s())
        else:
            length = await place.recovered(other, path)
        await writer.fails()
        content = await other.read(path, position=0, bytes_max=length + 1)
        assert len(content) == length
        assert_records(content, writer.acked, chunk_lost=path in place.restarted)


async def test_many_files_of_one_writer_are_taken_over_at_once(place: Place) -> None:
    store, other = await place.store(), await place.store()
    paths = [f"many/{number}" for number in range(12)]
    writers = [BusyWriter(await store.create(path, durability=SYNCED)) for path in paths]
    await asyncio.gather(*(writer.reach(5) for writer in writers))
    recoveries = (other.recover(path, deadline_s=limit_s()) for path in paths)
    await asyncio.gather(*recoveries, return_exceptions=True)
    lengths = [await place.recovered(other, path) for path in paths]
    for path, writer, length in zip(paths, writers, lengths, strict=True):
        await writer.fails()
        content = await other.read(path, position=0, bytes_max=length)
        assert_records(content, writer.acked, chunk_lost=path in place.restarted)


@pytest.mark.parametrize("turn", range(ZOMBIES))
async def test_a_zombie_process_acknowledges_nothing_that_the_new_owner_lacks(
    place: Place, turn: int
) -> None:
    other = await place.store()
    path = f"zombie/{turn}"
    async with place.process(path) as zombie:
        await zombie.read(lambda seen: seen.acked >= 50 + turn)
        zombie.child.send_signal(signal.SIGSTOP)
        length = await other.recover(path, deadline_s=limit_s())
        zombie.child.send_signal(signal.SIGCONT)
        await zombie.read(lambda seen: bool(seen.end))
        # A commit that all DataNodes had before may be reported late; no later one succeeds.
        assert zombie.acked * RECORD_BYTES <= length
        assert zombie.end.startswith(("Fenced", "WriterDead"))
        content = await other.read(path, position=0, bytes_max=length + 1)
        assert len(content) == length
        assert_records(content, zombie.acked)


async def test_a_killed_process_leaves_a_file_that_is_taken_over(place: Place) -> None:
    other = await place.store()
    async with place.process("killed") as writer:
        await writer.read(lambda seen: seen.acked >= 30)
        writer.child.kill()
        await writer.read(lambda _: False)
    length = await other.recover("killed", deadline_s=limit_s())
    assert_records(await other.read("killed", position=0, bytes_max=length), writer.acked)


async def test_a_file_whose_only_datanode_is_dead_is_reported_by_name(place: Place) -> None:
    store, other = await place.store(replication=1), await place.store()
    file = await store.create("stuck", durability=SYNCED)
    await file.commit([b"kept"])
    (holder,) = place.pipeline(file)
    async with place.killed(holder):
        with pytest.raises(RecoveryStuck, match=r"/e2e/\w+/stuck"):
            await other.recover("stuck", deadline_s=3.0)
        with pytest.raises(OutcomeUnknown):
            await file.commit([b"lost"])
    assert await other.recover("stuck", deadline_s=limit_s()) >= 4
    assert (await other.read("stuck", position=0, bytes_max=4)) == b"kept"


async def test_a_deleted_file_takes_no_commit(place: Place) -> None:
    store, other = await place.store(), await place.store()
    writer = BusyWriter(await store.create("deleted", durability=Durability.FLUSHED))
    await writer.reach(10)
    try:
        await other.delete("deleted")
    except RecoveryStuck:
        await place.recovered(other, "deleted")
        await other.delete("deleted")
    acked = writer.acked
    await writer.fails()
    assert writer.acked - acked <= 1, "only the commit under way may have been before the fence"
    with pytest.raises(NotFound):
        await other.recover("deleted", deadline_s=limit_s())
