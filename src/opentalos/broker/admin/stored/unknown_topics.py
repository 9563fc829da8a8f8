"""Compares what is stored with the catalogue: finds topics that were lost, and leftovers.

Messages of a topic that the catalogue does not know are good data if the catalogue is older than
they are: a copy of the metadata was put back, or its store lost the last changes. So nothing of
them is deleted: they are named, in the server's log, in alarms and by ``talos log verify``, until
an operator puts the newer metadata back or adopts them (``talos log adopt``). Only what belongs to
a deletion that is on record (``catalog/topics/deleted.py``) is a leftover, and removed.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.catalog.topics.deleted import DeletedTopic, DeletedTopics
from opentalos.catalog.topics.topic import Topic, TopicStatus
from opentalos.catalog.topics.topics import TopicCatalog, all_by_uuid, read_again
from opentalos.log.log_store import stored_topics, use_deletions
from opentalos.log.manifest.stored_topics import (
    Partitions,
    StoredTopics,
    first_offset,
    is_segment,
)
from opentalos.model.errors import CorruptLog, NewerFormat, TalosError
from opentalos.model.message import PartitionKey

_LOG = logging.getLogger("opentalos.topics")

LEADS_CHECK_S: Final = 1.0
FIRST_S: Final = 5.0  # after the start, or after this server took over the lead
INTERVAL_S: Final = 86_400.0
FOUND_INTERVAL_S: Final = 3_600.0  # while something is unknown: it may be put right
RETRY_S: Final = 60.0  # after an error
LOGGED_MAX: Final = 100  # topics in one pass
SWEEP_PAUSE_S: Final = 0.05  # between folders of deletions, of which there are 256
TOPICS_PER_TURN: Final = 4_096  # compared before other work has its turn
_RANGES_MAX: Final = 10  # of partitions in a text


class UnknownTopic(NamedTuple):
    """A topic, or partitions of one, that is stored and not in the catalogue."""

    uuid: str
    partitions: Partitions
    topic: Topic | None = None  # in the catalogue, with fewer partitions

    @property
    def name(self) -> str:
        """OWNER/NAME of a topic that lacks partitions; of one that is unknown, nothing."""
        return "" if self.topic is None else f"{self.topic.owner}/{self.topic.name}"

    @property
    def example(self) -> str:
        """A file of it; empty: only manifests are left."""
        return next((path for path in self._segments()), "")

    @property
    def text(self) -> str:
        """What is stored, and what to do about it."""
        return f"{self._what()}: {self._stored()}. {self._remedy()}"

    def _what(self) -> str:
        if self.topic is None:
            return (
                f"files of a topic that the catalogue does not know: topic {self.uuid} has no "
                "record, and no deletion of it is on record"
            )
        return (
            "files of partitions that the catalogue does not know: topic "
            f"{self.name} ({self.uuid}) has {self.topic.partitions_ever} by its record"
        )

    def _stored(self) -> str:
        segments = list(self._segments())
        offsets = [offset for path in segments if (offset := first_offset(path)) is not None]
        several = "partitions" if len(self.partitions) > 1 else "partition"
        text = f"stored: {several} {_ranges(self.partitions)}, segments: {len(segments)}"
        if offsets:
            text += f", base offsets: {min(offsets)} to {max(offsets)}"
        return f"{text}, such as {segments[0]}" if segments else text

    def _remedy(self) -> str:
        text = "Nothing is deleted. If the metadata is older than the files, put the newer one back"
        if self.topic is None:
            return f"{text}; or stop all servers and run: talos log adopt {self.uuid} OWNER/NAME"
        return f"{text}; or run: talos topic set-partitions {self.name} {max(self.partitions) + 1}"

    def _segments(self) -> Iterable[str]:
        return (path for paths in self.partitions.values() for path in paths if is_segment(path))


class Leftover(NamedTuple):
    """What a deletion left."""

    topic: DeletedTopic
    partitions: Partitions


class Comparison(NamedTuple):
    """What is stored and not in the catalogue."""

    unknown: list[UnknownTopic]
    leftovers: list[Leftover]
    stored: set[str]  # every uuid of which something is stored


async def compare(stored: StoredTopics, catalog: TopicCatalog) -> Comparison:
    """Compare the stores with the catalogue. Raises: Unavailable.

    The order makes it safe beside changes: a topic's record is made before its files, and the
    record of its deletion before that goes.
    """
    files = await stored.with_files()
    found = Comparison([], [], {*files, *await stored.with_manifests()})
    topics = await all_by_uuid(catalog, found.stored)
    for number, uuid in enumerate(sorted(found.stored)):
        if number % TOPICS_PER_TURN == 0:
            await asyncio.sleep(0)
        topic, of_topic = topics.get(uuid), files.get(uuid, {})
        if topic is None:
            partitions = await stored.partitions(uuid, of_topic)
            dead = await _deletion(catalog.deleted, uuid)
            if dead is not None:
                found.leftovers.append(Leftover(dead, partitions))
                continue
        elif topic.status is TopicStatus.ACTIVE:
            partitions = _beyond(topic, of_topic)
            if partitions:  # another server may have just added them
                topic = await read_again(catalog, topic)
                partitions = _beyond(topic, of_topic)
        else:
            continue  # it is being deleted
        if await _have_messages(stored, uuid, partitions):
            found.unknown.append(UnknownTopic(uuid, partitions, topic))
    return found


def _beyond(topic: Topic, partitions: Partitions) -> Partitions:
    """Partitions that the topic never had, by its record."""
    return {n: partitions[n] for n in sorted(partitions) if n >= topic.partitions_ever}


async def _deletion(deleted: DeletedTopics, uuid: str) -> DeletedTopic | None:
    try:
        return await deleted.find(uuid)
    except (CorruptLog, NewerFormat) as error:  # it proves nothing
        _LOG.warning("the deletion of topic %s cannot be read: %s", uuid, error)
        return None


async def _have_messages(stored: StoredTopics, uuid: str, partitions: Partitions) -> bool:
    for number, paths in partitions.items():
        if await stored.has_messages(PartitionKey(uuid, number), paths):
            return True
    return False


def _ranges(numbers: Iterable[int]) -> str:
    """Such as ``0-3, 7``."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    texts = [f"{low}-{high}" if low < high else f"{low}" for low, high in found[:_RANGES_MAX]]
    return ", ".join(texts) + (", ..." if len(found) > _RANGES_MAX else "")


