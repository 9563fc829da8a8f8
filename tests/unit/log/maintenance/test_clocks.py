"""Retention and append times of a server whose clock is wrong at the start, or jumps."""

import asyncio
import json
import logging
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.log.bed import Bed, FakeClock, block, open_bed, put, put_block

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.log.maintenance import upkeep
from opentalos.log.maintenance.clock_record import ROOT, clock_path
from opentalos.log.results import TopicLogSettings
from opentalos.model.errors import StoreUnavailable
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability

MINUTE_MS, HOUR_S, DAY_S = 60_000, 3_600.0, 86_400.0
DAY_MS = 86_400_000
WEEK = TopicLogSettings("topic-uuid", Durability.SYNCED, 7 * DAY_S)
LIMITS = LogLimits(
    segment_bytes_max=1_024,
    index_interval_bytes=512,
    space_reserve_bytes=0,
    retention_interval_s=60.0,
)


@pytest.fixture(autouse=True)
def space_is_rarely_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Days pass in these tests; a callback every second would be most of their work."""
    monkeypatch.setattr(upkeep, "SPACE_INTERVAL_S", HOUR_S)


class MovingClock(FakeClock):
    """A wall clock that runs with the loop's, ahead of the true time by what a test says."""

    def __init__(self, ahead_ms: int = 0) -> None:
        super().__init__()
        self.ahead_ms = ahead_ms
        self._origin_ms = self.now_ms

    @property
    def true_ms(self) -> int:
        return self._origin_ms + round(asyncio.get_running_loop().time() * 1_000)

    def wall_ms(self) -> int:
        return self.true_ms + self.ahead_ms


class EnsembleMeta(MemoryMetaStore):
    """A meta store with a clock of its own, as a coordination service has."""

    def __init__(self, storage: MemoryStorage, clock: MovingClock) -> None:
        super().__init__(storage)
        self.clock = clock
        self.down = False

    async def get(self, path: str) -> Any:
        if self.down:
            raise StoreUnavailable("it is down")
        found = await super().get(path)
        return found and replace(found, written_ms=self.clock.wall_ms())


async def start(storage: MemoryStorage, clock: MovingClock, **options: Any) -> Bed:
    bed = await open_bed(storage, limits=LIMITS, clock=clock, **options)
    bed.log()
    bed.store.update_topic(WEEK)
    return bed


async def fill(bed: Bed, count: int = 20) -> None:
    for number in range(count):
        await put(bed.log(), b"%04d" % number * 50)


async def one_run(storage: MemoryStorage, clock: MovingClock, **options: Any) -> None:
    bed = await start(storage, clock, **options)
    await fill(bed)
    await asyncio.sleep(200)  # until the record of the clock is newer
    await bed.store.close()


async def oldest(bed: Bed) -> int:
    return (await bed.log().offsets()).start


async def last_append_ms(bed: Bed) -> int:
    await put(bed.log(), b"x")
    end = (await bed.log().offsets()).next
    result = await bed.log().read(end - 1, messages_max=1, bytes_max=1)
    return result.blocks[0].append_ms


# --- what was shown --------------------------------------------------------------------------


async def test_a_start_eight_days_ahead_drops_nothing() -> None:
    storage = MemoryStorage()
    await one_run(storage, MovingClock())
    clock = MovingClock(8 * DAY_MS)
    bed = await start(storage, clock)
    await asyncio.sleep(1_800)
    assert await oldest(bed) == 0
    clock.ahead_ms = 0  # NTP corrected it
    await asyncio.sleep(6 * DAY_S)
    assert await oldest(bed) == 0
    await asyncio.sleep(2 * DAY_S)
    assert await oldest(bed) == 20
    await bed.store.close()


async def test_a_step_stops_retention_only_until_it_is_confirmed() -> None:
    clock = MovingClock()
    bed = await start(MemoryStorage(), clock)
    await fill(bed)
    clock.ahead_ms = 400_000
    await asyncio.sleep(HOUR_S / 2)
    assert bed.store.time.retention_ms() is None
    await asyncio.sleep(8 * DAY_S)
    assert await oldest(bed) == 20
    await bed.store.close()


