"""A server's data directory as it was when it ended, with copies of it from before, and what in it
may be damaged.

It is made by three runs of a server. Copies are made while the process is stopped by a signal,
which leaves what a crash at that moment would have left.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.faults.damages.choice import Target
from tests.faults.damages.contents import (
    LOG,
    META,
    ROWS,
    SHM,
    WAL,
    Contents,
    key_of,
    proven_by,
    read_contents,
    read_manifests,
)
from tests.faults.damages.known import JOURNALS, Known
from tests.faults.damages.workload import Workload, config_of
from tests.server_process import ServerProcess


class Shape(NamedTuple):
    """Whether the server has a journal, and how it ends."""

    journal: str
    killed: bool

    def __str__(self) -> str:
        return f"journal {self.journal}, {'killed' if self.killed else 'stopped'}"


# Half of all damages happen to a server that was killed and has a journal: most is at stake there.
SHAPES = (Shape("on", True), Shape("on", False), Shape("on", True), Shape("off", True))


def shape_of(seed: int) -> Shape:
    """The world in which the damage of a seed happens."""
    return SHAPES[seed % len(SHAPES)]


@dataclass
class World:
    """What was acknowledged, and the files."""

    folder: Path
    config: str
    known: Known
    copies: Sequence[Path]
    contents: dict[str, Contents] = field(default_factory=dict)  # of each file, by its path
    open_paths: frozenset[str] = frozenset()  # of segments that are not sealed

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def read_files(self) -> None:
        """Take in what each file proves."""
        for name in files_of(self.data):
            self.contents[name] = read_contents(name, (self.data / name).read_bytes())
        manifests = read_manifests(self.data)
        for key, manifest in manifests.items():
            self.contents[META].prove(key, proven_by(manifest))
        self.known.prove_positions(self.contents[ROWS])
        unsealed = [(key, manifest.unsealed) for key, manifest in manifests.items()]
        self.open_paths = frozenset(f"log/{last.path(key)}" for key, last in unsealed if last)

    def targets(self) -> list[Target]:
        """Every file, and the sets of files that are put back together."""
        return [*self._files(), *self._sets()]

    def _files(self) -> Iterator[Target]:
        for name, contents in self.contents.items():
            label = self.known.label(name, self.contents)
            size = (self.data / name).stat().st_size
            ends, older = tuple(contents.ends), self._older((name,))
            yield Target(self._group(name), label, (name,), size, ends, older)

    def _sets(self) -> Iterator[Target]:
        names = sorted(
            {name for copy in self.copies for name in files_of(copy)} | set(self.contents)
        )
        databases = [name for name in names if name.startswith((META, ROWS))]
        logs = [name for name in names if name.startswith(LOG)]
        sets = {
            META: [name for name in databases if name.startswith(META)],
            ROWS: [name for name in databases if name.startswith(ROWS)],
            "databases": databases,
            "log": logs,
            "journals": [name for name in logs if name.startswith(JOURNALS)],
        }
        for name in logs:
            if not name.startswith(JOURNALS):
                sets.setdefault(str(self.known.partition(key_of(name))), []).append(name)
        for label, members in sets.items():
            if older := self._older(members):
                label = f"{label} and all that belongs to it"
                yield Target("several files", label, tuple(members), older=older)

    def _older(self, names: Sequence[str]) -> tuple[int, ...]:
        """Copies that have other bytes in these files."""
        return tuple(
            number
            for number, copy in enumerate(self.copies)
            if any(_bytes_of(copy / name) != _bytes_of(self.data / name) for name in names)
        )

    def _group(self, name: str) -> str:
        if name.endswith(".log"):
            return "open segment" if name in self.open_paths else "sealed segment"
        if name.endswith(SHM):
            return "shared memory of SQLite"
        suffixes = {".idx": "side index", ".jnl": "journal", ".fenced": "fence"}
        for suffix, group in {**suffixes, "/ended": "end of a journal"}.items():
            if name.endswith(suffix):
                return group
        return name if name in (META, ROWS, META + WAL, ROWS + WAL) else "other"


def files_of(folder: Path) -> list[str]:
    """Paths of all files, relative to the folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _bytes_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def make_world(folder: Path, shape: Shape) -> World:
    """Takes about ten seconds."""
    config = config_of(shape.journal)
    server = ServerProcess(folder, config_of(shape.journal, small_segments=True))
    work = Workload(server)
    copies: list[Path] = []

    def copy(*, running: bool = False) -> None:
        copies.append(folder / f"copy-{len(copies)}")
        if running:
            server.pause()
        shutil.copytree(server.data, copies[-1])
        if running:
            server.resume()

    with work.running():
        work.make()
        work.work()
        copy(running=True)
        work.work()
        server.stop()
    copy()
    server.config = config
    with work.running():
        work.work()
        work.wait_merged()
        copy(running=True)
        work.work()
        server.kill()
    copy()
    with work.running():
        work.work()
        copy(running=True)
        work.make_late()
        work.work()
        work.settle()
        copy(running=True)
        work.last_puts()
        if not shape.killed:
            server.stop()
    world = World(folder, config, work.known(), copies)
    world.read_files()
    return world
