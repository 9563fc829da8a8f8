"""Start positions of newly assigned partitions."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from opentalos.model.errors import CorruptLog
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.aio.consumer.assigned_partition import AssignedPartition
from opentalos.sdk.core.consumer.settings import ConsumerSettings, StartAt
from opentalos.sdk.core.values import Start, TopicRef, position_ms


def start_of(settings: ConsumerSettings, checkpoint: int, *, first_time: bool) -> StartAt | None:
    """Where a partition starts; None: after its committed offset.

    Args: first_time: the partition was never assigned to this consumer before.
    """
    if settings.reset_to is not None and first_time:
        return settings.reset_to
    return None if checkpoint >= 0 else settings.first_start


async def at_start(
    client: Client,
    ref: TopicRef,
    settings: ConsumerSettings,
    checkpoints: Mapping[int, int],
    seen: set[int],
) -> list[AssignedPartition]:
    """The partitions of ``checkpoints`` at their start positions, resolved in one request.

    If one of them is damaged, each is resolved by itself, before its first fetch.

    Args: seen: partitions assigned to this consumer before.
    """
    places = {
        partition: start_of(settings, checkpoint, first_time=partition not in seen)
        for partition, checkpoint in checkpoints.items()
    }
    wanted = {p: at for p, at in places.items() if at is not None}
    try:
        offsets = await offsets_of(client, ref, wanted)
    except CorruptLog:
        offsets = {}
    return [
        AssignedPartition(
            partition,
            offsets.get(partition, checkpoint + 1),
            checkpoint,
            earliest=_is_earliest(places[partition], partition),
            starts_at=None if partition in offsets else places[partition],
        )
        for partition, checkpoint in checkpoints.items()
    ]


async def resolve(client: Client, ref: TopicRef, held: AssignedPartition) -> None:
    """Find the start of a partition that has none yet. Raises: CorruptLog, other TalosError."""
    at, partition, fetch_epoch = held.starts_at, held.partition, held.fetch_epoch
    assert at is not None
    offset = (await offsets_of(client, ref, {partition: at}))[partition]
    if held.fetch_epoch is fetch_epoch:  # else it was sought, or released
        held.seek(offset, earliest=_is_earliest(at, partition))


async def offsets_of(
    client: Client, ref: TopicRef, places: Mapping[int, StartAt]
) -> dict[int, int]:
    """Resolve positions to offsets. Raises: ValueError: a time without a time zone; TalosError."""
    found = {
        partition: at if isinstance(at, int) else at[partition]
        for partition, at in places.items()
        if isinstance(at, int) or (isinstance(at, Mapping) and partition in at)
    }
    times = {p: position_ms(at) for p, at in places.items() if isinstance(at, datetime)}
    if times:
        found |= await client.offsets_at(ref, times)
    ends = [partition for partition, at in places.items() if at is Start.LATEST]
    if ends:
        retained = await client.offsets(ref, ends)
        found |= {partition: offsets.next for partition, offsets in retained.items()}
    starts: Sequence[int] = [partition for partition in places if partition not in found]
    if starts:
        found |= await client.first_offsets(ref, starts)
    return found


def _is_earliest(at: StartAt | None, partition: int) -> bool:
    return at is Start.EARLIEST or (isinstance(at, Mapping) and partition not in at)
