from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.unit.catalog.support import ALICE, BOB, CAROL, ROOT

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.catalog.access.grants import granted, revoked
from opentalos.catalog.access.plain_names import accepted_by
from opentalos.catalog.topics.change import shrunk_topic, tombstone
from opentalos.catalog.topics.topic import Topic
from opentalos.catalog.topics.topics import TopicCatalog
from opentalos.model.errors import AlreadyExists, InvalidName, TopicNotExist
from opentalos.model.identity import GUEST, Grantee, GrantType, Principal
from opentalos.model.names import METRICS_TOPIC, SYSTEM_TENANT

BOB_GRANT = Grantee(GrantType.DEVELOPER, "bob")
NOW_MS = 1_700_000_000_000
CL_ODD = Principal(id="CL#1", number=9, organisation="CL#1")


def _topic(owner: str, name: str, uuid: str = "u1", partitions: int = 1) -> Topic:
    return Topic(
        uuid=uuid,
        owner=owner,
        name=name,
        partitions=partitions,
        consumer_partitions=partitions,
        partitions_ever=partitions,
        retention_s=3_600,
    )


@pytest.fixture
async def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
async def catalog(storage: MemoryStorage) -> AsyncIterator[TopicCatalog]:
    catalog = TopicCatalog(MemoryMetaStore(storage))
    await catalog.start()
    yield catalog
    await catalog.close()


async def test_a_plain_name_means_the_organisations_topic_first(catalog: TopicCatalog) -> None:
    await catalog.create(_topic("carol", "t", "u1"))
    assert catalog.find(CAROL, "t").owner == "carol"
    await catalog.create(_topic("CLacme", "t", "u2"))
    assert catalog.find(CAROL, "t").owner == "CLacme"


async def test_a_plain_name_never_means_a_topic_that_was_only_granted(
    catalog: TopicCatalog,
) -> None:
    await catalog.create(granted(_topic("alice", "t"), BOB_GRANT, 7))
    for caller in (BOB, ROOT):
        with pytest.raises(TopicNotExist, match="write alice/t, or accept the grant"):
            catalog.find(caller, "t")
    with pytest.raises(TopicNotExist, match=r"topic t does not exist$"):
        catalog.find(CAROL, "t")
    assert catalog.find(BOB, "alice/t").owner == "alice"


async def test_an_accepted_topic_has_its_plain_name_until_there_is_an_own_one(
    catalog: TopicCatalog,
) -> None:
    topic = await _granted_and_accepted(catalog, "alice", "u1")
    assert catalog.find(BOB, "t") == topic
    with pytest.raises(TopicNotExist):
        catalog.find(ROOT, "t")
    await catalog.create(_topic("bob", "t", "u2"))
    assert catalog.find(BOB, "t").owner == "bob"


async def test_topics_of_the_service_have_plain_names_for_those_with_a_grant(
    catalog: TopicCatalog,
) -> None:
    await catalog.create(granted(_topic(SYSTEM_TENANT, METRICS_TOPIC), BOB_GRANT, 5))
    for caller in (BOB, ROOT):
        assert catalog.find(caller, METRICS_TOPIC).owner == SYSTEM_TENANT
    for caller in (CAROL, GUEST):
        with pytest.raises(TopicNotExist, match=f"topic {METRICS_TOPIC} does not exist"):
            catalog.find(caller, METRICS_TOPIC)


async def test_a_revoked_or_recreated_topic_must_be_accepted_again(catalog: TopicCatalog) -> None:
    topic = await _granted_and_accepted(catalog, "alice", "u1")
    await catalog.change(topic, lambda now: revoked(now, BOB_GRANT))
    topic = await catalog.change(topic, lambda now: granted(now, BOB_GRANT, 7))
    with pytest.raises(TopicNotExist):
        catalog.find(BOB, "t")
    await catalog.remove(await catalog.change(topic, tombstone), NOW_MS)
    await catalog.create(granted(_topic("alice", "t", "u2"), BOB_GRANT, 7))
    with pytest.raises(TopicNotExist):
        catalog.find(BOB, "t")


async def test_a_restart_remembers_acceptances(
    catalog: TopicCatalog, storage: MemoryStorage
) -> None:
    await _granted_and_accepted(catalog, "alice", "u1")
    second = TopicCatalog(MemoryMetaStore(storage))
    await second.start()
    assert second.find(BOB, "t").owner == "alice"
    await second.close()


async def _granted_and_accepted(catalog: TopicCatalog, owner: str, uuid: str) -> Topic:
    topic = granted(_topic(owner, "t", uuid), BOB_GRANT, 7)
    await catalog.create(topic)
    accepted = accepted_by(catalog.names, BOB, topic, accepted=True)
    return await catalog.change(topic, lambda now: replace(now, accepted=accepted))


