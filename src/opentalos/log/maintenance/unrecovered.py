"""Partitions whose end only the journal of a former server has, and that nobody uses.

The upkeep of the journals finds them after the start. They are recovered in the background, a few
at a time and with pauses, and keep no open file, so that the journal can be deleted and is not read
again at every start. The opening keeps the promises; a partition that is in use recovers itself.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

from opentalos.log.context import LogContext
from opentalos.log.manifest.leftovers import held_segments
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.partition.jobs import recover_unused
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.partition.queue import name_of
from opentalos.model.errors import (
    CorruptLog,
    NewerFormat,
    NotOwner,
    PartitionNotServing,
    TalosError,
)
from opentalos.model.message import PartitionKey

_log = logging.getLogger(__name__)

AT_ONCE_MAX = 2  # they share the store with the commits of puts
PAUSE_S = 0.02  # of each of them after a partition
JOB_S_MAX = 15.0  # then the storage hangs: the job continues, and others have their turn
AGAIN_S = 1.0  # until one that failed is tried again, twice as long each time
AGAIN_MAX_S = 60.0
ATTEMPTS_MAX = 10  # then it is left to its first use, or to the next search


class UnrecoveredPartitions:
    """Recovers them; an error of one is logged, counted and tried again, and stops no other."""

    def __init__(
        self, context: LogContext, log_of: Callable[[PartitionKey], PartitionLog | None]
    ) -> None:
        self._context, self._log_of = context, log_of
        self._wanted: dict[PartitionKey, None] = {}
        self._attempts: dict[PartitionKey, int] = {}  # of all that are not recovered
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._closed = False

    @property
    def count(self) -> int:
        """Partitions that are not recovered, or not known to be."""
        return len(self._attempts)

    def recover_soon(self, keys: Iterable[PartitionKey]) -> None:
        """Recover those that need it, and that this server is to serve."""
        for key in keys:
            if not self._closed and key not in self._attempts:
                self._attempts[key] = 0
                self._want(key)

    async def close(self) -> None:
        """Stop; what is not recovered waits for the next start."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _want(self, key: PartitionKey) -> None:
        if self._closed:
            return
        self._wanted[key] = None
        if len(self._tasks) < AT_ONCE_MAX:
            task = asyncio.get_running_loop().create_task(self._work(), name="log-unrecovered")
            self._tasks[task] = None
            task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _work(self) -> None:
        while self._wanted:
            key = next(iter(self._wanted))
            del self._wanted[key]
            error: Exception | None = None
            try:
                done = await self._recovered(key)
            except Exception as failure:
                error, done = failure, False
                if not isinstance(failure, TalosError):
                    _log.exception("%s: its recovery failed", name_of(key))
            if done:
                del self._attempts[key]
            else:
                self._failed(key, error)
            await asyncio.sleep(PAUSE_S)

    def _failed(self, key: PartitionKey, error: Exception | None) -> None:
        attempts = self._attempts[key] = self._attempts[key] + 1
        why = error or "it cannot be served here now"
        if error is not None:
            self._context.counters.journal.unused_failures += 1
        damaged = isinstance(error, CorruptLog | NewerFormat)  # until it is repaired
        if damaged or attempts >= ATTEMPTS_MAX:
            del self._attempts[key]
            text = "%s: not recovered: %s; its journal stays until the partition is used"
            _log.error(text, name_of(key), why)
            return
        again_s = min(AGAIN_S * 2.0 ** (attempts - 1), AGAIN_MAX_S)
        if error is not None:
            _log.warning(
                "%s: not recovered: %s; trying again in %.0f s", name_of(key), why, again_s
            )
        asyncio.get_running_loop().call_later(again_s, self._want, key)

    async def _recovered(self, key: PartitionKey) -> bool:
        """Whether nothing of it is left to do; False: try again. Raises: TalosError: likewise."""
        context = self._context
        refusal = context.guard.refusal(key)
        if refusal is not None:
            return isinstance(refusal, NotOwner)  # its owner does it
        if not context.guard.steady():
            return False
        manifest = (await context.manifests.load(key)).manifest
        if not (self._needs(manifest) or self._is_held(key)):
            return True
        log = self._log_of(key)
        if log is None or log.writer.busy() or context.guard.wait_s(key, manifest) > 0:
            return False
        try:
            async with asyncio.timeout(JOB_S_MAX):
                await log.writer.run(partial(recover_unused, log.writer))
        except TimeoutError as error:
            raise PartitionNotServing("the storage does not answer") from error
        context.counters.journal.unused_recovered += 1
        return True

    def _is_held(self, key: PartitionKey) -> bool:
        """Whether a former journal has a segment that only an opening can judge."""
        return bool(held_segments(self._context, key))

    def _needs(self, manifest: Manifest) -> bool:
        own = self._context.journaled.own
        named = manifest.unsealed is not None and bool(manifest.journal)
        return named and not manifest.deleted and manifest.journal not in own
