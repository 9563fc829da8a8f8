"""Repair of many partitions, as the command line asks for it."""

import asyncio
from copy import deepcopy

from tests.unit.log.bed import TOPIC, crash, log_records, open_bed, payloads, put
from tests.unit.log.manifest.test_leftovers import PLAIN

from opentalos.broker.admin.stored.log_repair import repair_log
from opentalos.log.partition.jobs import roll
from opentalos.log.partition.partition_log import PartitionLog


async def rolled(log: PartitionLog) -> None:
    writer = log.writer
    assert writer.segment is not None
    path = writer.segment.view.path
    writer.last_put_s = asyncio.get_running_loop().time()
    await writer.run(lambda: roll(writer, path))


async def test_a_partition_that_cannot_be_repaired_stops_no_other() -> None:
    bed = await open_bed(limits=PLAIN)
    logs = [bed.store.partition(TOPIC, number) for number in (0, 1)]
    for log in logs:
        await put(log, b"0")
    older = {path: deepcopy(bed.storage.records[path]) for path in log_records(bed.storage)}
    for log in logs:
        for payload in (b"1", b"2", b"3"):
            await rolled(log)
            await put(log, payload)
    await crash(bed)
    bed.storage.records.update(older)
    for path in [path for path in bed.storage.files if f"/0/{1:020d}-" in path]:
        del bed.storage.files[path]
    bed = await open_bed(bed.storage, limits=PLAIN)
    refused, done = await repair_log(bed.files, bed.meta, "", 0, accept_loss=False, store=True)
    assert "partition 0: the files have offsets 2 to 3, but" in refused.refusal
    assert (done.name, done.end, done.refusal) == (f"{TOPIC.topic_uuid}/1", 4, "")
    assert await payloads(bed.store.partition(TOPIC, 1)) == [b"0", b"1", b"2", b"3"]
    await bed.store.close()