async def test_a_name_without_any_grant_answers_like_an_unknown_one(catalog: TopicCatalog) -> None:
    await catalog.create(_topic("alice", "t"))
    texts = set()
    for caller in (BOB, GUEST, CAROL):
        with pytest.raises(TopicNotExist) as known:
            catalog.find(caller, "t")
        with pytest.raises(TopicNotExist) as unknown:
            catalog.find(caller, "u")
        texts |= {str(known.value).replace(" t ", " X "), str(unknown.value).replace(" u ", " X ")}
    assert len(texts) == 1


async def test_qualified_and_resource_names_resolve(catalog: TopicCatalog) -> None:
    await catalog.create(_topic("alice", "t"))
    await catalog.create(_topic("CL#1", "t", "u2"))
    assert catalog.find(ALICE, "alice#t#u1").uuid == "u1"
    assert catalog.find(ALICE, "alice/t").uuid == "u1"
    assert catalog.find(CL_ODD, "CL#1/t").uuid == "u2"
    assert catalog.find(CL_ODD, "CL#1#t#u2").uuid == "u2"
    for name in ("alice#t#u9", "alice#t", "bob/t", "CL#1/x"):
        with pytest.raises(TopicNotExist):
            catalog.find(ALICE, name)
    for name in ("", "a b", "..", "alice/", "a\0b", "x" * 10_240):
        with pytest.raises(InvalidName):
            catalog.find(ALICE, name)


async def test_a_topic_that_is_being_deleted_cannot_be_found(catalog: TopicCatalog) -> None:
    await catalog.create(_topic("alice", "t"))
    topic = catalog.find(ALICE, "t")
    dead = await catalog.change(topic, tombstone)
    assert catalog.by_resource(topic.resource) is None
    assert catalog.tombstones() == [dead]
    assert (len(catalog.all()), len(catalog.owned_by("alice"))) == (0, 0)
    with pytest.raises(TopicNotExist):
        catalog.find(ALICE, "t")
    with pytest.raises(TopicNotExist):
        await catalog.change(topic, tombstone)
    with pytest.raises(AlreadyExists):
        await catalog.create(_topic("alice", "t", "u2"))
    await catalog.remove(dead, NOW_MS)
    await catalog.create(_topic("alice", "t", "u2"))
    assert catalog.find(ALICE, "t").uuid == "u2"


async def test_a_change_meant_for_a_former_topic_does_not_reach_its_successor(
    catalog: TopicCatalog,
) -> None:
    await catalog.create(_topic("alice", "t", "u1"))
    former = catalog.find(ALICE, "t")
    await catalog.remove(await catalog.change(former, tombstone), NOW_MS)
    with pytest.raises(TopicNotExist):
        await catalog.change(former, lambda topic: replace(topic, owner_name="x"))
    await catalog.create(_topic("alice", "t", "u2"))
    with pytest.raises(TopicNotExist):
        await catalog.change(former, lambda topic: replace(topic, owner_name="x"))
    assert catalog.find(ALICE, "t").owner_name == ""


async def test_a_restart_finds_topics_tombstones_and_shrinks(
    catalog: TopicCatalog, storage: MemoryStorage
) -> None:
    await catalog.create(_topic("alice", "a"))
    await catalog.create(_topic("alice", "b", "u2"))
    await catalog.create(_topic("alice", "c", "u3", partitions=4))
    await catalog.change(catalog.find(ALICE, "b"), tombstone)
    await catalog.change(catalog.find(ALICE, "c"), lambda topic: replace(topic, partitions=2))
    second = TopicCatalog(MemoryMetaStore(storage))
    await second.start()
    assert [topic.name for topic in second.owned_by("alice")] == ["a", "c"]
    assert [topic.name for topic in second.tombstones()] == ["b"]
    assert [topic.name for topic in second.shrinking()] == ["c"]
    await second.change(second.find(ALICE, "c"), shrunk_topic)
    assert second.shrinking() == []
    await second.close()


async def test_listeners_hear_of_every_change(storage: MemoryStorage) -> None:
    heard: list[tuple[Topic | None, Topic | None]] = []
    catalog = TopicCatalog(MemoryMetaStore(storage), lambda old, new: heard.append((old, new)))
    await catalog.start()
    await catalog.create(_topic("alice", "t"))
    topic = catalog.find(ALICE, "t")
    dead = await catalog.change(topic, tombstone)
    await catalog.remove(dead, NOW_MS)
    assert heard == [(None, topic), (topic, dead), (dead, None)]
    await catalog.close()
