"""What is known of the data that is damaged: what was acknowledged, and under which names."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.faults.damages.contents import LOG, Contents, key_of
from tests.faults.damages.judge import Expected, Partition
from tests.server_process import Key

from opentalos.model.message import PartitionKey

KEY_FACT = "key of the tenant"
JOURNALS = "log/journal/"
PARTITION_SLASHES = 3  # of a path log/UUID/NUMBER/FILE


def position_name(group: str, partition: Partition) -> str:
    """The fact of a committed offset."""
    return f"position of {group} in {partition}"


@dataclass(frozen=True)
class Asked:
    """What there is to ask for."""

    topics: Mapping[str, tuple[str, int]]  # resource and count of partitions by name
    put: frozenset[str]  # topics that take one more message
    positions: tuple[tuple[str, Partition], ...]  # of groups
    table: str
    tenant: Key


@dataclass(frozen=True)
class Known:
    """The state at the end of a workload."""

    expected: Expected
    asked: Asked

    def key(self, partition: Partition) -> PartitionKey:
        """As files name it."""
        resource, _ = self.asked.topics[partition.topic]
        return PartitionKey(resource.rpartition("#")[2], partition.number)

    def partition(self, key: PartitionKey) -> Partition:
        """As clients name it; by its uuid if no topic is known."""
        for name, (resource, _) in self.asked.topics.items():
            if resource.endswith(f"#{key.topic_uuid}"):
                return Partition(name, key.partition)
        return Partition(key.topic_uuid, key.partition)

    def counts(self) -> dict[Partition, int]:
        """How many messages each partition has had."""
        return {partition: len(found) for partition, found in self.expected.messages.items()}

    def position(self, group: str, partition: Partition) -> int:
        """A committed offset: the last message that was processed."""
        return int(self.expected.facts[position_name(group, partition)])

    def prove_positions(self, contents: Contents) -> None:
        """What a group has read was there."""
        for group, partition in self.asked.positions:
            contents.prove(self.key(partition), self.position(group, partition) + 1)

    def proven(self, left: Iterable[Contents]) -> dict[Partition, int]:
        """For each partition the offset below which one of these proves messages."""
        found = dict.fromkeys(self.expected.messages, 0)
        for contents in left:
            for key, offset in contents.proven.items():
                partition = self.partition(key)
                found[partition] = max(offset, found.get(partition, 0))
        return found

    def partition_names(self) -> dict[Partition, tuple[str, ...]]:
        """What a text may call each of them."""
        found: dict[Partition, tuple[str, ...]] = {}
        for partition in self.expected.messages:
            uuid, number = self.key(partition)
            names = (f"{uuid}/{number}/", f"{uuid} partition {number}")
            found[partition] = (*names, f"{partition.topic} partition {number}")
        return found

    def fact_names(self) -> dict[str, tuple[str, ...]]:
        """What a text may call the subject of a fact: a topic that has no record has no name."""
        return {
            f"topic {name}": (resource.rpartition("#")[2],)
            for name, (resource, _) in self.asked.topics.items()
        }

    def label(self, name: str, contents: Mapping[str, Contents]) -> str:
        """A path of these without what is random in it."""
        if name.startswith(JOURNALS):
            journal, _, file = name.removeprefix(JOURNALS).partition("/")
            return f"journal {_journals(contents).index(journal)} {file}"
        if not name.startswith(LOG) or name.count("/") < PARTITION_SLASHES:
            return name
        stem, _, suffix = name.partition(".")
        segment = contents.get(f"{stem}.log", Contents())
        return f"{self.partition(key_of(name))} {segment.base_offset:05}.{suffix}"


def _journals(contents: Mapping[str, Contents]) -> list[str]:
    """Names of journals in the order in which they were made."""
    made: dict[str, int] = {}
    for name, found in contents.items():
        if name.startswith(JOURNALS):
            journal = name.removeprefix(JOURNALS).partition("/")[0]
            made[journal] = max(found.created_ms, made.get(journal, 0))
    return sorted(made, key=lambda journal: made[journal])
