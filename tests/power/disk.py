"""What a power cut may leave of a directory: the rules of a disk, applied to a recorded process.

A file is what it was at the last cut, and the writes and truncations since then. A directory is its
entries and their changes since then. A change is durable when a sync of that file or directory was
called after the change had returned, and has returned itself; a write with RWF_DSYNC also when it
returns, for its own bytes. A sync that failed is never made up for: the kernel takes those pages
for clean. Nothing else is: no order of writes, no entry of a file that was synced,
no size. Durable are:

- all durable changes;
- of the other changes of a file: each of its sectors, or pages, as it was at any moment since its
  last durable change, since the kernel writes a page back whole; the size as it was at any such
  moment, too, with zeros where no page was written; truncations keep their place;
- of the other changes of directories any subset, in order. An entry below a directory whose own
  entry is lost is lost as well.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

from tests.power.journal import Kind, Record

T = TypeVar("T")

SECTOR, PAGE = 512, 4096
SHARED_MEMORY = "-shm"  # of SQLite: memory of processes, rebuilt after their end
_ENTRIES = {Kind.CREATE, Kind.MKDIR, Kind.RENAME, Kind.LINK, Kind.UNLINK, Kind.RMDIR}
_CONTENTS = {Kind.WRITE, Kind.TRUNCATE, Kind.ALLOCATE}


@dataclass(slots=True, eq=False)
class Change:
    """A write, or a truncation to ``position``, or a growth to it, or a change of entries."""

    record: Record
    target: "File | Folder | None" = None  # of a new entry
    ended: int | None = None  # index of its second record; None: under way
    durable: bool = False
    given_up: bool = False  # its sync failed
    data: bytes = b""  # that the kernel took


@dataclass(slots=True, eq=False)
class File:
    """Its content at the last cut, and the changes since."""

    base: bytes = b""
    changes: list[Change] = field(default_factory=list)

    def whole(self) -> bytes:
        """With every change that returned."""
        content = bytearray(self.base)
        for change in self.changes:
            if change.ended is not None:
                _apply(content, change, change.data)
        return bytes(content)

    @property
    def busy(self) -> bool:
        """A change is under way."""
        return any(change.ended is None for change in self.changes)


@dataclass(slots=True, eq=False)
class Folder:
    """A directory; its entries are in the disk's tree."""


Tree = dict[str, File | Folder]  # by path below the root, parents first
Ignored = Callable[[Kind, str], bool]  # a sync that is taken for none, by its kind and path


def nothing_ignored(_kind: Kind, _path: str) -> bool:
    """Every sync counts."""
    return False


class Before:
    """A directory before a process uses it: all of it is durable."""

    def __init__(self, root: Path) -> None:
        self.paths = {root.stat().st_ino: ""}  # by inode
        self.contents: dict[str, bytes | None] = {"": None}  # None: a directory
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            self.paths[path.stat().st_ino] = name
            self.contents[name] = None if path.is_dir() else path.read_bytes()


