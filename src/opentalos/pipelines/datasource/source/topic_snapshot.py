"""The topics of a read according to the servers: their partitions, offsets and start positions."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from opentalos.model.errors import ConfigError, ConsumerGroupNotExist, TopicNotExist
from opentalos.model.names import ResourceName
from opentalos.pipelines.datasource.source.batch_range import Positions
from opentalos.pipelines.datasource.source.next_batch import Retained, only_partitions
from opentalos.pipelines.datasource.source.options import ReadOptions
from opentalos.pipelines.datasource.source.start_at import Edge, Offsets, StartAt
from opentalos.sdk.aio import Client, TalosAdmin
from opentalos.sdk.core.values import DamagedRange, OffsetRange, TopicRef, position_ms


async def find_topics(client: Client, options: ReadOptions) -> tuple[TopicRef, ...]:
    """The current topics, by name; possibly none if a pattern is given.

    Raises: TopicNotExist: a topic does not exist, or this principal has no permission on it.
    """
    if options.pattern is None:
        found = await asyncio.gather(*(_topic(client, name) for name in options.topics))
    else:
        found = await _matching(client, options.pattern)
    by_name = {ref.name: ref for ref in found}
    if len(by_name) < len(found):
        raise ConfigError("two of the topics have the same name: read them in separate queries")
    return tuple(by_name[name] for name in sorted(by_name))


async def _topic(client: Client, name: str) -> TopicRef:
    try:
        return await client.topic(name, refresh=True)
    except TopicNotExist as error:
        raise TopicNotExist(
            f"topic {name} does not exist, or {client.config.key_id} has no permission on it"
        ) from error


async def _matching(client: Client, pattern: re.Pattern[str]) -> list[TopicRef]:
    """The matching topics of this principal or its organization."""
    listed = await TalosAdmin(client).topics.list()
    names = sorted({topic.name for topic in listed if pattern.fullmatch(topic.name)})
    lookups = (client.topic(name, refresh=True) for name in names)
    found = await asyncio.gather(*lookups, return_exceptions=True)
    for result in found:
        if isinstance(result, BaseException) and not isinstance(result, TopicNotExist):
            raise result
    return [
        result for result in found if isinstance(result, TopicRef)
    ]  # one may be deleted meanwhile


async def retained_by(
    client: Client, topics: Sequence[TopicRef], *, drop_deleted: bool = False
) -> Retained:
    """The retained offsets of the topics' partitions, of damaged ones what is known.

    Args:   drop_deleted: leave out topics that were deleted since they were looked up.
    Raises: TopicNotExist: a topic was deleted since.
    """
    lookups = (_retained(client, ref) for ref in topics)
    found = await asyncio.gather(*lookups, return_exceptions=drop_deleted)
    ranges: dict[str, Mapping[int, OffsetRange | DamagedRange]] = {}
    for ref, result in zip(topics, found, strict=True):
        if not isinstance(result, BaseException):
            ranges[ref.resource] = result
        elif not isinstance(result, TopicNotExist):
            raise result
    return ranges


async def deleted_among(client: Client, topics: Positions) -> frozenset[str]:
    """The topics, by resource name, that the server does not have any more.

    A topic that is only missing in a list would be read from its beginning when it is there again.
    """
    refs = [
        TopicRef(ResourceName.parse(resource).topic, resource, max(offsets, default=0) + 1)
        for resource, offsets in topics.items()
    ]
    there = await retained_by(client, refs, drop_deleted=True)
    return frozenset(topics.keys() - there.keys())


async def _retained(client: Client, ref: TopicRef) -> Mapping[int, OffsetRange | DamagedRange]:
    try:
        return await client.known_offsets(ref, range(ref.consumer_partitions))
    except TopicNotExist as error:
        raise deleted(ref.name) from error


def deleted(name: str) -> TopicNotExist:
    """The error for a topic that was deleted while it was read."""
    return TopicNotExist(
        f"topic {name} was deleted while it was read; if it was created again, read it with a new "
        "query and a new checkpoint"
    )


async def positions_at(
    client: Client, options: ReadOptions, at: StartAt, topics: Sequence[TopicRef]
) -> Positions:
    """The offset of ``at`` now, in each partition of the topics that is read.

    Raises: ConfigError: offsets of a topic or partition that does not exist; CorruptLog: a
    partition is damaged, and the offset is not known because of that.
    """
    there = await retained_by(client, topics)
    retained = only_partitions(there, options.partitions)
    if isinstance(at, datetime):
        time_ms = position_ms(at)
        found = await asyncio.gather(
            *(
                client.offsets_at(ref, dict.fromkeys(retained[ref.resource], time_ms))
                for ref in topics
            )
        )
        return {ref.resource: offsets for ref, offsets in zip(topics, found, strict=True)}
    if at is Edge.GROUP:
        return _else_start(retained, await _checkpoints(client, options.group, topics))
    if at is Edge.LATEST:
        return {
            resource: {partition: known.next for partition, known in ranges.items()}
            for resource, ranges in retained.items()
        }
    if isinstance(at, Edge):
        return _else_start(retained, {})
    return _else_start(retained, _named(at, topics, there))


def _else_start(retained: Retained, given: Positions) -> Positions:
    """The given offsets; the first message of the partitions that have none."""
    positions: dict[str, dict[int, int]] = {}
    for resource, ranges in retained.items():
        known = given.get(resource, {})
        positions[resource] = {
            partition: known[partition] if partition in known else there.start
            for partition, there in ranges.items()
        }
    return positions


def _named(given: Offsets, topics: Sequence[TopicRef], retained: Retained) -> Positions:
    """Offsets that the user gave."""
    by_name = {ref.name: ref.resource for ref in topics}
    positions: dict[str, dict[int, int]] = {}
    for name, offsets in given.items():
        resource = by_name.get(name.rpartition("/")[2])
        if resource is None:
            raise ConfigError(f"the position has offsets of topic {name!r}, which is not read")
        unknown = sorted(set(offsets) - set(retained[resource]))
        if unknown:
            raise ConfigError(f"topic {name} has no partition {unknown[0]}")
        positions.setdefault(resource, {}).update(offsets)
    return positions


async def _checkpoints(client: Client, group: str, topics: Sequence[TopicRef]) -> Positions:
    """After the group's committed offsets; without one a partition has none."""
    positions: dict[str, dict[int, int]] = {}
    for ref in topics:
        try:
            lags = await TalosAdmin(client).groups.lag(ref, group)
        except ConsumerGroupNotExist:  # before the first start of a query
            lags = ()
        done = {lag.partition: lag.checkpoint + 1 for lag in lags if lag.checkpoint >= 0}
        positions[ref.resource] = done
    return positions