async def test_a_put_under_a_far_future_clock_expires() -> None:
    storage, clock = MemoryStorage(), MovingClock(30_000 * DAY_MS)
    await one_run(storage, clock)
    clock.ahead_ms = 0
    bed = await start(storage, clock)
    await asyncio.sleep(7 * DAY_S)
    assert await oldest(bed) == 0
    await asyncio.sleep(2 * DAY_S)
    assert await oldest(bed) == 20
    await fill(bed)  # their append times are in the future, too: times never decrease
    await asyncio.sleep(6 * DAY_S)
    assert await oldest(bed) == 20
    await asyncio.sleep(2 * DAY_S)
    assert await oldest(bed) == 40
    await bed.store.close()


# --- one server ------------------------------------------------------------------------------


async def test_a_long_stop_keeps_nothing_for_ever() -> None:
    storage = MemoryStorage()
    await one_run(storage, MovingClock())
    await asyncio.sleep(8 * DAY_S)
    clock = MovingClock()
    bed = await start(storage, clock)
    assert await last_append_ms(bed) == clock.true_ms  # puts are stamped as the clock says
    await asyncio.sleep(HOUR_S / 2)
    assert await oldest(bed) == 0
    await asyncio.sleep(HOUR_S)
    assert await oldest(bed) > 0
    await bed.store.close()


async def test_short_runs_together_confirm_a_clock() -> None:
    storage = MemoryStorage()
    await one_run(storage, MovingClock())
    for _ in range(3):
        await asyncio.sleep(8 * DAY_S)
        bed = await start(storage, MovingClock())
        await asyncio.sleep(1_500)
        dropped = await oldest(bed) > 0
        await bed.store.close()
    assert dropped


async def test_an_implausible_clock_stamps_nothing_and_no_message_is_lost_by_it() -> None:
    storage = MemoryStorage()
    await one_run(storage, MovingClock())
    clock = MovingClock(60 * DAY_MS)  # either the server stood still, or the clock is wrong
    bed = await start(storage, clock)
    assert abs(await last_append_ms(bed) - clock.true_ms) <= MINUTE_MS
    await asyncio.sleep(2 * HOUR_S)
    assert await oldest(bed) == 20  # confirmed: the former run's messages are old
    assert await last_append_ms(bed) == clock.wall_ms()
    await asyncio.sleep(6 * DAY_S)
    assert await oldest(bed) == 20  # the one stored in doubt counts from the confirmation
    await asyncio.sleep(2 * DAY_S)
    assert await oldest(bed) == 22
    await bed.store.close()


async def test_a_clock_that_went_back_stamps_no_message_early() -> None:
    storage = MemoryStorage()
    await one_run(storage, MovingClock())
    clock = MovingClock(-3_000 * DAY_MS)
    bed = await start(storage, clock)
    assert abs(await last_append_ms(bed) - clock.true_ms) <= MINUTE_MS
    await asyncio.sleep(HOUR_S)
    clock.ahead_ms = 0
    assert bed.store.time.retention_ms() == clock.true_ms
    await asyncio.sleep(DAY_S)
    assert await oldest(bed) == 0
    await bed.store.close()


async def test_retention_by_size_needs_no_clock() -> None:
    storage = MemoryStorage()
    await one_run(storage, MovingClock())
    bed = await start(storage, MovingClock(8 * DAY_MS))
    bed.store.update_topic(replace(WEEK, retention_bytes=1_024))
    await bed.log().offsets()
    await asyncio.sleep(300)
    assert bed.store.time.retention_ms() is None
    assert await oldest(bed) > 0
    await bed.store.close()


async def test_a_data_directory_without_a_known_time_waits_for_a_steady_clock() -> None:
    storage = MemoryStorage()
    await one_run(storage, MovingClock())
    del storage.records[clock_path("s1")]
    bed = await start(storage, MovingClock(8 * DAY_MS))
    await asyncio.sleep(HOUR_S / 2)
    assert "no earlier time" in bed.store.figures.clock_doubt
    assert await oldest(bed) == 0
    await asyncio.sleep(HOUR_S)
    assert await oldest(bed) == 20
    await bed.store.close()


