"""A server on SQLite that restarts with a wrong clock: what it saw last survives in the file."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.unit.log.bed import FakeClock, put
from tests.waiting import eventually_async, stays_async

from opentalos.adapters.memory import MemoryFileStore, MemoryStorage
from opentalos.adapters.sqlite import open_sqlite_meta_store
from opentalos.log.log_store import LogStore
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.results import TopicLogSettings
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability

DAY_MS = 86_400_000
WEEK = TopicLogSettings("topic-uuid", Durability.SYNCED, 7 * 86_400.0)
LIMITS = LogLimits(
    segment_bytes_max=1_024,
    index_interval_bytes=512,
    space_reserve_bytes=0,
    retention_interval_s=0.02,
    clock_disagree_max_s=5.0,
)
CONFIRM_S = 0.5  # of the last run; the others must not come to an end of their doubt


class ShiftedClock(FakeClock):
    """The machine's clock, ahead by what a test says."""

    def __init__(self, ahead_ms: int) -> None:
        super().__init__()
        self.ahead_ms = ahead_ms

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms


@asynccontextmanager
async def running(
    files: MemoryStorage, path: Path, ahead_ms: int, limits: LogLimits = LIMITS
) -> AsyncIterator[PartitionLog]:
    """A run under that clock; the first one stores messages."""
    meta = await open_sqlite_meta_store(path)
    store = LogStore(
        files=MemoryFileStore(files),
        meta=meta,
        clock=ShiftedClock(ahead_ms),
        server="s1",
        limits=limits,
    )
    await store.start()
    try:
        log = store.partition(WEEK, 0)
        if (await log.offsets()).next == 0:
            for number in range(20):
                await put(log, b"%04d" % number * 50)
        yield log
    finally:
        await store.close()
        await meta.close()


def retains_all(log: PartitionLog) -> bool:
    return log.range().start == 0


async def test_a_restart_with_a_wrong_clock_deletes_nothing_until_it_proved_right(
    tmp_path: Path,
) -> None:
    files, path = MemoryStorage(), tmp_path / "meta.sqlite"
    right, wrong_at_boot, corrected = 0, 8 * DAY_MS, 0
    for ahead_ms in (right, wrong_at_boot, corrected):
        async with running(files, path, ahead_ms) as log:
            await stays_async("every message is retained", partial(retains_all, log))
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    limits = replace(LIMITS, clock_confirm_s=CONFIRM_S)
    async with running(files, path, 8 * DAY_MS, limits) as log:  # it had really stopped for so long
        await eventually_async("old messages are deleted", lambda: not retains_all(log))
    assert loop.time() - began_s >= CONFIRM_S  # the claim is about time
