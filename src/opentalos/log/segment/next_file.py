"""The file of a partition's next segment, made while the open one still takes commits.

``OpenSegment`` owns it, the roll takes it. Until then the file stays empty and no manifest names
it, so a crash leaves an orphan of this epoch, which the next owner deletes. Its base offset is not
known yet, so its name has a random number instead, which the manifest stores.
"""

import logging
from functools import partial
from typing import NamedTuple

from opentalos.log.context import LogContext
from opentalos.log.segment.format import segment_path
from opentalos.model.errors import TalosError
from opentalos.model.message import Durability, PartitionKey
from opentalos.ports.file_store import AppendFile

_log = logging.getLogger(__name__)

FILES_AHEAD_MAX = 64  # of the whole server: each holds a descriptor
NUMBER_BYTES = 6


class NewFile(NamedTuple):
    """An empty file that no manifest names yet."""

    file: AppendFile
    path: str
    durability: Durability
    number: int = 0  # in its name; 0: it is named after the base offset


class NextFile:
    """Made by a background task; taken once, or deleted when its segment ends without a roll."""

    __slots__ = ("_context", "_counted", "_dropped", "_durability", "_made")

    def __init__(
        self, context: LogContext, key: PartitionKey, epoch: int, durability: Durability
    ) -> None:
        self._context, self._durability = context, durability
        self._made: NewFile | None = None
        self._dropped = False
        self._counted = True  # in ``files_ahead``, until it is taken, failed or dropped
        context.files_ahead += 1
        number = max(int.from_bytes(context.clock.token(NUMBER_BYTES), "big"), 1)
        path = segment_path(key.topic_uuid, key.partition, 0, epoch, number)
        context.background.start(partial(self._make, path, number))

    def take(self, durability: Durability) -> NewFile | None:
        """The file; None if it is not there yet or not of that kind: the roll does not wait."""
        made = self._made
        if made is None or durability is not self._durability:
            self.drop()
            return None
        self._made = None
        self._uncount()
        return made

    def drop(self) -> None:
        """It will not be used: delete it, at once or when it is made.

        A creation that hangs keeps no place: the background tasks bound how many there are.
        """
        self._dropped = True
        self._uncount()
        made, self._made = self._made, None
        if made is not None:
            self._context.background.start(partial(self._delete, made))

    async def _make(self, path: str, number: int) -> None:
        try:
            if not self._dropped:
                file = await self._context.files.create(path, durability=self._durability)
                self._made = NewFile(file, path, self._durability, number)
        except TalosError as error:  # the roll makes its own
            _log.debug("%s was not made ahead: %s", path, error)
            self._context.schedule_deletion(path, 0.0)
        finally:
            if self._made is None:
                self._uncount()
        if self._dropped:  # meanwhile
            self.drop()

    def _uncount(self) -> None:
        if self._counted:
            self._counted = False
            self._context.files_ahead -= 1

    async def _delete(self, made: NewFile) -> None:
        try:
            await made.file.close()
        except TalosError as error:  # another owner or the topic's deletion was quicker
            _log.debug("%s was not closed: %s", made.path, error)
        try:
            await self._context.files.delete(made.path)
        except TalosError as error:
            _log.debug("%s is left to the next owner: %s", made.path, error)
