"""A stored topic without a record gets one, and its messages are there as before."""

import pytest
from tests.unit.broker.admin.stored.test_unknown_topics import files_of, lost, manifests_of
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE

from opentalos.adapters.memory import MemoryFileStore, MemoryMetaStore
from opentalos.broker.admin.stored.topic_adoption import Adopted, Adoption, adopt_topic
from opentalos.broker.values import Topic
from opentalos.model.errors import BadRequest, InvalidName, NotFound, TalosError, TopicExists
from opentalos.model.limits import PARTITIONS_MAX, TopicLimits
from opentalos.model.settings.partitioning import Partitioning

NOW_MS = 1_700_000_000_000


async def adopt(w: World, wanted: Adoption, limits: TopicLimits | None = None) -> Adopted:
    """With the server stopped, as the command does."""
    await w.broker.close()
    files, meta = MemoryFileStore(w.storage), MemoryMetaStore(w.storage)
    return await adopt_topic(files, meta, wanted, limits or TopicLimits(), NOW_MS)


async def messages(w: World, topic: Topic, partition: int) -> int:
    log = w.broker.context.partition_log(topic, partition)
    read = await log.read(0, messages_max=99, bytes_max=9_999)
    return sum(block.messages for block in read.blocks)


async def test_an_adopted_topic_has_its_uuid_its_partitions_and_its_messages() -> None:
    async with world() as w:
        before = await lost(w, partitions=3)
        topic, without_manifest = await adopt(w, Adoption(before.uuid, "alice/again"))
        assert without_manifest == []
        await w.restart()
        found = w.broker.topics.find_topic(ALICE, "again")
        assert found == topic
        assert (found.uuid, found.partitions, found.created_ms) == (before.uuid, 3, NOW_MS)
        assert found.partitioning is Partitioning.MURMUR2
        for partition in range(3):
            assert await messages(w, found, partition) == 3
            await w.put(ALICE, found, partition, 2)
            log = w.broker.context.partition_log(found, partition)
            assert (await log.offsets()).next == 5
        await w.broker.unknown_topics.run_once()
        assert w.broker.unknown_topics.found == []


async def test_an_adopted_topic_keeps_its_messages_as_long_as_the_server_allows() -> None:
    async with world() as w:
        before = await lost(w)
        limits = TopicLimits(retention_max_s=1_000_000)
        topic, _ = await adopt(w, Adoption(before.uuid, "alice/t"), limits)
        assert topic.retention_s == 1_000_000


async def test_partitions_with_messages_and_without_a_manifest_are_named() -> None:
    async with world() as w:
        before = await lost(w, partitions=3)
        del w.storage.records[f"log/{before.uuid}/1"]
        files, manifests = files_of(w, before), manifests_of(w, before)
        _, without_manifest = await adopt(w, Adoption(before.uuid, "alice/t"))
        assert without_manifest == [1]
        assert (files_of(w, before), manifests_of(w, before)) == (files, manifests)


@pytest.mark.parametrize(("given", "partitions"), [(3, 3), (5, 5), (300, 300), (2, 0)])
async def test_a_topic_has_at_least_the_partitions_that_are_stored(
    given: int, partitions: int
) -> None:
    async with world() as w:
        before = await lost(w, partitions=3)
        wanted = Adoption(before.uuid, "alice/t", given, Partitioning.OFFICIAL)
        if not partitions:
            with pytest.raises(BadRequest, match=f"with {given} partitions: 3 are stored"):
                await adopt(w, wanted)
            return
        topic, _ = await adopt(w, wanted)
        assert (topic.partitions, topic.partitions_ever) == (partitions, partitions)
        assert topic.partitioning is Partitioning.OFFICIAL


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("alice/other", TopicExists, "topic alice/other exists, with uuid"),
        ("plain", BadRequest, "plain has no owner; write OWNER/NAME"),
        ("alice/__usage", InvalidName, "invalid topic name"),
        ("-/t", InvalidName, "invalid owner"),
        ("system/t", BadRequest, "name a tenant"),
    ],
)
async def test_a_name_that_cannot_be_used_is_refused(
    name: str, error: type[TalosError], text: str
) -> None:
    async with world() as w:
        await w.topic(ALICE, "other")
        before = await lost(w)
        with pytest.raises(error, match=text):
            await adopt(w, Adoption(before.uuid, name))


async def test_only_a_stored_topic_that_nobody_knows_can_be_adopted() -> None:
    async with world() as w:
        known = await w.topic(ALICE, "known")
        await w.put(ALICE, known, 0, 1)
        dead = await w.topic(ALICE, "dead")
        await w.put(ALICE, dead, 0, 1)
        path = files_of(w, dead)[0]
        content = w.storage.files[path]
        await w.broker.topics.delete_topic(ALICE, dead.resource)
        w.storage.files[path] = content
        with pytest.raises(TopicExists, match="is in the catalogue already, as alice/known"):
            await adopt(w, Adoption(known.uuid, "alice/new"))
        with pytest.raises(BadRequest, match="was deleted, as alice/dead"):
            await adopt(w, Adoption(dead.uuid, "alice/new"))
        with pytest.raises(NotFound, match="nothing of topic 1234 is stored"):
            await adopt(w, Adoption("1234", "alice/new"))
        w.storage.files["lost/10000/0-1.log"] = content
        with pytest.raises(BadRequest, match=f"{PARTITIONS_MAX} are the most"):
            await adopt(w, Adoption("lost", "alice/new"))
