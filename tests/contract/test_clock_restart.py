"""A server on SQLite that restarts with a wrong clock: what it saw last survives in the file."""

import asyncio
import time
from pathlib import Path

from tests.unit.log.bed import FakeClock, put

from opentalos.adapters.memory import MemoryFileStore, MemoryStorage
from opentalos.adapters.sqlite import open_sqlite_meta_store
from opentalos.log.log_store import LogStore
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
    clock_confirm_s=0.5,
)
PATIENCE_S = 60.0


class ShiftedClock(FakeClock):
    """The machine's clock, ahead by what a test says."""

    def __init__(self, ahead_ms: int) -> None:
        super().__init__()
        self.ahead_ms = ahead_ms

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms


async def dropped(files: MemoryStorage, path: Path, ahead_ms: int, run_s: float) -> bool:
    """Whether a run of ``run_s`` under that clock dropped what the first run stored."""
    meta = await open_sqlite_meta_store(path)
    store = LogStore(
        files=MemoryFileStore(files),
        meta=meta,
        clock=ShiftedClock(ahead_ms),
        server="s1",
        limits=LIMITS,
    )
    await store.start()
    try:
        log = store.partition(WEEK, 0)
        if (await log.offsets()).next == 0:
            for number in range(20):
                await put(log, b"%04d" % number * 50)
        end_s = asyncio.get_running_loop().time() + run_s
        while asyncio.get_running_loop().time() < end_s:
            if (await log.offsets()).start > 0:
                return True
            await asyncio.sleep(0.02)
        return False
    finally:
        await store.close()
        await meta.close()


async def test_a_restart_with_a_wrong_clock_deletes_nothing_until_it_proved_right(
    tmp_path: Path,
) -> None:
    files, path = MemoryStorage(), tmp_path / "meta.sqlite"
    assert not await dropped(files, path, 0, 0.1)
    assert not await dropped(files, path, 8 * DAY_MS, 0.2)  # wrong at boot
    assert not await dropped(files, path, 0, 0.1)  # corrected
    assert await dropped(files, path, 8 * DAY_MS, PATIENCE_S)  # it had really stopped for so long