class UnknownTopics:
    """One loop per server: shortly after the start and once a day; in a cluster only the leader's.

    ``found`` has what the latest pass found, for alarms; a server that does not lead has nothing.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context, self._stored = context, stored_topics(context.log)
        use_deletions(context.log, self._is_deleted)
        self.found: Sequence[UnknownTopic] = ()
        self.leftovers_removed = 0  # files, since the start
        self._logged: set[str] = set()  # of those found
        self._due_s: float | None = None  # None: this server does not lead
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the loop."""
        self._task = asyncio.create_task(self._run(), name="unknown topics")

    async def close(self) -> None:
        """Stop; what is left is found after the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def run_once(self) -> None:
        """One pass over all that is stored. Raises: TalosError: harmless."""
        found = await compare(self._stored, self._context.topics)
        self.found = found.unknown
        self._log(found.unknown)
        for leftover in found.leftovers:
            await self._remove(leftover)
        await self._sweep(found.stored)

    async def _is_deleted(self, uuid: str) -> bool:
        return await _deletion(self._context.topics.deleted, uuid) is not None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LEADS_CHECK_S)
            if not self._context.ownership.leads():
                self.found, self._due_s = (), None
                continue
            if self._due_s is None:
                self._due_s = loop.time() + FIRST_S
            if loop.time() < self._due_s:
                continue
            pause_s = RETRY_S
            try:
                await self.run_once()
                pause_s = FOUND_INTERVAL_S if self.found else INTERVAL_S
            except TalosError as error:
                _LOG.warning("could not compare the stored topics with the catalogue: %s", error)
            except Exception:
                # Without this loop a lost topic would stay unseen.
                _LOG.exception("the comparison of stored topics failed, will retry")
            self._due_s = loop.time() + pause_s

    def _log(self, unknown: Sequence[UnknownTopic]) -> None:
        """Each once per start, as long as it is found."""
        self._logged &= {topic.uuid for topic in unknown}
        new = [topic for topic in unknown if topic.uuid not in self._logged]
        for topic in new[:LOGGED_MAX]:
            _LOG.error("unknown-topic: %s", topic.text)
        if len(new) > LOGGED_MAX:
            more = len(new) - LOGGED_MAX
            _LOG.error("unknown-topic: and %d more topics; talos log verify lists all", more)
        self._logged.update(topic.uuid for topic in new)

    async def _remove(self, leftover: Leftover) -> None:
        """A late write of a former owner made files after the deletion."""
        uuid, owner, name, _ = leftover.topic
        try:
            paths = await self._stored.remove_files(uuid)
            await self._context.log.delete_topic(uuid, 0)  # what has a manifest
        except TalosError as error:
            text = "could not remove what the deletion of topic %s/%s (%s) left, will retry: %s"
            _LOG.warning(text, owner, name, uuid, error)
            return
        self.leftovers_removed += len(paths)
        if paths:
            text = "removed what the deletion of topic %s/%s (%s) left: files=%d, such as %s"
            _LOG.info(text, owner, name, uuid, len(paths), paths[0])

    async def _sweep(self, stored: set[str]) -> None:
        """Forget deletions of long ago. A wrong clock forgets none."""
        now_ms = self._context.log.time.retention_ms()
        if now_ms is None:
            return
        deleted = self._context.topics.deleted
        for folder in await deleted.folders():
            await deleted.sweep(folder, now_ms, stored)
            await asyncio.sleep(SWEEP_PAUSE_S)
