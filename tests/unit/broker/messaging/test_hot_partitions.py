"""Topics most of whose messages one partition takes are logged once per window and counted."""

import logging

import pytest
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE

from opentalos.broker.messaging.hot_partitions import BLOCKS_MIN, WINDOW_MS
from opentalos.broker.values import Topic

BEGIN_MS = 1_700_000_000_000


async def put(made: World, topic: Topic, blocks: dict[int, int]) -> None:
    """So many blocks of ten messages to each partition."""
    for partition, count in blocks.items():
        for _ in range(count):
            await made.put(ALICE, topic, partition, 10)


async def test_a_hot_partition_is_logged_once_per_window(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as made:
        topic, hot = await made.topic(ALICE, partitions=4), made.broker.hot_partitions
        await put(made, topic, {0: 5})
        hot.check(BEGIN_MS)
        await put(made, topic, {2: BLOCKS_MIN, 1: 10})
        hot.check(BEGIN_MS + WINDOW_MS - 1)
        assert (hot.count, caplog.records) == (0, [])
        hot.check(BEGIN_MS + WINDOW_MS)
        (record,) = (each for each in caplog.records if each.levelno == logging.WARNING)
        assert f"partition 2 of topic alice/{topic.name} got 90% of the 1100" in record.getMessage()
        assert hot.count == 1
        hot.check(BEGIN_MS + 2 * WINDOW_MS)
        assert hot.count == 0
        assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("partitions", "blocks"),
    [(4, dict.fromkeys(range(4), 30)), (3, {0: BLOCKS_MIN}), (4, {0: BLOCKS_MIN - 1})],
    ids=["even", "few partitions", "few blocks"],
)
async def test_other_topics_are_not(
    partitions: int, blocks: dict[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as made:
        topic, hot = await made.topic(ALICE, partitions=partitions), made.broker.hot_partitions
        hot.check(BEGIN_MS)
        await put(made, topic, blocks)
        hot.check(BEGIN_MS + WINDOW_MS)
        assert (hot.count, caplog.records) == (0, [])
