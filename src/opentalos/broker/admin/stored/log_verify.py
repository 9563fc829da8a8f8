"""Offline verification of stored logs, for the command line."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from opentalos.broker.admin.stored.unknown_topics import Leftover, UnknownTopic, compare
from opentalos.catalog.topics.topic import Topic
from opentalos.catalog.topics.topics import TopicCatalog, all_by_uuid
from opentalos.log.maintenance.verify import Finding, Kind, LogVerifier
from opentalos.log.manifest.stored_topics import on_stopped_storage
from opentalos.model.errors import CorruptLog, NewerFormat
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore

NO_PARTITION: Final = -1  # of a line about a whole topic


class VerifySummary(NamedTuple):
    """What was checked and how it went."""

    partitions: int
    segments: int
    blocks: int
    bytes: int
    problems: int  # damaged places
    rebuildable: int  # side indexes that can be rebuilt
    repaired: int  # side indexes that were rebuilt


class Line(NamedTuple):
    """One line of the report; see docs/operating/single-server.md."""

    kind: str  # damage, rebuildable, repaired or note
    topic: str  # OWNER/NAME; empty: no topic of that uuid is known
    topic_uuid: str
    partition: int  # -1: none
    file: str  # empty: the partition or the topic as a whole
    position: int  # in the file; -1: none
    offset: int  # of a message; -1: none
    text: str

    @property
    def problem(self) -> bool:
        """Whether something is lost or wrong."""
        return self.kind == Kind.DAMAGE.value


async def verify_logs(
    files: FileStore,
    meta: MetaStore,
    report: Callable[[Line], None],
    progress: Callable[[int, int], None],
    *,
    repair: bool = False,
) -> VerifySummary:
    """Check every log of the stores, which no server may use meanwhile.

    Args: report: called with each finding. progress: segments done, of how many. repair: rebuild
        side indexes; without it nothing is written.
    """
    kinds = dict.fromkeys(Kind, 0)
    topics: Mapping[str, Topic] = {}
    left: set[str] = set()  # topics that were deleted
    catalog = TopicCatalog(meta)
    try:
        await catalog.start()
        topics = await all_by_uuid(catalog)
        found = await compare(on_stopped_storage(files, meta), catalog)
        left = {leftover.topic.uuid for leftover in found.leftovers}
        for line in (*map(_unknown_line, found.unknown), *map(_left_line, found.leftovers)):
            kinds[Kind(line.kind)] += 1
            report(line)
    except (CorruptLog, NewerFormat) as error:
        kinds[Kind.DAMAGE] += 1
        report(_topic_line(Kind.DAMAGE, "", "", f"the catalogue of topics: {error}"))
    finally:
        await catalog.close()
    names = {uuid: f"{topic.owner}/{topic.name}" for uuid, topic in topics.items()}
    verifier = LogVerifier(files, meta, names=names, repair=repair)
    partitions = [key for key in await verifier.partitions() if key.topic_uuid not in left]
    counts = [await verifier.segments(key) for key in partitions]
    total, done = sum(counts), 0

    def on_segment() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    for key in partitions:
        async for finding in verifier.check(key, on_segment):
            kinds[finding.kind] += 1
            report(_line(finding, names))
    return VerifySummary(
        *(len(partitions), total, verifier.blocks, verifier.bytes),
        *(kinds[Kind.DAMAGE], kinds[Kind.REBUILDABLE], kinds[Kind.REPAIRED]),
    )


def damage_of_databases(text: str) -> Line:
    """A line about what is stored beside the logs."""
    return _topic_line(Kind.DAMAGE, "", "", text)


def _line(finding: Finding, names: Mapping[str, str]) -> Line:
    kind, (topic_uuid, partition), text, file, position, offset = finding
    name = names.get(topic_uuid, "")
    return Line(kind.value, name, topic_uuid, partition, file, position, offset, text)


def _unknown_line(unknown: UnknownTopic) -> Line:
    line = _topic_line(Kind.DAMAGE, unknown.name, unknown.uuid, unknown.text)
    return line._replace(file=unknown.example)


def _left_line(leftover: Leftover) -> Line:
    uuid, owner, name, _ = leftover.topic
    text = f"topic {owner}/{name} ({uuid}) was deleted: what is left of it is removed after a start"
    return _topic_line(Kind.NOTE, f"{owner}/{name}", uuid, text)


def _topic_line(kind: Kind, name: str, topic_uuid: str, text: str) -> Line:
    return Line(kind.value, name, topic_uuid, NO_PARTITION, "", -1, -1, text)
