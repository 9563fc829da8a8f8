"""Reads the state of topic and server before a write's tasks start, so that all attempts agree."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from opentalos.model.errors import NotSupported, PermissionDenied
from opentalos.pipelines.datasource.sink.options import Delivery, WriteOptions
from opentalos.sdk.aio import Client
from opentalos.sdk.core.values import OffsetRange, TopicRef
from opentalos.wire._generated.topic import TOPIC_SERVICE

_OUR_SERVERS: Final = "opentalos "  # prefix of their version
_log = logging.getLogger("opentalos.pipelines.sink")


@dataclass(frozen=True, slots=True)
class Target:
    """A topic at the time when the write was planned.

    ``floors``: next offsets by partition; blocks before them were stored earlier. 0 if the
    partition is damaged, as its end is not known. Empty: the principal may not read the topic, so
    stored blocks cannot be compared.
    """

    ref: TopicRef
    floors: Mapping[int, int]
    planned: bool = False  # by the driver, before any attempt of a task


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """Sent to the tasks of one job, or of one batch of a stream."""

    target: Target | None  # None: each row has its own topic
    deduplicates: bool  # whether the server recognizes repeated puts
    now_ms: int  # create time of rows without one, the same in all attempts


async def plan_write(client: Client, options: WriteOptions) -> WritePlan:
    """Plan a write.

    Raises: TopicNotExist; NotSupported: exactly once was requested and the server does not
    recognize repeated puts; Unavailable.
    """
    target = await target_of(client, options.topic, planned=True) if options.topic else None
    return WritePlan(
        target=target, deduplicates=await _deduplicates(client, options), now_ms=client.now_ms()
    )


async def target_of(client: Client, name: str, *, planned: bool = False) -> Target:
    """The current state of a topic. Raises: TopicNotExist; Unavailable."""
    ref = await client.topic(name, refresh=True)
    try:
        held = await client.known_offsets(ref, range(ref.partitions))
    except PermissionDenied:
        return Target(ref, {}, planned)
    floors = {
        partition: there.next if isinstance(there, OffsetRange) else 0
        for partition, there in held.items()
    }
    return Target(ref, floors, planned)


async def _deduplicates(client: Client, options: WriteOptions) -> bool:
    found = await client.call(TOPIC_SERVICE, "getServiceVersion", None)
    if (found.details or "").startswith(_OUR_SERVERS):
        return True
    text = f"the server ({found.details or 'not OpenTalos'}) does not recognize repeated puts"
    if options.delivery is Delivery.EXACTLY_ONCE:
        raise NotSupported(f"{text}: delivery = exactly-once is not possible")
    if options.delivery is Delivery.AUTO:
        _log.warning("%s: retries may store rows twice", text)
    return False
