"""What leaves a server dies with its last reference: full garbage collections are rare."""

import asyncio
import gc
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.unit.log.bed import LIMITS, TOPIC, Bed, open_bed, payloads, put

from opentalos.adapters.local.file_store import LocalFileStore
from opentalos.log.partition.jobs import seal
from opentalos.model.errors import Fenced, NotOwner
from opentalos.model.message import Durability, PartitionKey

PARTITIONS = 6


@pytest.fixture
def _kept() -> Iterator[None]:
    """No collection but the test's, which keeps what it finds."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def cyclic_garbage() -> set[str]:
    """Names of our classes whose objects only a collection finds."""
    gc.collect()
    kinds = {type(found) for found in gc.garbage}
    return {kind.__name__ for kind in kinds if kind.__module__.startswith("opentalos")}


async def used(bed: Bed) -> None:
    for at in range(PARTITIONS):
        await put(bed.log(at), b"a")
        await put(bed.log(at), b"b")
        await payloads(bed.log(at), 0)


@pytest.mark.parametrize("journal", ["on", "off"])
@pytest.mark.usefixtures("_kept")
async def test_partitions_that_are_closed_or_deleted_leave_no_cycles(journal: str) -> None:
    bed = await open_bed(limits=replace(LIMITS, journal=journal))
    await used(bed)
    for at in range(PARTITIONS):
        writer = bed.log(at).writer
        await writer.run(partial(seal, writer))
    await used(bed)
    error = NotOwner("moved")
    await bed.store.hand_off(PartitionKey(TOPIC.topic_uuid, 0), error)
    bed.store.drop(PartitionKey(TOPIC.topic_uuid, 1), error)
    await asyncio.sleep(1)
    await bed.store.upkeep.run_pass()
    await bed.store.delete_topic(TOPIC.topic_uuid, PARTITIONS)
    await asyncio.sleep(20)
    await bed.store.upkeep.run_pass()
    del writer
    assert cyclic_garbage() == set()
    await bed.store.close()


@pytest.mark.usefixtures("_kept")
def test_a_file_that_failed_leaves_no_cycle(tmp_path: Path) -> None:
    async def fail() -> None:
        files = LocalFileStore(tmp_path)
        file = await files.create("t/0/a.log", durability=Durability.SYNCED)
        await file.commit([b"a"])
        await files.recover("t/0/a.log", deadline_s=1.0)
        with pytest.raises(Fenced):
            await file.commit([b"b"])
        del file
        await files.close()

    asyncio.run(fail())
    assert "LocalAppendFile" not in cyclic_garbage()
