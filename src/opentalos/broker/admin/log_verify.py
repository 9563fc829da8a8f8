"""Offline verification of stored logs, for the command line."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from opentalos.catalog.topics.topics import TopicCatalog
from opentalos.log.maintenance.verify import Finding, Kind, LogVerifier
from opentalos.model.errors import CorruptLog
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore


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
    partition: int
    file: str  # empty: the partition as a whole
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
    names = await _topic_names(meta)
    verifier = LogVerifier(files, meta, names=names, repair=repair)
    partitions = await verifier.partitions()
    counts = [await verifier.segments(key) for key in partitions]
    total, done = sum(counts), 0
    kinds = dict.fromkeys(Kind, 0)

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


def _line(finding: Finding, names: Mapping[str, str]) -> Line:
    kind, (topic_uuid, partition), text, file, position, offset = finding
    name = names.get(topic_uuid, "")
    return Line(kind.value, name, topic_uuid, partition, file, position, offset, text)


async def _topic_names(meta: MetaStore) -> Mapping[str, str]:
    """OWNER/NAME by uuid; none if the topics cannot be read, which is no damage of a log."""
    catalog = TopicCatalog(meta)
    try:
        await catalog.start()
    except CorruptLog:
        return {}
    names = {topic.uuid: f"{topic.owner}/{topic.name}" for topic in catalog.all()}
    await catalog.close()
    return names
