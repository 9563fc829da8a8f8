"""Counts a partition's minutes from its log, where no commit of this writer counted them.

The broker's metering calls it after a failover and for usage reports; promise I9.
"""

import asyncio

from opentalos.log.metering.meter import MINUTE_MS, Minutes
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.model.message import StoredBlock

READ_BYTES_MAX = 1 << 20  # of one step
READ_MESSAGES_MAX = 100_000  # of one step


async def count_on(log: PartitionLog) -> bool:
    """Count the next blocks that no commit of this writer counted; whether more are left.

    Raises: CorruptLog, PartitionNotServing and other Unavailable: nothing was counted.
    """
    writer, meter = log.writer, log.writer.meter
    if meter is None or meter.next_offset >= writer.next_offset:
        return False
    blocks = await _blocks(log, meter.next_offset)
    return _counted(meter, blocks) and meter.next_offset < writer.next_offset


async def count_all(log: PartitionLog) -> None:
    """Count every message, also those whose commit is under way. Raises: as ``count_on``."""
    writer = log.writer
    while writer.group is not None or writer.queue:
        await writer.run(_in_turn)
    while await count_on(log):
        pass


async def minutes_of(
    log: PartitionLog, offset: int, *, bytes_max: int, minutes_max: int
) -> Minutes:
    """Durable blocks by minute, from the one that contains ``offset`` on, or from the start.

    It stops at the log's end, after ``bytes_max`` of payload, or before a minute too many:
    ``next_offset`` says where. The last minute may continue there.
    """
    start, end = await log.proven()
    unit_ms = log.writer.settings.minute_ms or MINUTE_MS
    found = Minutes(max(offset, start), most=minutes_max, unit_ms=unit_ms)
    left_bytes = bytes_max
    while found.next_offset < end and left_bytes > 0:
        blocks = await _blocks(log, found.next_offset)
        if not found.found and blocks:
            found.begin_at(blocks[0].base_offset)
        if not _counted(found, blocks):
            break
        left_bytes -= sum(len(block.payload) for block in blocks)
        await asyncio.sleep(0)
    return found


async def _in_turn() -> None:
    """Job: wait for the lane."""


async def _blocks(log: PartitionLog, offset: int) -> list[StoredBlock]:
    found = await log.read(
        offset, messages_max=READ_MESSAGES_MAX, bytes_max=READ_BYTES_MAX, hidden=True
    )
    return found.blocks


def _counted(minutes: Minutes, blocks: list[StoredBlock]) -> bool:
    """Whether all of them were taken, and there was one."""
    for block in blocks:
        size = len(block.payload)
        if not minutes.add(block.base_offset, block.messages, block.append_ms, size):
            return False
    return bool(blocks)
