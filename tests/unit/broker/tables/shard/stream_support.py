"""Tables with streams over memory stores; what their topics hold."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.unit.broker.support import World
from tests.unit.broker.tables.support import ALICE, PLAIN, make, streamed
from tests.waiting import within_limit

from opentalos.broker.broker import Broker
from opentalos.broker.values import Topic
from opentalos.catalog.tables.table import Table
from opentalos.model.change import Change, StreamView
from opentalos.model.errors import PartitionNotServing, TalosError
from opentalos.model.mutation import Mutation
from opentalos.model.table import TableSchema
from opentalos.sds.mutation import Applied
from opentalos.wire.message import decode_block
from opentalos.wire.sds.change import decode_change

PATIENCE_S = 15.0


class Heard(NamedTuple):
    """A message of a stream, as its topic has it."""

    partition: int
    row: str  # its message's partition key
    sequence: int
    change: Change


async def streaming(
    world: World, schema: TableSchema = PLAIN, partitions: int = 2, **fields: Any
) -> tuple[Table, Topic]:
    """A table of alice's whose changes go to her topic ``t``."""
    topic = await world.topic(ALICE, "t", partitions=partitions)
    return await make(world.broker, streamed(schema, "t"), **fields), topic


async def apply(broker: Broker, table: Table, *mutations: Mutation) -> Sequence[Applied]:
    """Apply mutations, which must succeed."""
    outcomes = await broker.shards.apply(table, mutations)
    for outcome in outcomes:
        if isinstance(outcome, TalosError):
            raise outcome
    return [outcome for outcome in outcomes if isinstance(outcome, Applied)]


async def heard(broker: Broker, topic: Topic, schema: TableSchema = PLAIN) -> list[Heard]:
    """All messages, each partition in its order."""
    found = []
    for partition in range(topic.partitions):
        log = broker.context.partition_log(
            broker.context.topics.record(topic.owner, topic.name) or topic, partition
        )
        offsets = await log.offsets()
        offset = offsets.start
        while offset < offsets.next:
            read = await log.read(offset, messages_max=10_000, bytes_max=1 << 24)
            for block in read.blocks:
                for message in decode_block(
                    bytes(block.payload), block.compression, block.messages
                ):
                    sequence = int(message.sequence_number or 0)
                    _, change = decode_change(
                        StreamView.MUTATE_LOG, message.data, schema.key_columns, sequence
                    )
                    key = message.partition_key or ""
                    found.append(Heard(partition, key, sequence, change))
                offset = block.next_offset
    return found


def by_row(messages: Sequence[Heard]) -> dict[str, list[int]]:
    """Sequences of each row, in the order of the topic."""
    rows: dict[str, list[int]] = defaultdict(list)
    for message in messages:
        rows[message.row].append(message.sequence)
    return dict(rows)


def firsts(sequences: Sequence[int]) -> list[int]:
    """First deliveries alone."""
    return list(dict.fromkeys(sequences))


async def until_heard(
    broker: Broker, topic: Topic, expected: int, schema: TableSchema = PLAIN
) -> list[Heard]:
    """Wait until so many different changes are in the topic."""
    async with within_limit(f"{expected} changes are in the topic"):
        while True:
            try:
                messages = await heard(broker, topic, schema)
            except PartitionNotServing:
                messages = []  # it is being opened
            if len({(message.row, message.sequence) for message in messages}) >= expected:
                return messages
            await asyncio.sleep(0.01)


async def until_many(broker: Broker, topic: Topic, messages: int) -> list[Heard]:
    """Wait until the topic has so many messages."""
    async with within_limit(f"{messages} messages are in the topic"):
        while True:
            found = await heard(broker, topic)
            if len(found) >= messages:
                return found
            await asyncio.sleep(0.01)


async def until_cleared(broker: Broker) -> None:
    """Wait until nothing is pending any more."""
    async with within_limit("nothing is pending"):
        while True:
            if not broker.shards.figures().pending_entries:
                return
            await asyncio.sleep(0.01)
