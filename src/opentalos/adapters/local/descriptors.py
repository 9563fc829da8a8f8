"""Bounds the descriptors of files that are open for writing.

A server may have more segments open than the process may have descriptors. Files without a commit
for longest give theirs back and open again at their next commit, so the log need not seal them.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from opentalos.model.errors import TalosError

APPEND_DESCRIPTORS_MAX = 4_096  # unless the opener of the store says otherwise
RESTED_SHARE = 8  # one in so many is given back at once, so that not every opening looks for one


class FileIdentity(NamedTuple):
    """An inode, and its state, so that another of the same path and number differs."""

    device: int
    inode: int
    length: int
    modified_ns: int


class Restable(Protocol):
    """An append file, as the budget sees it."""

    def rest(self) -> int:
        """Give the descriptor up and return it; -1: in use, or used since the last call."""
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
        if len(self._open) > self._open_max:
            self._rest_idle()

    def released(self, file: Restable) -> None:
        """The file is closed or dead."""
        self._files.pop(file, None)
        self._open.pop(file, None)

    def files(self) -> Iterable[Restable]:
        """All files that are neither closed nor dead."""
        return list(self._files)

    def _rest_idle(self) -> None:
        """Down to the bound less a share, if so many are idle; each is met at most twice."""
        wanted = len(self._open) - self._open_max + self._open_max // RESTED_SHARE
        given: list[int] = []
        for _ in range(2 * len(self._open)):
            file, _unused = self._open.popitem(last=False)
            fd = file.rest()
            if fd < 0:
                self._open[file] = None
                continue
            given.append(fd)
            if len(given) == wanted:
                break
        if given:
            self._close(given)
