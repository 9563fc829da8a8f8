"""How far the consumer groups that this server coordinates are behind."""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.peer_rpc.remote_logs import Question, RemoteLogs, Wanted
from opentalos.catalog.topics.topic import Topic
from opentalos.group.directory import GroupDirectory, checkpoints_of
from opentalos.model.errors import TalosError

PARTITIONS_MAX: Final = 10_000  # looked at in one go; further topics are left out
LOOK_S: Final = 3.0  # for all of them together


class Lag(NamedTuple):
    """Messages behind on one partition."""

    total: int  # of all groups together
    largest: int  # of the group that is farthest behind


async def group_lags(
    context: BrokerContext, directory: GroupDirectory
) -> Mapping[tuple[str, int], Lag]:
    """Lags by topic uuid and partition, from what this server has in memory of its groups.

    What cannot be told in time is left out: another server does not answer, a log is damaged.
    """
    topics = {topic.uuid: topic for topic in context.topics.all()}
    found: dict[tuple[str, int], Lag] = {}
    looked = 0
    try:
        async with asyncio.timeout(LOOK_S):
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
    facts = await RemoteLogs(context).look(topic, partitions, Question(Wanted.AMOUNTS))
    found: dict[tuple[str, int], Lag] = {}
    for partition, fact in zip(partitions, facts, strict=True):
        if isinstance(fact, TalosError):
            continue
        lags = [fact.offsets.lag(checkpoint) for checkpoint in checkpoints[partition]]
        found[topic.uuid, partition] = Lag(sum(lags), max(lags))
    return found
