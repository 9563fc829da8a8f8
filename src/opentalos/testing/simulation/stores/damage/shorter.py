"""Files that come back shorter: emptied, or cut within a block, a frame or an index; or not at all.

A segment that is gone is known from its manifest, so only files of journals are deleted. A cut
exactly behind a block or frame is left out: nothing in the file shows it. Promise I1 says what is
known of it.
"""

from typing import NamedTuple

from opentalos.testing.simulation.stores.disk import ASIDE, SEGMENT_SUFFIX, SimulatedDisk
from opentalos.testing.simulation.stores.stored_journals import JOURNAL_SUFFIX, SEED, whole_end
from opentalos.testing.simulation.stores.stored_logs import SEGMENT_HEADER_BYTES

INDEX_SUFFIX = ".idx"
KINDS = (SEGMENT_SUFFIX, JOURNAL_SUFFIX, INDEX_SUFFIX)
EMPTIED = 0.3  # of the files; the others are cut
DELETED = 0.5  # of the files of journals that would be emptied
NEAR_END = 0.5  # of the cuts, in the last block or frame


class Cut(NamedTuple):
    """A file that is shorter now, and its content before."""

    path: str
    before: bytes


def shorten(disk: SimulatedDisk) -> Cut | None:
    """Empty or cut a file of any kind, or delete one of a journal; None: there is none."""
    rng = disk.troubles.rng
    kinds = {suffix: _candidates(disk, suffix) for suffix in KINDS}
    found = [suffix for suffix, paths in kinds.items() if paths]
    if not found:
        return None
    path = rng.choice(kinds[rng.choice(found)])
    file = disk.files[path]
    content = bytes(file.content)
    edges = _edges(content) if not path.endswith(INDEX_SUFFIX) else [0, len(content)]
    length = 0
    if rng.random() >= EMPTIED:
        least = edges[-2] if rng.random() < NEAR_END else 0
        places = [at for at in range(least, len(content)) if at not in edges]
        length = rng.choice(places) if places else 0
    disk.used_bytes -= len(content) - length
    del file.content[length:]
    file.flushed_bytes = min(file.flushed_bytes, length)
    file.synced_bytes = min(file.synced_bytes, length)
    file.before_last_bytes = min(file.before_last_bytes, length)
    if file.fenced_bytes is not None:
        file.fenced_bytes = min(file.fenced_bytes, length)
    if path.endswith(JOURNAL_SUFFIX):
        disk.damaged_journals[path] = "shorter"
        if not length and rng.random() < DELETED:
            del disk.files[path]
    return Cut(path, content)


def _candidates(disk: SimulatedDisk, suffix: str) -> list[str]:
    return [
        path
        for path, file in disk.files.items()
        if path.endswith(suffix) and file.content and not path.startswith(ASIDE)
    ]


def _edges(content: bytes) -> list[int]:
    """Where a cut shows nothing: the start, behind the header, behind each block; and the end."""
    edges, at, seed = [0], SEGMENT_HEADER_BYTES, int.from_bytes(content[SEED], "big")
    while at < len(content):
        edges.append(at)
        end = whole_end(content, at, seed)
        if not end:
            break
        at = end
    return [*edges, len(content)]
