"""Spool: a bounded queue of events in files of one folder; blocking, one thread at a time.

Events come out in the order they went in. The oldest file goes first when there is no room. A
position within a file is kept in memory only: after a crash the events of the first file come
once more.
"""

import fcntl
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from opentalos.adapters.private_files import DIR_MODE, make_private, private_opener
from opentalos.adapters.spool.spool_format import decode_line, encode_lines
from opentalos.model.errors import ConfigError

FILES: Final = 16  # that share the room; one of them goes at a time
LINE_BYTES_MAX: Final = 512 << 10
_SUFFIX: Final = ".spool"
_NUMBER_DIGITS: Final = 20

_log = logging.getLogger(__name__)


class Batch(NamedTuple):
    """The oldest events, and where in the first file they end."""

    events: Sequence[bytes]
    number: int
    position: int
    damaged: int  # lines passed over


@dataclass(slots=True)
class _File:
    number: int
    bytes_count: int
    events: int  # that are readable


class Spool:
    """Args: bytes_max: of all files together; an event more and the oldest file is given up."""

    def __init__(self, folder: Path, bytes_max: int) -> None:
        self._folder, self._bytes_max = folder, bytes_max
        self._files: list[_File] = []  # oldest first
        self._position = self._taken = 0  # bytes and events of the first file that are done
        self._next_number = 0
        self._writer: BinaryIO | None = None  # of the last file
        self._lock: BinaryIO | None = None
        self.dropped = 0  # events given up for want of room, since the start
        self.corrupt = 0  # damaged lines and files, since the start

    @property
    def bytes_count(self) -> int:
        """What waits."""
        return sum(file.bytes_count for file in self._files) - self._position

    @property
    def empty(self) -> bool:
        """Nothing waits."""
        return not self._files

    def open(self) -> None:
        """Find what a former process left. Raises: ConfigError: the folder cannot be used."""
        try:
            self._folder.mkdir(DIR_MODE, parents=True, exist_ok=True)
            make_private(self._folder)
            self._lock = open(self._folder / "lock", "ab", opener=private_opener)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
                if path.stem.isascii() and path.stem.isdigit():
                    self._find(path)
        except BlockingIOError as error:
            self.close()
            raise ConfigError(
                f"{self._folder} is in use by another process; stop it first"
            ) from error
        except OSError as error:
            self.close()
            raise ConfigError(f"cannot use {self._folder}: {error.strerror}") from error

    def close(self) -> None:
        """Release the folder; waiting events stay on disk."""
        self._end_file()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def append(self, events: Sequence[bytes]) -> None:
        """Put events behind all others. What the disk does not take counts as dropped."""
        lines = encode_lines(events)
        try:
            file = self._last_file()
            assert self._writer is not None
            self._writer.write(lines)
            self._writer.flush()
        except OSError as error:
            _log.warning(
                "could not write to %s, dropping %d events: %s", self._folder, len(events), error
            )
            self.dropped += len(events)
            self._end_file()  # its last line may be torn
            return
        file.bytes_count += len(lines)
        file.events += len(events)
        while self.bytes_count > self._bytes_max and len(self._files) > 1:
            self.dropped += self._files[0].events - self._taken
            self._remove_first()

    def read(self, bytes_max: int, events_max: int) -> Batch | None:
        """The oldest events, at least one and at most ``bytes_max`` of them together; they stay
        until ``drop``. None: nothing waits."""
        while self._files:
            first = self._files[0]
            batch = self._read_from(first, bytes_max, events_max)
            if batch.events:
                return batch
            self.corrupt += batch.damaged
            self._remove_first()
        return None

    def drop(self, batch: Batch) -> None:
        """The events of a batch are done."""
        if not self._files or self._files[0].number != batch.number:
            return  # given up meanwhile
        self._position = batch.position
        self._taken += len(batch.events)
        self.corrupt += batch.damaged
        if self._position >= self._files[0].bytes_count:
            self._remove_first()

    def _read_from(self, file: _File, bytes_max: int, events_max: int) -> Batch:
        events: list[bytes] = []
        size, position, damaged = 0, self._position, 0
        try:
            with self._path(file.number).open("rb") as reader:
                reader.seek(position)
                while len(events) < events_max:
                    line = reader.readline(LINE_BYTES_MAX)
                    event = decode_line(line)
                    if not line or (event is not None and events and size + len(event) > bytes_max):
                        break
                    position += len(line)
                    if event is None:
                        damaged += 1
                    else:
                        events.append(event)
                        size += len(event)
        except OSError as error:
            _log.warning("could not read a file of the spool, skipping it: %s", error)
            damaged += not events  # else it is met again
        return Batch(events, file.number, position, damaged)

    def _find(self, path: Path) -> None:
        number = int(path.stem)
        self._next_number = max(self._next_number, number + 1)
        events = 0
        with path.open("rb") as reader:
            while line := reader.readline(LINE_BYTES_MAX):
                events += decode_line(line) is not None
        self._files.append(_File(number, path.stat().st_size, events))

    def _last_file(self) -> _File:
        if self._writer is not None and self._files[-1].bytes_count < self._bytes_max // FILES:
            return self._files[-1]
        self._end_file()
        file = _File(self._next_number, 0, 0)
        self._writer = open(self._path(file.number), "ab", opener=private_opener)
        self._next_number += 1
        self._files.append(file)
        return file

    def _end_file(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except OSError as error:
                _log.warning("could not close a file of the spool: %s", error)

    def _remove_first(self) -> None:
        if len(self._files) == 1:
            self._end_file()
        first = self._files.pop(0)
        self._position = self._taken = 0
        try:
            os.unlink(self._path(first.number))
        except OSError as error:
            _log.warning("could not delete a file of the spool: %s", error)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:0{_NUMBER_DIGITS}d}{_SUFFIX}"
