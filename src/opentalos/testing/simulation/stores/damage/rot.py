"""Rot: stored bits that flip long after they were written."""

from collections.abc import Iterator
from typing import NamedTuple

from opentalos.testing.simulation.stores.disk import ASIDE, SEGMENT_SUFFIX, SimulatedDisk
from opentalos.testing.simulation.stores.stored_journals import JOURNAL_SUFFIX, name_of_journal

JOURNAL_SHARE = 0.4  # of the flips, where there are journals
ROT_AFTER_S = 0.5  # since a file's last commit: what is younger may still look like a torn write


class Rotten(NamedTuple):
    """A partition that may lack something, and the file that is damaged."""

    topic: str
    partition: int
    path: str


def flip_anywhere(disk: SimulatedDisk) -> str | None:
    """Flip one stored bit anywhere in a file that was not written for a while; once per file.

    A flipped bit in the last commit of a file looks like a torn write, but is none. Returns the
    path of a segment or of a journal's file, if any.
    """
    rng, journals = disk.troubles.rng, _candidates(disk, JOURNAL_SUFFIX)
    of_journal = bool(journals) and rng.random() < JOURNAL_SHARE
    found = journals if of_journal else _candidates(disk, SEGMENT_SUFFIX)
    if not found:
        return None
    path = rng.choice(found)
    file = disk.files[path]
    file.rotten = True
    start = file.before_last_bytes if rng.random() < 0.5 else 0
    file.content[rng.randrange(start, len(file.content))] ^= 1 << rng.randrange(8)
    if of_journal:
        disk.damaged_journals[path] = "rot"
    return path


def rotten_by(disk: SimulatedDisk, path: str) -> Iterator[Rotten]:
    """The partitions that may lack something for it.

    Of a journal all that have ever named it: a partition that named it only after the damage cannot
    prove that.
    """
    if path in disk.damaged_journals:
        for topic, partition in disk.records.journals.get(name_of_journal(path), ()):
            yield Rotten(topic, partition, path)
    else:
        topic, number, _ = path.split("/")
        yield Rotten(topic, int(number), path)


def _candidates(disk: SimulatedDisk, suffix: str) -> list[str]:
    now_s = disk.loop.time()
    return [
        path
        for path, file in disk.files.items()
        if path.endswith(suffix)
        and not path.startswith(ASIDE)
        and file.content
        and not file.rotten
        and now_s - file.committed_s > ROT_AFTER_S
    ]
