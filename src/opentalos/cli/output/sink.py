"""Stdout as a sink for whole messages."""

import os
import stat
import sys
from typing import BinaryIO


class Sink:
    """Writes batches of whole messages.

    If a write to a regular file fails, the file is truncated to the last complete batch. A pipe or
    terminal cannot be truncated.
    """

    def __init__(self, stream: BinaryIO | None = None) -> None:
        self._stream = sys.stdout.buffer if stream is None else stream
        self._stream.flush()
        self._file = _regular_file(self._stream)
        self.messages = 0  # written whole

    def write(self, rendered: list[bytes]) -> None:
        """Write and flush. Raises: OSError: a regular file contains nothing of this batch."""
        if self._file is None:
            self._stream.write(b"".join(rendered))
            self._stream.flush()
        else:
            self._write_file(self._file, b"".join(rendered))
        self.messages += len(rendered)

    def _write_file(self, file: int, data: bytes) -> None:
        left = memoryview(data)
        done = 0
        try:
            while left:
                count = os.write(file, left)
                left, done = left[count:], done + count
        except BaseException:
            if done:  # no other process is expected to append after this one
                os.ftruncate(file, os.fstat(file).st_size - done)
                os.lseek(file, 0, os.SEEK_END)
            raise


def _regular_file(stream: BinaryIO) -> int | None:
    try:
        file = stream.fileno()
    except OSError:
        return None
    return file if stat.S_ISREG(os.fstat(file).st_mode) else None
