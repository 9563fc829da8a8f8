"""Offline verification of stored logs, for the command line."""

from collections.abc import Callable
from typing import NamedTuple

from opentalos.log.maintenance.verify import Finding, LogVerifier
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore


class VerifySummary(NamedTuple):
    """What was checked and how it went."""

    partitions: int
    segments: int
    blocks: int
    bytes: int
    problems: int


async def verify_logs(
    files: FileStore,
    meta: MetaStore,
    report: Callable[[Finding], None],
    progress: Callable[[int, int], None],
) -> VerifySummary:
    """Check every log of the stores, which no server may use meanwhile; read-only.

    Args: report: called with each finding. progress: segments done, of how many.
    """
    verifier = LogVerifier(files, meta)
    partitions = await verifier.partitions()
    counts = [await verifier.segments(key) for key in partitions]
    total, done, problems = sum(counts), 0, 0

    def on_segment() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    for key in partitions:
        async for finding in verifier.check(key, on_segment):
            problems += finding.problem
            report(finding)
    return VerifySummary(len(partitions), total, verifier.blocks, verifier.bytes, problems)
