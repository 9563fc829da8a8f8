"""Bounds the descriptors of a store's files.

A server may have more segments open than the process may have descriptors. Files without a commit
for longest give theirs back and open again at their next commit, so the log need not seal them.
"""

import errno
import resource
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from opentalos.model.errors import TalosError

RESTED_SHARE = 8  # one in so many is given back at once, so that not every opening looks for one
GIVEN_BACK = 8  # by idle files, for a call that found no free descriptor
# Such a call is repeated so often; after a pause if no file is idle, since what other calls have
# open for a moment is free soon.
ATTEMPTS_MAX = 16
PAUSE_S = 0.01
NO_DESCRIPTOR = "the server has no free descriptor; raise its limit of open files (ulimit -n)"
CALL_DESCRIPTORS = 3  # that a call beside the commits opens for a moment: a file, fence, directory


class FileDescriptors(NamedTuple):
    """How many descriptors a store may have."""

    append_max: int = 4_096  # of files open for writing; the idle ones beyond it give theirs back
    readers_max: int = 128  # of files open for reading; also the number of reads at once
    calls_max: int = 32  # beside the commits at once, CALL_DESCRIPTORS each


PLENTY = FileDescriptors()


def lacks_descriptor(error: BaseException) -> bool:
    """Whether the process had no free descriptor. Nothing was opened.

    If the machine has none, those that are given back would be another process's.
    """
    return isinstance(error, OSError) and error.errno == errno.EMFILE


def open_files_max() -> int:
    """How many descriptors the process may have now."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


class FileIdentity(NamedTuple):
    """An inode, and its state, so that another of the same path and number differs."""

    device: int
    inode: int
    length: int
    modified_ns: int


class Restable(Protocol):
    """An append file, as the budget sees it."""

    def rest(self, below: int) -> int:
        """Give a descriptor below this number up and return it; -1: it is none, or in use, or was
        used since the last call."""
        ...

    def abandon(self, error: TalosError) -> None:
        """The store closes."""
        ...


class DescriptorBudget:
    """The append files of one store: those with a descriptor, and all of them.

    The order is that of opening; a file that was used since the budget last met it gets a second
    chance. So a commit costs no bookkeeping while the files are fewer than ``open_max``.
    """

    def __init__(self, open_max: int, close: Callable[[list[int]], None]) -> None:
        self._open_max, self._close = open_max, close
        self._files: dict[Restable, None] = {}
        self._open: OrderedDict[Restable, None] = OrderedDict()

    @property
    def open(self) -> int:
        """Files with a descriptor now."""
        return len(self._open)

    def opened(self, file: Restable) -> None:
        """The file has a descriptor; others may lose theirs."""
        self._files[file] = self._open[file] = None
        surplus = len(self._open) - self._open_max
        if surplus > 0:
            wanted = surplus + self._open_max // RESTED_SHARE
            given = self.rest(wanted, sys.maxsize)
            if len(given) < wanted:  # those that were used since the last time, too
                given += self.rest(wanted - len(given), sys.maxsize)
            if given:
                self._close(given)

    def rest(self, wanted: int, below: int) -> list[int]:
        """The descriptors, below this number, of so many idle files or of fewer, to be closed.

        A file that was used since the last time is idle the next time.
        """
        given: list[int] = []
        for _ in range(len(self._open)):
            if len(given) == wanted:
                break
            file, _unused = self._open.popitem(last=False)
            fd = file.rest(below)
            if fd < 0:
                self._open[file] = None
            else:
                given.append(fd)
        return given

    def released(self, file: Restable) -> None:
        """The file is closed or dead."""
        self._files.pop(file, None)
        self._open.pop(file, None)

    def files(self) -> Iterable[Restable]:
        """All files that are neither closed nor dead."""
        return list(self._files)
