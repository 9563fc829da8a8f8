"""The part that an open segment takes in the frames of its journal, without a task of its own.

Where many partitions are quiet, nearly every put is a group of its own, so what a group costs
decides. A commit through ``JournaledFile.commit`` takes a lane, a task and two futures; a member is
asked for its group when a frame begins, and answers its puts when the frame is durable.
"""

from collections.abc import Sequence
from typing import Protocol

from opentalos.log.journal.journal import Group
from opentalos.log.journal.journaled_file import JournaledFile
from opentalos.model.errors import TalosError, WriterDead


class Source(Protocol):
    """A partition whose segment may be a member. Nothing here raises.

    It has to ignore a member that it has given up meanwhile.
    """

    @property
    def pending_bytes(self) -> int: ...

    def fill(self, member: "Member", now_s: float) -> Sequence[bytes | memoryview]:
        """The frame begins: what goes to the segment with it. Empty: nothing, as ``left_out``."""
        ...

    def left_out(self, member: "Member") -> None:
        """What waits has to be committed through the file."""
        ...

    def written(self, member: "Member", length: int) -> None:
        """The group is durable, and the segment so long with it."""
        ...

    def failed(self, member: "Member", error: TalosError) -> None:
        """The group has an unknown outcome, and the file is dead."""
        ...


class Member:
    """One segment; ``join`` before each frame that it is to take part in. See journal.Member."""

    __slots__ = ("_data", "_position", "_source", "file")

    def __init__(self, file: JournaledFile, source: Source) -> None:
        self.file, self._source = file, source
        self._position = 0
        self._data = b""  # of the group in flight

    def join(self) -> bool:
        """Whether the next frame asks for a group; otherwise use ``commit``."""
        file = self.file
        if not file.may_join(self._source.pending_bytes):
            return False
        file.in_flight = True
        file.journal.join(self)
        return True

    def fill(self, now_s: float) -> Group | None:
        """See the port."""
        file, source = self.file, self._source
        file.in_flight = False
        if not file.may_join(source.pending_bytes):
            source.left_out(self)
            return None
        chunks = source.fill(self, now_s)
        if not chunks:
            return None
        file.in_flight = True
        self._position, self._data = file.length, b"".join(chunks)
        return Group(file.path, self._position, self._data, self, file.synced)

    def leave(self) -> None:
        """See the port."""
        self.file.in_flight = False
        self._source.left_out(self)

    def done(self) -> bool:
        """See journal.Waiter: the answer always matters, since the segment keeps the bytes."""
        return False

    def set_result(self, number: int) -> None:
        """The frame with the group is durable."""
        file, data = self.file, self._data
        self._data = b""
        file.in_flight = False
        file.keep(number, self._position, data)
        if file.released:
            error = WriterDead(f"{file.path}: sealed or deleted by another")
            self._source.failed(self, error)
        else:
            self._source.written(self, file.length)

    def set_exception(self, error: TalosError) -> None:
        """The frame with the group failed."""
        file = self.file
        self._data = b""
        file.in_flight = False
        file.give_up(error)
        self._source.failed(self, error)