@pytest.mark.parametrize("damage", ["nothing known", "flipped bit"])
async def test_an_unreadable_record_counts_as_none(damage: str) -> None:
    storage = MemoryStorage()
    await one_run(storage, MovingClock())
    stored = storage.records[clock_path("s1")]
    value = bytearray(stored.record.value)
    value[value.index(b":") + 1] ^= 2  # the first digit of the known time: years later
    json.loads(value)
    damaged = b"{}" if damage == "nothing known" else bytes(value)
    stored.record = replace(stored.record, value=damaged)
    clock = MovingClock()
    bed = await start(storage, clock)
    assert bed.store.time.retention_ms() is None
    assert bed.store.time.append_ms() <= clock.wall_ms() + DAY_MS
    await bed.store.close()


async def test_the_doubt_is_reported_once_and_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    clock = MovingClock()
    bed = await start(MemoryStorage(), clock)
    assert bed.store.figures.clock_doubt == ""
    clock.ahead_ms = 8 * DAY_MS
    await asyncio.sleep(300)
    figures = bed.store.figures
    assert figures.clock_disagreement_s == pytest.approx(8 * DAY_S, abs=10)
    assert "8.0 d ahead of the time this server saw last" in figures.clock_doubt
    clock.ahead_ms = 0
    await asyncio.sleep(60)
    assert bed.store.figures.clock_doubt == ""
    texts = [record.getMessage() for record in caplog.records]
    assert sum("nothing is deleted by age" in text for text in texts) == 1
    assert sum("trusted again" in text for text in texts) == 1
    await bed.store.close()


# --- a cluster, whose coordination service has a clock -------------------------------------------


async def clustered(storage: MemoryStorage, clock: MovingClock) -> tuple[Bed, EnsembleMeta]:
    meta = EnsembleMeta(storage, MovingClock())
    return await start(storage, clock, meta=meta), meta


async def test_a_cluster_believes_no_server_that_disagrees_with_its_clock() -> None:
    storage, clock = MemoryStorage(), MovingClock(8 * DAY_MS)
    bed, _ = await clustered(storage, clock)
    await fill(bed)
    assert abs(await last_append_ms(bed) - clock.true_ms) <= 1_000
    await asyncio.sleep(2 * DAY_S)
    assert await oldest(bed) == 0
    assert "the cluster's clock" in bed.store.figures.clock_doubt
    clock.ahead_ms = 0
    await asyncio.sleep(60)
    assert bed.store.figures.clock_doubt == ""
    await asyncio.sleep(6 * DAY_S)
    assert await oldest(bed) == 21
    await bed.store.close()


async def test_a_server_that_agrees_with_the_cluster_needs_no_proof() -> None:
    storage = MemoryStorage()
    bed, _ = await clustered(storage, MovingClock())
    await fill(bed)
    await bed.store.close()
    await asyncio.sleep(8 * DAY_S)
    again, _ = await clustered(storage, MovingClock())
    await asyncio.sleep(150)
    assert await oldest(again) == 20
    await again.store.close()


async def test_a_jump_of_the_cluster_s_clock_alone_stamps_and_deletes_nothing() -> None:
    clock = MovingClock()
    bed, meta = await clustered(MemoryStorage(), clock)
    await fill(bed)
    meta.clock.ahead_ms = 8 * DAY_MS
    await asyncio.sleep(HOUR_S / 2)
    assert "coordination service jumped" in bed.store.figures.clock_doubt
    assert abs(await last_append_ms(bed) - clock.true_ms) <= 1_000
    meta.clock.ahead_ms = 0
    await asyncio.sleep(120)
    assert bed.store.figures.clock_doubt == ""
    assert await oldest(bed) == 0
    await bed.store.close()


async def test_an_outage_of_the_coordination_changes_no_trust() -> None:
    clock = MovingClock()
    bed, meta = await clustered(MemoryStorage(), clock)
    await put(bed.log(), b"x")
    meta.down = True
    await asyncio.sleep(2 * HOUR_S)
    assert bed.store.time.retention_ms() == clock.true_ms
    meta.down = False
    await bed.store.close()


async def test_one_record_for_each_server_is_kept() -> None:
    storage = MemoryStorage()
    bed, meta = await clustered(storage, MovingClock())
    await asyncio.sleep(600)
    assert list(await meta.children(ROOT)) == ["s1"]
    await put_block(bed.log(), block(b"x"))
    await bed.store.close()
