"""Fetches of a partition that arrives at a server: no error for as long as it may be opening."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.broker.cluster.cluster_bed import ClusterBed, Server, in_cluster
from tests.unit.catalog.support import ALICE

from opentalos.broker.messaging.reading.fetches import (
    OPENING_MAX_S,
    FetchBounds,
    FetchedPlace,
    FetchPlace,
)
from opentalos.broker.values import Topic
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.model.errors import LeaderEpochUnknown, NotOwner, PartitionNotServing
from opentalos.model.message import MessageBlock, PayloadFormat
from opentalos.wire.message.kafka_format import encode_kafka_batch
from opentalos.wire.message.message import Message

BATCH = MessageBlock(
    bytes(encode_kafka_batch([Message(b"message", create_ms=1)])), 1, format=PayloadFormat.KAFKA
)
Run = Callable[[Callable[[ClusterBed], Awaitable[None]]], None]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return lambda scenario: in_cluster(monkeypatch, scenario)


async def fetch(
    server: Server, topic: Topic, *offsets: int, wait_s: float = 0.0, epoch: int = -1
) -> list[FetchedPlace]:
    """Each partition from its offset on."""
    places = [FetchPlace(topic, *each, 1 << 20, epoch) for each in enumerate(offsets)]
    bounds = FetchBounds(1, 1 << 20, wait_s)
    fetches = server.broker.reads.fetches
    return list((await server.run(lambda: fetches.fetch(ALICE, places, bounds))).places)


def test_the_new_owner_answers_without_an_error_while_it_opens(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b = await bed.server("a"), await bed.server("b")
        topic = await bed.topic(a, ["a", "b"])
        for _ in range(20):
            await a._put(topic, BATCH, 0)
            await b._put(topic, BATCH, 1)
        (before, _) = await fetch(b, topic, 20, 0)
        assert isinstance(before.error, NotOwner)
        moved = asyncio.create_task(bed.assign(topic.uuid, ["b", "b"], {"0": "a"}))
        errors, stored = [], []
        for _ in range(200):
            moving, other = await fetch(b, topic, 20, 0, wait_s=0.005)
            assert other.messages == 20
            errors.append(type(moving.error))
            if not isinstance(moving.error, NotOwner):
                stored.append(b._put(topic, BATCH, 0))  # opens it, while it is read
            await asyncio.sleep(0.001)
        await asyncio.gather(moved, *stored)
        assert NotOwner in errors
        assert set(errors[errors.index(type(None)) :]) == {type(None)}
        (moving, _) = await fetch(b, topic, 20, 0)
        assert moving.messages == len(stored)

    run(scenario)


def test_a_partition_that_stays_unreadable_becomes_an_error(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a = await bed.server("a")
        topic = await bed.topic(a, ["a"])
        loop = asyncio.get_running_loop()

        async def read(self: PartitionLog, *_: Any, **__: Any) -> Any:
            raise PartitionNotServing("it opens")

        with monkeypatch.context() as patch:
            patch.setattr(PartitionLog, "read", read)
            began_s = loop.time()
            places = await fetch(a, topic, 0, wait_s=0.3)
            assert [(place.error, place.offsets.next) for place in places] == [(None, -1)]
            while not any(place.error for place in places):
                places = await fetch(a, topic, 0, wait_s=0.3)
            assert OPENING_MAX_S <= loop.time() - began_s < OPENING_MAX_S + 0.3
        (place,) = await fetch(a, topic, 0)
        assert (place.error, place.offsets.next) == (None, 0)

    run(scenario)


def test_an_epoch_that_is_not_known_is_looked_up_before_it_is_refused(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b = await bed.server("a"), await bed.server("b")
        topic = await bed.topic(a, ["a"])
        epoch = a.broker.context.epochs.of(topic.uuid)
        await bed.assign(topic.uuid, ["b"], {"0": "a"})
        # Right after the change, before the watches have shown it.
        (at_former,) = await fetch(a, topic, 0, epoch=epoch + 1)
        assert isinstance(at_former.error, NotOwner)
        assert a.broker.kafka_nodes.leader(topic.uuid, 0).epoch == epoch + 1
        (at_new,) = await fetch(b, topic, 0, epoch=epoch + 2)
        assert isinstance(at_new.error, LeaderEpochUnknown)

    run(scenario)
