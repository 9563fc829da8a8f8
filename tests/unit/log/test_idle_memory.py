"""What a partition without traffic takes in memory."""

import asyncio
import dataclasses
import gc
import tracemalloc
from pathlib import Path

from tests.unit.log.bed import TOPIC, Bed, open_bed, put, until

from opentalos import log
from opentalos.adapters.memory import MemoryStorage
from opentalos.model.limits import LogLimits

PARTITIONS, BYTES_MAX = 400, 3_072
LIMITS = LogLimits(
    space_reserve_bytes=0, idle_seal_s=0.0, retention_interval_s=1e6, tail_cache_bytes_max=0
)


async def sealed(bed: Bed) -> None:
    while bed.store.figures.open_partitions:
        await bed.store.upkeep.run_pass()
        await until(lambda: not bed.store.upkeep.making_room())


async def test_a_partition_that_had_traffic_and_is_idle_takes_at_most_3_kib() -> None:
    """Without its files, which memory stores keep in the same process."""
    storage = MemoryStorage()
    bed = await open_bed(storage, limits=LIMITS)
    await put(bed.log(PARTITIONS), b"x")
    await sealed(bed)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.take_snapshot()
        for partition in range(PARTITIONS):
            await put(bed.log(partition), b"x" * 100)
        await sealed(bed)
        storage.files.clear()
        storage.records.clear()
        await asyncio.sleep(1.0)  # tasks end
        gc.collect()
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    # Not what the test itself keeps, as records of the log and tasks of its loop.
    of_the_log = [
        tracemalloc.Filter(inclusive=True, filename_pattern=pattern)
        for pattern in (f"{Path(log.__file__).parent}/*", "<string>", dataclasses.__file__)
    ]
    before, after = before.filter_traces(of_the_log), after.filter_traces(of_the_log)
    grown = sum(statistic.size_diff for statistic in after.compare_to(before, "filename"))
    assert bed.store.figures.partitions == PARTITIONS + 1
    assert grown / PARTITIONS <= BYTES_MAX
    assert TOPIC.minute_ms == 0  # a meter adds some 300 bytes
