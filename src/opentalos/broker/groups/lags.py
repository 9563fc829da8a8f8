"""Lags of the consumer groups that this server coordinates, for metrics."""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.peer_rpc.remote_logs import Question, RemoteLogs, Wanted
from opentalos.catalog.topics.topic import Topic
from opentalos.group.directory import GroupDirectory, checkpoints_of
from opentalos.model.errors import TalosError

PARTITIONS_MAX: Final = 10_000  # of one call; further topics are left out
READ_S: Final = 3.0  # for all of them together


class Lag(NamedTuple):
    """Lag on one partition, in messages."""

    total: int  # of all groups together
    largest: int  # of the group with the largest lag


async def group_lags(
    context: BrokerContext, directory: GroupDirectory
) -> Mapping[tuple[str, int], Lag]:
    """Lags by topic uuid and partition, from what this server has in memory of its groups.

    Left out is what cannot be read in time: another server does not answer, a log is corrupt.
    """
    topics = {topic.uuid: topic for topic in context.topics.all()}
    found: dict[tuple[str, int], Lag] = {}
    looked = 0
    try:
        async with asyncio.timeout(READ_S):
            for topic_uuid, checkpoints in checkpoints_of(directory).items():
                topic = topics.get(topic_uuid)
                if topic is None or looked + len(checkpoints) > PARTITIONS_MAX:
                    continue
                looked += len(checkpoints)
                found.update(await _of_topic(context, topic, checkpoints))
    except TimeoutError:
        pass
    return found


async def _of_topic(
    context: BrokerContext, topic: Topic, checkpoints: Mapping[int, list[int]]
) -> Mapping[tuple[str, int], Lag]:
    partitions = [number for number in checkpoints if number < topic.consumer_partitions]
    facts = await RemoteLogs(context).read(topic, partitions, Question(Wanted.AMOUNTS))
    found: dict[tuple[str, int], Lag] = {}
    for partition, fact in zip(partitions, facts, strict=True):
        if isinstance(fact, TalosError):
            continue
        lags = [fact.offsets.lag(checkpoint) for checkpoint in checkpoints[partition]]
        found[topic.uuid, partition] = Lag(sum(lags), max(lags))
    return found
