"""Fences made by this process, so that a commit need not ask the file system each time.

The look for a fence is two system calls after every write, and each of them lets go of the
interpreter and waits for it again: 10 to 15 % of the processor time of a put. Where
nobody but this process can make a fence, a number in memory says as much.
"""

from pathlib import Path
from weakref import WeakValueDictionary


class FenceWatch:
    """How many fences were made below one root, by all stores of this process."""

    __slots__ = ("__weakref__", "fences")

    def __init__(self) -> None:
        self.fences = 0

    def made(self) -> None:
        """Call when a fence exists and before the file's length is looked at.

        A writer reads the number after its write: if it is the old one, the write came before
        this call and lies inside the length. Two threads may count as one; whoever sees the
        number change then finds both fences, because each was there before its call.
        """
        self.fences += 1


_watches: WeakValueDictionary[Path, FenceWatch] = WeakValueDictionary()


def watch_of(root: Path) -> FenceWatch:
    """The watch of an absolute root, shared by the stores of this process that have it."""
    watch = _watches.get(root)
    if watch is None:
        watch = _watches[root] = FenceWatch()
    return watch
