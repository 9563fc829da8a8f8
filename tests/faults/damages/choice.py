"""Which file of a stopped server is damaged, and how: a pure choice from a seed, and its work."""

import random
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

# How often each group of files is chosen; what holds acknowledged data more often than the rest.
WEIGHTS = {
    "journal": 6,
    "open segment": 5,
    "sealed segment": 3,
    "side index": 2,
    "fence": 1,
    "end of a journal": 1,
    "meta.sqlite": 4,
    "meta.sqlite-wal": 6,
    "rows.sqlite": 4,
    "rows.sqlite-wal": 5,
    "shared memory of SQLite": 1,
    "several files": 5,
    "other": 2,
    # Of a cluster.
    "file in HDFS": 5,
    "row in HBase": 3,
    "file of ZooKeeper": 2,
    "all of ZooKeeper": 3,
}
KIND_WEIGHTS = {"flip": 3, "cut": 4, "empty": 1, "older": 3}
NEAR_END_BYTES = 512


class Kind(StrEnum):
    """What happens to the bytes."""

    FLIP = "flip"  # one bit of one byte
    CUT = "cut"
    EMPTY = "empty"
    OLDER = "older"  # what an earlier copy of the directory has there, which may be nothing


class Target(NamedTuple):
    """A file that may be damaged, or several that an operator would restore together."""

    group: str  # of WEIGHTS
    label: str  # a name that is the same in every run
    files: tuple[str, ...]  # paths in the data directory
    bytes: int = 0  # of the file; 0 if there are several
    ends: tuple[int, ...] = ()  # where its blocks, frames or transactions end
    older: tuple[int, ...] = ()  # the copies in which it is different


class Damage(NamedTuple):
    """One damage; ``str`` says it to a reader."""

    target: Target
    kind: Kind
    position: int = 0  # of the byte that is flipped, or where the file ends from now on
    bit: int = 0
    copy: int = 0  # which earlier copy

    def __str__(self) -> str:
        named = f"{self.target.label} ({self.target.group})"
        if self.kind is Kind.FLIP:
            return f"bit {self.bit} of byte {self.position} of {self.target.bytes} in {named}"
        if self.kind is Kind.CUT:
            return f"{named} cut to {self.position} of {self.target.bytes} bytes"
        if self.kind is Kind.EMPTY:
            return f"{named} emptied, of {self.target.bytes} bytes"
        return f"{named} as in copy {self.copy}"


def kinds_for(target: Target) -> list[Kind]:
    """What can happen to it and changes something."""
    found = [Kind.OLDER] if target.older else []
    if target.bytes:
        found += [Kind.FLIP, Kind.EMPTY]
    if target.bytes > 1:
        found.append(Kind.CUT)
    return found


def choose(seed: int, targets: Sequence[Target]) -> Damage:
    """The damage of a seed; the same for targets with the same labels and sizes."""
    lots = random.Random(seed)
    groups: dict[str, list[Target]] = {}
    for target in sorted(targets, key=lambda each: each.label):
        if kinds_for(target):
            groups.setdefault(target.group, []).append(target)
    names = sorted(groups)
    (name,) = lots.choices(names, [WEIGHTS[each] for each in names])
    target = lots.choice(groups[name])
    kinds = kinds_for(target)
    (kind,) = lots.choices(kinds, [KIND_WEIGHTS[each] for each in kinds])
    if kind is Kind.FLIP:
        return Damage(target, kind, lots.randrange(target.bytes), lots.randrange(8))
    if kind is Kind.CUT:
        return Damage(target, kind, _length(lots, target))
    if kind is Kind.OLDER:
        return Damage(target, kind, copy=lots.choice(target.older))
    return Damage(target, kind)


def _length(lots: random.Random, target: Target) -> int:
    """Anywhere, near the end, or exactly behind something whole: each as often as the others."""
    anywhere = lots.randrange(1, target.bytes)
    near = target.bytes - lots.randint(1, min(NEAR_END_BYTES, target.bytes - 1))
    inner = [end for end in target.ends if 0 < end < target.bytes]
    return lots.choice([anywhere, near, lots.choice(inner) if inner else near])


def changed(damage: Damage, content: bytes, older: bytes | None) -> bytes | None:
    """The file from now on; None: there is none. ``older``: what the chosen copy has there."""
    if damage.kind is Kind.OLDER:
        return older
    if damage.kind is Kind.FLIP:
        flipped = bytearray(content)
        flipped[damage.position] ^= 1 << damage.bit
        return bytes(flipped)
    return content[: damage.position]


def apply(damage: Damage, data: Path, copies: Sequence[Path]) -> None:
    """Damage the files below ``data``."""
    for name in damage.target.files:
        path, former = data / name, copies[damage.copy] / name
        older = former.read_bytes() if former.exists() else None
        content = changed(damage, path.read_bytes() if path.exists() else b"", older)
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