class Disk:
    """Replays a journal on the directory as it was before the process."""

    def __init__(self, before: Before, ignored: Ignored = nothing_ignored) -> None:
        self._ignored = ignored
        self._before: Tree = {
            name: Folder() if content is None else File(content)
            for name, content in before.contents.items()
        }
        self._paths = dict(before.paths)  # names under which syncs may be ignored
        self._inodes = {inode: self._before[name] for inode, name in self._paths.items()}
        del self._before[""]
        self._changes: list[Change] = []  # of directories
        self._open: dict[str, list[Change]] = {}  # of them, by directory: a sync may still count
        self._calls: dict[int, tuple[int, Change | None]] = {}  # under way, by number

    def replay(self, records: Iterable[Record]) -> "Disk":
        """Take a process's calls."""
        for index, record in enumerate(records):
            if record.kind is Kind.FORBIDDEN:
                assert record.paths[0].endswith(SHARED_MEMORY), f"not recorded: {record.paths}"
            elif not record.ended:
                self._begin(index, record)
            else:
                began, change = self._calls.pop(record.call)
                self._end(index, began, change, record)
        return self

    def whole(self) -> Tree:
        """Every change that returned."""
        tree = dict(self._before)
        for change in self._changes:
            if change.ended is not None:
                _apply_entry(tree, change)
        return tree

    @property
    def busy_names(self) -> set[str]:
        """Names that a call under way adds or removes."""
        return {name for each in self._changes if each.ended is None for name in each.record.paths}

    def after_a_cut(self, draw: Random) -> dict[str, bytes | None]:
        """One possible outcome: content by path; None: a directory."""
        tree = dict(self._before)
        keep = _subset(draw, [change for change in self._changes if not change.durable])
        for change in self._changes:
            if change.durable or change in keep:
                _apply_entry(tree, change)
        left: dict[str, bytes | None] = {}
        unit = draw.choice((SECTOR, PAGE))
        for name, item in sorted(tree.items()):
            if not name.endswith(SHARED_MEMORY):
                left[name] = _content(item, draw, unit) if isinstance(item, File) else None
        return left

    def _begin(self, index: int, record: Record) -> None:
        change = None
        if record.kind in _CONTENTS:
            change = Change(record, data=record.data)
            file = self._inodes[record.inode]
            assert isinstance(file, File), record
            file.changes.append(change)
        elif record.kind in _ENTRIES:
            change = Change(record)
            if record.kind is Kind.CREATE:
                change.target = File()
            elif record.kind is Kind.MKDIR:
                change.target = Folder()
            self._changes.append(change)
            for parent in _parents(record):
                self._open.setdefault(parent, []).append(change)
        self._calls[record.call] = (index, change)

    def _end(self, index: int, began: int, change: Change | None, record: Record) -> None:
        if change is None:
            self._sync(began, record)
            return
        if record.result < 0:
            self._undo(change)
            return
        change.ended = index
        if record.kind is Kind.WRITE:
            change.data = change.data[: record.result]
            synced = change.record.synced
            change.durable = synced and not self._ignored(Kind.WRITE, self._paths[record.inode])
        elif change.target is not None:
            self._inodes[record.inode] = change.target
            self._paths[record.inode] = change.record.paths[0]
        elif record.kind is Kind.RENAME:
            old, new = change.record.paths
            renamed = [inode for inode, name in self._paths.items() if name == old]
            self._paths |= dict.fromkeys(renamed, new)

    def _undo(self, change: Change) -> None:
        """The call failed."""
        if change.record.kind in _ENTRIES:
            self._changes.remove(change)
            for parent in _parents(change.record):
                self._open[parent].remove(change)
            return
        file = self._inodes[change.record.inode]
        assert isinstance(file, File)
        file.changes.remove(change)

    def _sync(self, began: int, record: Record) -> None:
        """All that returned before the sync began is durable, or will not be if it failed."""
        if record.kind is Kind.SYNC_ALL:
            items = list(self._inodes.items())
        else:
            items = [(record.inode, self._inodes[record.inode])]
        for inode, item in items:
            path = self._paths[inode]
            if self._ignored(Kind.SYNC, path):
                continue
            if isinstance(item, File):
                changes = item.changes
            else:
                changes = self._open.pop(path, [])
            for change in changes:
                if change.ended is None or change.ended > began or change.given_up:
                    continue
                change.given_up = record.result < 0 and not change.durable
                change.durable |= record.result >= 0
            if isinstance(item, Folder):
                self._open[path] = [each for each in changes if not (each.durable or each.given_up)]


class NothingKept(Random):
    """Draws the least that a cut may leave."""

    def randrange(self, *_: int) -> int:  # type: ignore[override]
        """No change that is not durable."""
        return 0

    def random(self) -> float:
        """No page, no size."""
        return 1.0

    def choice(self, options: Sequence[T]) -> T:  # type: ignore[override]
        """Any: nothing is kept."""
        return options[0]


def check_complete(disk: Disk, root: Path) -> None:
    """The recorder missed nothing: a replay of everything gives the directory as it is."""
    busy = disk.busy_names
    wanted = {name: item for name, item in disk.whole().items() if _checked(name, busy)}
    found = {path.relative_to(root).as_posix() for path in root.rglob("*")}
    found = {name for name in found if _checked(name, busy)}
    assert found == set(wanted), f"not recorded: {found ^ set(wanted)}"
    for name, item in wanted.items():
        if isinstance(item, File) and not item.busy:
            assert (root / name).read_bytes() == item.whole(), f"not recorded: {name}"


def write_directory(root: Path, left: dict[str, bytes | None]) -> None:
    """Replace what is below ``root``."""
    for path in root.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name, content in left.items():
        if content is None:
            (root / name).mkdir(mode=0o700)
        else:
            (root / name).write_bytes(content)
            os.chmod(root / name, 0o600)


def _checked(name: str, busy: set[str]) -> bool:
    return name not in busy and not name.endswith(SHARED_MEMORY)


