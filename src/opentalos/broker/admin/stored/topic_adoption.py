"""Adoption: gives a stored topic that the catalogue does not know a record again.

For a storage that no server uses meanwhile. Only the record is made: manifests and files stay as
they are.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from opentalos.catalog.topics.change import NewTopic, new_topic
from opentalos.catalog.topics.topic import Topic
from opentalos.catalog.topics.topics import TopicCatalog, all_by_uuid
from opentalos.log.manifest.stored_topics import on_stopped_storage
from opentalos.model.errors import AlreadyExists, BadRequest, NotFound, TopicExists
from opentalos.model.limits import PARTITIONS_MAX, TopicLimits
from opentalos.model.message import PartitionKey
from opentalos.model.names import SYSTEM_TENANT, check_name, check_topic_name
from opentalos.model.settings.partitioning import PARTITIONER_KEY, Partitioning
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore


class Adoption(NamedTuple):
    """Which topic is to be adopted, as what."""

    uuid: str
    name: str  # OWNER/NAME
    partitions: int | None = None  # None: as many as are stored
    partitioning: Partitioning = Partitioning.MURMUR2


class Adopted(NamedTuple):
    """The topic of the new record."""

    topic: Topic
    without_manifest: list[int]  # partitions with messages that no manifest names


async def adopt_topic(
    files: FileStore, meta: MetaStore, wanted: Adoption, limits: TopicLimits, now_ms: int
) -> Adopted:
    """Make a record for a stored topic, with default settings.

    Only its retention is the longest that ``limits`` allow: with a shorter one than it had, the
    server would delete the messages that were just saved.
    Raises: NotFound: nothing of that uuid is stored. TopicExists: the catalogue has the uuid or
        the name. BadRequest: it was deleted, or has more partitions. InvalidName; CorruptLog.
    """
    owner, slash, name = wanted.name.partition("/")
    if not slash:
        raise BadRequest(f"{wanted.name} has no owner; write OWNER/NAME")
    check_name(owner, "owner")
    check_topic_name(name)
    if owner == SYSTEM_TENANT:
        raise BadRequest(f"{owner} is the owner of the service's own topics; name a tenant")
    stored = on_stopped_storage(files, meta)
    partitions = await stored.partitions(
        wanted.uuid, (await stored.with_files()).get(wanted.uuid, {})
    )
    if not partitions:
        raise NotFound(f"nothing of topic {wanted.uuid} is stored; talos log verify lists topics")
    catalog = TopicCatalog(meta)
    await catalog.start()
    try:
        await _check_free(catalog, await all_by_uuid(catalog), wanted)
        count = _count(wanted, max(partitions) + 1)
        topic = new_topic(
            NewTopic(
                name=name,
                partitions=count,
                retention_s=limits.retention_max_s,
                attributes={PARTITIONER_KEY: wanted.partitioning.value},
            ),
            (owner, name),
            wanted.uuid,
            now_ms,
            replace(limits, partitions_max=max(limits.partitions_max, count)),
        )
        try:
            await catalog.create(topic)
        except AlreadyExists as error:
            raise TopicExists(f"topic {wanted.name} exists") from error
    finally:
        await catalog.close()
    return Adopted(
        topic,
        [
            number
            for number, paths in partitions.items()
            if await stored.without_manifest(PartitionKey(wanted.uuid, number), paths)
        ],
    )


async def _check_free(catalog: TopicCatalog, topics: Mapping[str, Topic], wanted: Adoption) -> None:
    """Raises: TopicExists, BadRequest."""
    known = topics.get(wanted.uuid)
    if known is not None:
        raise TopicExists(
            f"topic {wanted.uuid} is in the catalogue already, as {known.owner}/{known.name}"
        )
    former = catalog.record(*wanted.name.split("/", 1))
    if former is not None:
        raise TopicExists(f"topic {wanted.name} exists, with uuid {former.uuid}; use another name")
    dead = await catalog.deleted.find(wanted.uuid)
    if dead is not None:
        raise BadRequest(
            f"topic {wanted.uuid} was deleted, as {dead.owner}/{dead.name}: what is stored of it "
            "is left over, and the server removes it"
        )


def _count(wanted: Adoption, stored: int) -> int:
    """How many partitions the topic gets. Raises: BadRequest."""
    count = stored if wanted.partitions is None else wanted.partitions
    if not stored <= count <= PARTITIONS_MAX:
        raise BadRequest(
            f"cannot adopt topic {wanted.uuid} with {count} partitions: {stored} are stored, and "
            f"{PARTITIONS_MAX} are the most that a topic can have"
        )
    return count
