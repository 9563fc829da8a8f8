"""A server process whose power can be cut: its disk then has what a real one may have."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.accelerator import KINDS
from tests.power.disk import Before, Disk, Ignored, check_complete, nothing_ignored, write_directory
from tests.power.journal import (
    Kind,
    Record,
    follow_journal,
    read_journal,
    recorder_environment,
    recorder_library,
)
from tests.server_process import ServerProcess
from tests.waiting import elapse, eventually

POLL_S = 0.001  # a moment that is seen later is over
POLLS = 1_000

Moment = Callable[[Record, str], bool]  # whether a call that begins, on that path, is meant


@dataclass
class PowerServer(ServerProcess):
    """Recorded from ``start`` to ``cut_power``."""

    calls: Counter[Kind] = field(default_factory=Counter)  # recorded in all
    settings: str = ""  # of the next process, beside those that change by turns
    _before: Before | None = field(default=None, repr=False)
    _starts: int = field(default=0, repr=False)

    @property
    def data(self) -> Path:
        """Its parent is the recorded root, so the server has to make its own entry durable."""
        return self.root / "data"

    @property
    def root(self) -> Path:
        """What is recorded."""
        return self.folder / "disk"

    @property
    def journal(self) -> Path:
        """Of the running process."""
        return self.folder / "journal"

    @property
    def faults(self) -> Path:
        """While this file exists, calls on the disk fail now and then."""
        return self.folder / "faults"

    def start(self) -> "PowerServer":
        """Start and wait for the ready line."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.journal.unlink(missing_ok=True)
        self.environment = recorder_environment(
            recorder_library(), self.root, self.journal, self.faults
        )
        self._before = Before(self.root)
        # Cuts hit both kinds of commit threads by turns; each leaves what the other one opens.
        accelerator = KINDS[self._starts % len(KINDS)]
        self.config = f'[storage]\naccelerator = "{accelerator}"\n{self.settings}'
        self._starts += 1
        super().start()
        return self

    def cut_power(self, draw: Random) -> None:
        """Kill it; its directory becomes one that a power cut may leave."""
        self.kill()
        disk = self.replayed()
        check_complete(disk, self.root)
        write_directory(self.root, disk.after_a_cut(draw))

    def wait_moment(self, moment: Moment) -> None:
        """Return when the process begins such a call."""
        moments = self._moments(moment)

        def came() -> bool:
            return any(itertools.islice(moments, POLLS))

        eventually(f"a call of the server {moment.__name__}", came)

    def _moments(self, moment: Moment) -> Iterator[bool]:
        """Whether such a call began since the last time it was asked."""
        made: dict[int, str] = {}  # by call
        names: dict[int, str] = {}  # by inode
        began = self.journal.stat().st_size
        for found in follow_journal(self.journal):
            if found is None:
                yield False
                elapse("the server makes calls", POLL_S)
                continue
            record, end = found
            if record.kind is Kind.CREATE and not record.ended:
                made[record.call] = record.paths[0]
            elif record.kind is Kind.CREATE:
                names[record.inode] = made.pop(record.call)
            path = record.paths[0] or names.get(record.inode, "")
            if end > began and not record.ended and moment(record, path):
                yield True

    def replayed(self, ignored: Ignored = nothing_ignored) -> Disk:
        """The disk of the killed process."""
        assert self._before is not None
        records = list(read_journal(self.journal))
        self.calls.update(record.kind for record in records)
        return Disk(self._before, ignored).replay(records)