def _parents(record: Record) -> set[str]:
    return {_parent(name) for name in record.paths}


def _parent(name: str) -> str:
    return name.rpartition("/")[0]


def _apply_entry(tree: Tree, change: Change) -> None:
    kind, names = change.record.kind, change.record.paths
    parent = _parent(names[-1])
    if parent and parent not in tree:
        return
    if kind in (Kind.CREATE, Kind.MKDIR):
        if change.target is not None:
            tree[names[0]] = change.target
    elif kind is Kind.UNLINK:
        tree.pop(names[0], None)
    elif kind is Kind.RMDIR:
        if not any(name.startswith(f"{names[0]}/") for name in tree):
            tree.pop(names[0], None)
    elif names[0] in tree:
        item = tree[names[0]]
        assert isinstance(item, File), f"a directory was renamed: {names}"
        if kind is Kind.RENAME:
            del tree[names[0]]
        tree[names[1]] = item


def _apply(content: bytearray, change: Change, data: bytes) -> None:
    position, kind = change.record.position, change.record.kind
    if kind is Kind.TRUNCATE:
        del content[position:]
    if kind is not Kind.WRITE or data:
        content.extend(bytes(max(0, position - len(content))))
    if kind is Kind.WRITE:
        content[position : position + len(data)] = data


def _subset(draw: Random, changes: list[Change]) -> set[Change]:
    """None, all, a beginning or any of them."""
    how = draw.randrange(4)
    if how == 0:
        return set()
    if how == 1:
        return set(changes)
    if how == 2:
        return set(changes[: draw.randint(0, len(changes))])
    return {change for change in changes if draw.random() < 0.5}


def _content(file: File, draw: Random, unit: int) -> bytes:
    """The file as its size was at one moment, and each unit of it as it was at another."""
    changes = file.changes
    least = max((n for n, each in enumerate(changes) if each.durable), default=-1)
    how = draw.randrange(3)
    now = (
        least
        if how == 0
        else len(changes) - 1
        if how == 1
        else draw.randint(least, len(changes) - 1)
    )
    truncated = (n for n, each in enumerate(changes) if each.record.kind is Kind.TRUNCATE)
    stop = next((n for n in truncated if n > now), len(changes))
    limits = _limits(changes[:stop], draw, unit)
    content, size = bytearray(file.base), len(file.base)
    for number, change in enumerate(changes[:stop]):
        if change.record.kind is Kind.TRUNCATE:
            _apply(content, change, b"")
        else:
            _apply_units(content, change, number, limits, unit)
        if number <= now:
            size = _size_after(size, change, draw, unit, whole=number < now or change.durable)
    del content[size:]
    content.extend(bytes(size - len(content)))
    return bytes(content)


def _limits(changes: Sequence[Change], draw: Random, unit: int) -> dict[int, int]:
    """The last change that reached the disk, by unit. A unit has all that came before it."""
    touched: dict[int, list[int]] = {}
    durable: dict[int, int] = {}
    for number, change in enumerate(changes):
        for place in _units(change, unit):
            touched.setdefault(place, []).append(number)
            if change.durable:
                durable[place] = number
    how, common = draw.randrange(4), draw.randint(-1, len(changes))
    limits: dict[int, int] = {}
    for place, numbers in touched.items():
        chosen = (-1, numbers[-1], common, draw.choice((-1, *numbers)))[how]
        limits[place] = max(chosen, durable.get(place, -1))
    return limits


def _units(change: Change, unit: int) -> range:
    start = change.record.position
    stop = start + len(change.data) if change.record.kind is Kind.WRITE else start
    return range(start // unit, (stop + unit - 1) // unit if stop > start else start // unit)


def _apply_units(
    content: bytearray, change: Change, number: int, limits: dict[int, int], unit: int
) -> None:
    position, data = change.record.position, change.data
    for place in _units(change, unit):
        if number <= limits[place]:
            start, stop = max(position, place * unit), min(position + len(data), (place + 1) * unit)
            content.extend(bytes(max(0, start - len(content))))
            content[start:stop] = data[start - position : stop - position]


def _size_after(size: int, change: Change, draw: Random, unit: int, *, whole: bool) -> int:
    """Of a write that is not durable any page may have been the last that the size covers."""
    record = change.record
    if record.kind is Kind.TRUNCATE:
        return record.position
    end = record.position + (len(change.data) if record.kind is Kind.WRITE else 0)
    if not whole and end > size and draw.randrange(3) == 2:
        end = draw.randrange(size, end) // unit * unit
    return max(size, end)
