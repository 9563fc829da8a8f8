"""The clients of a world with records of Kafka: producers, readers, and deletions of beginnings."""

from collections.abc import Awaitable, Callable
from typing import Final

from opentalos.testing.simulation.clients.message_clients import LiveTopic
from opentalos.testing.simulation.clients.records.assigned_members import (
    AssignedMember,
    PositionReader,
)
from opentalos.testing.simulation.clients.records.deletions import Deleter
from opentalos.testing.simulation.clients.records.followers import LeaderFollower
from opentalos.testing.simulation.clients.records.members import KafkaMember
from opentalos.testing.simulation.clients.records.producers import (
    FIRST_ID,
    KafkaProducer,
    TalosProducer,
)
from opentalos.testing.simulation.clients.records.readers import RecordReader
from opentalos.testing.simulation.world.world import World

PRODUCERS: Final = 2
READERS: Final = 2
MEMBERS: Final = 3  # of a group; there are fewer partitions


async def create_records(
    world: World, create: Callable[..., Awaitable[LiveTopic]]
) -> list[LiveTopic]:
    """Topics for Kafka's producers, if the world has any; nobody changes or deletes them."""
    return [await create("records", partitions=2, flushed=False)] if world.config.records else []


def assigned_members(world: World, records: list[LiveTopic]) -> list[AssignedMember]:
    """Members of one group on a topic with records, whose server decides who reads what."""
    return [
        AssignedMember(world, f"assigned{n}", topic) for topic in records for n in range(MEMBERS)
    ]


async def read_positions(world: World, records: list[LiveTopic]) -> None:
    """Where their group continues, once every fault has ended."""
    for topic in records:
        await PositionReader(world, topic).read()


def followers(world: World, records: list[LiveTopic]) -> list[LeaderFollower]:
    """Consumers that follow the leaders of partitions with records, which move in a cluster."""
    return [LeaderFollower(world, f"follower{n}", records) for n in range(READERS) if records]


def members(world: World, records: list[LiveTopic]) -> list[KafkaMember]:
    """Members of one group on a topic with records."""
    return [KafkaMember(world, f"member{n}", topic) for topic in records for n in range(MEMBERS)]


def record_clients(
    world: World, records: list[LiveTopic], topics: list[LiveTopic]
) -> "list[Deleter | KafkaProducer | RecordReader | TalosProducer]":
    """Clients of the topics with records, and a deleter of messages of any topic."""
    numbers = range(PRODUCERS)
    return [
        *[KafkaProducer(world, f"kafka{n}", records, FIRST_ID + n) for n in numbers],
        TalosProducer(world, "talos", records),
        *[RecordReader(world, f"fetcher{n}", records) for n in range(READERS)],
        Deleter(world, "deleter", records, topics),
    ]
