"""Stdout as a place for whole messages only."""

import os
import stat
import sys
from typing import BinaryIO


class Sink:
    """Writes batches of whole messages; where a batch does not fit, a file is cut back to the end
    of the last whole one. Of a pipe or terminal nothing can be taken back."""

    def __init__(self, stream: BinaryIO | None = None) -> None:
        self._stream = sys.stdout.buffer if stream is None else stream
        self._stream.flush()
        self._file = _regular_file(self._stream)
        self.messages = 0  # written whole

    def write(self, rendered: list[bytes]) -> None:
        """Write messages through to the system. Raises: OSError: none of a file's batch is
        there."""
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
            if done:  # others may have written before, but hardly behind us
                os.ftruncate(file, os.fstat(file).st_size - done)
                os.lseek(file, 0, os.SEEK_END)
            raise


def _regular_file(stream: BinaryIO) -> int | None:
    try:
        file = stream.fileno()
    except OSError:
        return None
    return file if stat.S_ISREG(os.fstat(file).st_mode) else None
