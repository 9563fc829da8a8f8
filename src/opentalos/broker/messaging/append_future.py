"""Waiting for appends: of all blocks of a put, and as a coroutine does."""

import asyncio
from collections.abc import Sequence

from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.results import AppendWaiter
from opentalos.model.errors import OutcomeUnknown, TalosError
from opentalos.model.message import UNKNOWN_OFFSET, MessageBlock


def waiter_of(durable: asyncio.Future[int]) -> AppendWaiter:
    """A waiter that resolves the future with the base offset or the error."""

    def settle(base_offset: int, error: TalosError | None) -> None:
        if durable.done():
            return  # the call was cancelled meanwhile
        if error is None:
            durable.set_result(base_offset)
        else:
            durable.set_exception(error)

    return settle


def append_blocks(log: PartitionLog, blocks: Sequence[MessageBlock], waiter: AppendWaiter) -> None:
    """Append the blocks of one put. Raises: what the first append raises."""
    if len(blocks) == 1:
        log.append(blocks[0], waiter)
    else:
        ManyBlocks(len(blocks), waiter).append_all(log, blocks)


class ManyBlocks:
    """Waits for every block of one put; the first error wins."""

    def __init__(self, count: int, waiter: AppendWaiter) -> None:
        self._waiting, self._waiter = count, waiter
        self._error: TalosError | None = None
        self._stored = 0
        self._base = UNKNOWN_OFFSET

    def append_all(self, log: PartitionLog, blocks: Sequence[MessageBlock]) -> None:
        """Append in order. Raises what the first append raises; later ones are reported."""
        for index, block in enumerate(blocks):
            try:
                log.append(block, self._done if index else self._first_done)
            except TalosError as error:
                if index == 0:
                    raise
                self._error = self._error or error
                self._finish(len(blocks) - index)
                return

    def _first_done(self, offset: int, error: TalosError | None) -> None:
        self._base = offset
        self._done(offset, error)

    def _done(self, _: int, error: TalosError | None) -> None:
        if error is None:
            self._stored += 1
        elif self._error is None or isinstance(error, OutcomeUnknown):
            # Unknown takes precedence: the put must not be reported as not done.
            self._error = error
        self._finish(1)

    def _finish(self, count: int) -> None:
        self._waiting -= count
        if self._waiting:
            return
        error = self._error
        if error is not None and self._stored and not isinstance(error, OutcomeUnknown):
            # A part is stored, so "not done" would lead to a retry that duplicates it.
            error = OutcomeUnknown(
                f"{self._stored} blocks of the put are stored, then one failed: {error}"
            )
        self._waiter(self._base if error is None else UNKNOWN_OFFSET, error)
