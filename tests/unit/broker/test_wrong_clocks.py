"""What a wall clock that is wrong by days must not decide."""

import pytest
from tests.unit.broker.support import World, world
from tests.unit.broker.tables.support import ALICE, integer, make, put, remove

from opentalos.broker.tables.row_tables import rows_of
from opentalos.broker.values import AttributeChange
from opentalos.model.limits import LogLimits
from opentalos.model.settings.tables import SdsLimits
from opentalos.sds.cell_format import decode_row

DAY_MS = 86_400_000
SDS = SdsLimits(tombstone_s=86_400.0, sweep_pause_s=100.0)


async def sweep(w: World) -> int:
    """Whole passes over what there is, a while later; rows removed so far."""
    w.time.advance(1_000.0)
    w.clock.now_ms += 1_000_000
    for _ in range(20):
        await w.broker.table_upkeep.sweep.run_once()
    return w.broker.table_upkeep.sweep.removed


async def test_a_clock_that_is_ahead_removes_no_row() -> None:
    async with world(log=LogLimits(), sds=SDS) as w:
        await make(w.broker)
        await w.broker.tables.write(ALICE, "people", put("u", 1, count=integer(1)))
        await w.broker.tables.write(ALICE, "people", remove("u", 1))
        w.clock.now_ms += 8 * DAY_MS
        assert await sweep(w) == 0
        w.clock.now_ms -= 8 * DAY_MS
        for _ in range(100):  # two days pass by both clocks
            w.time.advance(1_800.0)
            w.clock.now_ms += 1_800_000
            await w.broker.table_upkeep.sweep.run_once()
        assert w.broker.table_upkeep.sweep.removed == 1


async def test_a_clock_that_is_ahead_ends_no_partition() -> None:
    async with world(log=LogLimits()) as w:
        topic = await w.topic(ALICE, "t", partitions=2)
        await w.put(ALICE, topic, 1, 3)
        await w.broker.topics.change_attribute(ALICE, topic.resource, AttributeChange(partitions=1))
        w.clock.now_ms += 400 * DAY_MS
        await w.broker.topic_upkeep.run_once()
        assert w.broker.topics.find_topic(ALICE, "t").shrinking


@pytest.mark.parametrize("ahead_ms", [-8 * DAY_MS, 8 * DAY_MS])
async def test_rows_of_a_cluster_are_stamped_by_its_clock(ahead_ms: int) -> None:
    async with world(log=LogLimits()) as w:
        true_ms = w.clock.now_ms
        w.storage.wall_ms = lambda: true_ms
        await w.restart()
        table = await make(w.broker)
        w.clock.now_ms += ahead_ms
        await w.broker.tables.write(ALICE, "people", put("u", 1, count=integer(1)))
        (row,) = await w.broker.table_upkeep.access.rows.scan(rows_of(table), b"", b"", limit=9)
        assert abs(decode_row(row.cells).timestamp_ms - true_ms) < 60_000
