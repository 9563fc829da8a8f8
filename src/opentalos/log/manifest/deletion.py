"""Deletion of a log's beginning for its readers, before retention would drop it.

The manifest gets a floor below which readers get nothing. Whole segments below it are dropped by
the next passes of retention, which waits as always until they are metered: so the bill still equals
the log (promise I9). What is left below the floor in a segment is not given to anyone.
"""

from dataclasses import replace
from functools import partial

from opentalos.log.partition.jobs import change_sealed, seal
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.partition.writer import PartitionWriter
from opentalos.model.errors import OffsetOutOfRange
from opentalos.model.message import Durability

ALL = -1  # everything that is durable now


async def delete_before(log: PartitionLog, offset: int) -> int:
    """Delete all messages below an offset, or ALL; the first offset that is left.

    It never goes back, so repeating it is safe. Raises: OffsetOutOfRange: beyond the high
    watermark; PartitionNotServing and other Unavailable: not done; OutcomeUnknown.
    """
    bounds = await log.offsets()
    wanted = bounds.next if offset == ALL else offset
    if not 0 <= wanted <= bounds.next:
        raise OffsetOutOfRange(f"offset {offset}: the log has {bounds.start} to {bounds.end}")
    if wanted > bounds.start:
        await log.writer.run(partial(_raise_floor, log.writer, wanted))
    return log.range().start


async def _raise_floor(writer: PartitionWriter, offset: int) -> None:
    """Job: store the floor."""
    if writer.segment is not None and writer.segment.durability is not Durability.SYNCED:
        # A loss of power could take flushed messages, and new ones would be below the floor.
        await seal(writer)
    manifest = writer.versioned.manifest
    if manifest.first < offset <= writer.next_offset:
        await change_sealed(writer, replace(manifest, floor=offset))
