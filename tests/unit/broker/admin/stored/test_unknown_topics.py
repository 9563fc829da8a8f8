"""What is stored and not in the catalogue: leftovers go, everything else is named and stays."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE
from tests.waiting import eventually_async

from opentalos.adapters.memory import MemoryMetaStore
from opentalos.adapters.memory.storage import StoredFile
from opentalos.broker.admin.stored import unknown_topics
from opentalos.broker.broker import Broker
from opentalos.broker.figures.alarms import alarms_of
from opentalos.broker.figures.current import figures_of
from opentalos.broker.values import Topic
from opentalos.catalog.topics.deleted import KEPT_MS
from opentalos.catalog.topics.topic import encode_topic
from opentalos.model.errors import StoreUnavailable

LOGGER = "opentalos.topics"


async def lost(w: World, name: str = "t", partitions: int = 1) -> Topic:
    """A topic with a message in every partition, whose record an older catalogue lacks."""
    topic = await w.topic(ALICE, name, partitions=partitions)
    for partition in range(partitions):
        await w.put(ALICE, topic, partition, 3)
    await w.broker.close()
    del w.storage.records[f"topics/alice/{name}"]
    await w.restart()
    return topic


def files_of(w: World, topic: Topic) -> list[str]:
    return sorted(path for path in w.storage.files if path.startswith(topic.uuid))


def manifests_of(w: World, topic: Topic) -> list[str]:
    return sorted(path for path in w.storage.records if path.startswith(f"log/{topic.uuid}"))


def late_file(w: World, topic: Topic, partition: int = 0) -> Callable[[], None]:
    """Keeps a file of the topic, to be written again by a former owner."""
    path = next(path for path in files_of(w, topic) if f"/{partition}/" in path)
    content = bytes(w.storage.files[path].content)

    def write() -> None:
        w.storage.files[path] = StoredFile(bytearray(content))

    return write


async def test_a_topic_whose_record_is_lost_is_named_once_and_nothing_is_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as w:
        topic = await lost(w, partitions=3)
        before = (files_of(w, topic), manifests_of(w, topic))
        for _ in range(2):
            await w.broker.unknown_topics.run_once()
        (named,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        for part in (
            f"unknown-topic: files of a topic that the catalogue does not know: topic {topic.uuid}",
            "stored: partitions 0-2, segments: 3, base offsets: 0 to 0, ",
            f"such as {topic.uuid}/0/",
            f"talos log adopt {topic.uuid} OWNER/NAME",
        ):
            assert part in named.getMessage()
        assert (files_of(w, topic), manifests_of(w, topic)) == before
        (alarm,) = alarms_of(figures_of(w.broker))
        assert (alarm.name, alarm.severity) == ("UnknownTopic", "critical")
        assert ": 1; the server's log names them" in alarm.text


async def test_a_lost_topic_without_manifests_is_named_by_its_files() -> None:
    async with world() as w:
        topic = await lost(w)
        for path in manifests_of(w, topic):
            del w.storage.records[path]
        await w.broker.unknown_topics.run_once()
        (found,) = w.broker.unknown_topics.found
        assert (found.uuid, list(found.partitions), found.name) == (topic.uuid, [0], "")
        assert found.example == files_of(w, topic)[-1]


async def test_a_folder_without_any_message_is_no_damage(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as w:
        w.storage.files["empty/0/00000000000000000000-1.log"] = StoredFile()
        await w.broker.unknown_topics.run_once()
        assert w.broker.unknown_topics.found == []
        assert "unknown-topic" not in caplog.text
        assert "empty/0/00000000000000000000-1.log" in w.storage.files


async def test_what_a_deletion_left_is_removed_and_no_alarm(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    async with world() as w:
        topic = await w.topic(ALICE, partitions=2)
        await w.put(ALICE, topic, 1, 3)
        late, manifest = late_file(w, topic, 1), dict(w.storage.records)
        await w.broker.topics.delete_topic(ALICE, topic.resource)
        assert not files_of(w, topic)
        late()
        path = f"log/{topic.uuid}/1"
        w.storage.records[path] = manifest[path]
        await w.broker.unknown_topics.run_once()
        assert not files_of(w, topic)
        assert not manifests_of(w, topic)
        assert alarms_of(figures_of(w.broker)) == []
        assert figures_of(w.broker).leftovers_removed == 1
        assert f"what the deletion of topic alice/t ({topic.uuid}) left: files=1" in caplog.text


async def test_a_leftover_that_cannot_be_removed_now_stops_no_other(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world() as w:
        topics = [await w.topic(ALICE, name) for name in "ab"]
        late = []
        for topic in topics:
            await w.put(ALICE, topic, 0, 3)
            late.append(late_file(w, topic))
            await w.broker.topics.delete_topic(ALICE, topic.resource)
        for write in late:
            write()
        stuck, other = sorted(topics, key=lambda topic: topic.uuid)
        stored = w.broker.unknown_topics._stored
        remove_files = stored.remove_files

        async def remove_some(uuid: str) -> Sequence[str]:
            if uuid == stuck.uuid:
                raise StoreUnavailable("away")
            return await remove_files(uuid)

        monkeypatch.setattr(stored, "remove_files", remove_some)
        await w.broker.unknown_topics.run_once()
        assert files_of(w, stuck)
        assert not files_of(w, other)
        assert f"could not remove what the deletion of topic alice/{stuck.name}" in caplog.text


async def test_a_topic_that_is_being_deleted_is_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as w:
        topic = await w.topic(ALICE)
        await w.put(ALICE, topic, 0, 3)

        async def refuse(*_: object) -> None:
            raise StoreUnavailable("away")

        monkeypatch.setattr(w.broker.context.log, "delete_topic", refuse)
        await w.broker.topics.delete_topic(ALICE, topic.resource)
        await w.broker.unknown_topics.run_once()
        assert w.broker.unknown_topics.found == []
        assert files_of(w, topic)


async def test_a_topic_that_another_server_has_just_made_is_known() -> None:
    async with world() as w:
        topic = replace(await w.topic(ALICE), uuid="ff" * 16, name="new")
        await w.broker.context.topics.close()  # the watch has not seen it yet
        stored = w.broker.unknown_topics._stored
        with_files = stored.with_files

        async def then_made() -> dict[str, dict[int, list[str]]]:
            path = "topics/alice/new"
            await MemoryMetaStore(w.storage).create(path, encode_topic(topic))
            w.storage.files[f"{topic.uuid}/0/{0:020d}-1.log"] = StoredFile(bytearray(b"x" * 99))
            return await with_files()

        stored.with_files = then_made  # type: ignore[method-assign]
        await w.broker.unknown_topics.run_once()
        assert w.broker.unknown_topics.found == []


async def test_partitions_that_another_server_has_just_added_are_known() -> None:
    async with world() as w:
        topic = await w.topic(ALICE)
        await w.put(ALICE, topic, 0, 3)
        (path,) = [path for path in files_of(w, topic) if path.endswith(".log")]
        w.storage.files[path.replace("/0/", "/2/")] = w.storage.files[path]
        larger = replace(topic, partitions=3, consumer_partitions=3, partitions_ever=3)
        record = w.storage.records["topics/alice/t"].record
        meta = MemoryMetaStore(w.storage)
        await meta.replace("topics/alice/t", encode_topic(larger), record.version)
        await w.broker.unknown_topics.run_once()
        assert w.broker.unknown_topics.found == []


async def test_a_deletion_that_ends_during_the_comparison_leaves_no_alarm() -> None:
    async with world() as w:
        topic = await w.topic(ALICE)
        await w.put(ALICE, topic, 0, 3)
        stored = w.broker.unknown_topics._stored
        with_manifests = stored.with_manifests

        async def then_deleted() -> object:
            found = await with_manifests()
            await w.broker.topics.delete_topic(ALICE, topic.resource)
            return found

        stored.with_manifests = then_deleted  # type: ignore[assignment]
        await w.broker.unknown_topics.run_once()
        assert w.broker.unknown_topics.found == []
        assert w.broker.unknown_topics.leftovers_removed == 0


async def test_partitions_beyond_those_of_an_older_record_are_named_and_come_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as w:
        topic = await w.topic(ALICE, partitions=3)
        for partition in range(3):
            await w.put(ALICE, topic, partition, 3)
        await w.broker.close()
        record = w.storage.records["topics/alice/t"]
        older = replace(topic, partitions=1, consumer_partitions=1, partitions_ever=1)
        record.record = w.storage.record(encode_topic(older), record.record.version)
        await w.restart()
        before = files_of(w, topic)
        await w.broker.unknown_topics.run_once()
        assert f"topic alice/t ({topic.uuid}) has 1 by its record" in caplog.text
        assert "stored: partitions 1-2, segments: 2" in caplog.text
        assert "talos topic set-partitions alice/t 3" in caplog.text
        assert files_of(w, topic) == before


async def test_names_in_the_log_are_bounded(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_topics, "LOGGED_MAX", 2)
    async with world() as w:
        for number in range(5):
            w.storage.files[f"lost{number}/0/{0:020d}-1.log"] = StoredFile(bytearray(b"x" * 99))
        await w.broker.unknown_topics.run_once()
        assert len(w.broker.unknown_topics.found) == 5
        assert caplog.text.count("unknown-topic: files of a topic") == 2
        assert "and 3 more topics" in caplog.text


async def test_deletions_of_long_ago_are_forgotten_unless_the_clock_is_in_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w:
        topic = await w.topic(ALICE)
        await w.broker.topics.delete_topic(ALICE, topic.resource)
        deleted, time = w.broker.context.topics.deleted, type(w.broker.context.log.time)
        for now_ms, known in ((None, True), (w.clock.now_ms + KEPT_MS + 1, False)):
            monkeypatch.setattr(time, "retention_ms", lambda _, now_ms=now_ms: now_ms)
            await w.broker.unknown_topics.run_once()
            assert (await deleted.find(topic.uuid) is not None) is known


async def found_by_the_loop(broker: Broker) -> None:
    await eventually_async("the topic is found", lambda: bool(broker.unknown_topics.found))


async def test_only_the_server_that_leads_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as w:
        await lost(w)
        leads = True
        monkeypatch.setattr(w.broker.context.ownership, "leads", lambda: leads)
        await found_by_the_loop(w.broker)
        leads = False
        unknown = w.broker.unknown_topics
        await eventually_async("what was found is forgotten", lambda: not unknown.found)
        leads = True
        await found_by_the_loop(w.broker)


async def test_the_loop_continues_after_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[Exception] = [RuntimeError("unexpected"), StoreUnavailable("away")]
    compare = unknown_topics.compare

    async def fails_twice(*given: object) -> unknown_topics.Comparison:
        if errors:
            raise errors.pop()
        return await compare(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(unknown_topics, "compare", fails_twice)
    async with world() as w:
        await lost(w)
        await found_by_the_loop(w.broker)
