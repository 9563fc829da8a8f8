"""What the files prove once some of them are damaged."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.faults.damages.choice import Damage, Kind
from tests.faults.damages.contents import LOG, META, ROWS, WAL, Contents, read_contents
from tests.faults.damages.judge import Evidence
from tests.faults.damages.known import JOURNALS, KEY_FACT
from tests.faults.damages.world import World

JOURNAL_FILE = ".jnl"


def evidence_of(world: World, damage: Damage, data: Path) -> Evidence:
    """What names the damage, and what is left that proves messages."""
    files = damage.target.files
    left = [contents for name, contents in world.contents.items() if name not in files]
    left += [_contents(data, name) for name in files]
    return Evidence(
        tuple(_names_of(files)),
        world.known.partition_names(),
        world.known.fact_names(),
        is_earlier(world, damage, data),
        world.known.proven(left),
        frozenset(_unproven_facts(world, files)),
    )


def _contents(data: Path, name: str) -> Contents:
    path = data / name
    return read_contents(name, path.read_bytes()) if path.exists() else Contents()


def is_earlier(world: World, damage: Damage, data: Path) -> bool:
    """Whether what is left is what a crash at an earlier moment could have left in these files."""
    if len(damage.target.files) > 1:
        return True
    (name,) = damage.target.files
    if damage.kind is Kind.FLIP:
        return False
    if name in (META, ROWS):  # with the WAL of another moment it is no state that there was
        wals = data / f"{name}{WAL}", world.copies[damage.copy] / f"{name}{WAL}"
        return damage.kind is Kind.OLDER and not any(wal.exists() for wal in wals)
    left = _contents(data, name)
    if not (data / name).exists() and name.endswith((WAL, JOURNAL_FILE)):
        return name.endswith(WAL)  # a journal says which of its files are needed
    if name.endswith(WAL):
        return left.whole and left.salts in ((), world.contents[name].salts)
    return left.whole and is_last(name, world.contents)


def is_last(name: str, names: Iterable[str]) -> bool:
    """Whether no other file names this one: a file of a journal names the one that follows."""
    if not name.endswith(JOURNAL_FILE):
        return True
    folder = name.rpartition("/")[0]
    files = (each for each in names if each.startswith(folder))
    return name == max(each for each in files if each.endswith(JOURNAL_FILE))


def _unproven_facts(world: World, files: Iterable[str]) -> Iterator[str]:
    """Facts that nothing but these files had.

    A topic has files, and a table rows; so whoever loses only their records can know of them.
    """
    databases = {name.partition("-")[0] for name in files}
    for name in world.known.expected.facts:
        if name.startswith(("row ", "position ")):
            if ROWS in databases:
                yield name
        elif name == KEY_FACT and META in databases:
            yield name


def _names_of(files: Iterable[str]) -> Iterator[str]:
    """What a text may call a damaged file: a path below ``log``, a journal's name, a database."""
    for name in files:
        if name.startswith((META, ROWS)):
            yield META if name.startswith(META) else ROWS
        elif name.startswith(JOURNALS):
            yield name.removeprefix(JOURNALS).partition("/")[0]
        else:
            yield name.removeprefix(LOG)
            yield name.rpartition("/")[2]
