"""Makes partitions that were assigned to this server ready, many at a time.

The handover calls it through ``LogStore.recover_soon``, at start, after a failover and after a
planned move. It reads manifests and starts jobs; the opening keeps the promises.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from opentalos.log.context import LogContext
from opentalos.log.partition.jobs import claim, open_now
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.partition.queue import name_of
from opentalos.log.partition.writer import PartitionWriter
from opentalos.model.errors import NotOwner, TalosError
from opentalos.model.message import PartitionKey

_log = logging.getLogger(__name__)

# Partitions whose manifest is read or whose last segment is recovered. HDFS takes a second or more
# for each recovery and works on all of them at the same time.
AT_ONCE_MAX = 384
AGAIN_S = 0.2  # until a partition that could not be made ready is tried again
AGAIN_MAX_S = 1.0  # after several failures; a put or get tries at once
ATTEMPTS_MAX = 50  # then it is left to the first put or get that wants it


class PartitionRecovery:
    """Recovers what the former owner left unsealed; of all others it only reads the manifest.

    So a cleanly sealed partition answers reads at once and yet has no open file. Its manifest is
    claimed once the former owner has ended.
    """

    def __init__(
        self, context: LogContext, log_of: Callable[[PartitionKey], PartitionLog | None]
    ) -> None:
        self._context, self._log_of = context, log_of
        self._wanted: dict[PartitionKey, int] = {}  # with the attempts that were made
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._closed = False

    def recover_soon(self, key: PartitionKey, attempts: int = 0) -> None:
        """Make a partition ready soon."""
        if self._closed:
            return
        self._wanted[key] = attempts
        if len(self._tasks) < AT_ONCE_MAX:
            task = asyncio.get_running_loop().create_task(self._work(), name="log-recovery")
            self._tasks[task] = None
            task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Stop; what is not ready waits for the next owner."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)

    async def _work(self) -> None:
        while self._wanted:
            key = next(iter(self._wanted))
            attempts = self._wanted.pop(key) + 1
            again_s = AGAIN_S
            try:
                ready = await self._make_ready(key)
            except TalosError as error:
                _log.warning("%s: not ready: %s; trying again", name_of(key), error)
                ready = False
                again_s = min(AGAIN_S * 2.0 ** (attempts - 1), AGAIN_MAX_S)  # each costs an epoch
            if not ready and attempts < ATTEMPTS_MAX:
                asyncio.get_running_loop().call_later(again_s, self.recover_soon, key, attempts)

    async def _make_ready(self, key: PartitionKey) -> bool:
        """False: try again later. Raises: TalosError: likewise."""
        context = self._context
        refusal = context.guard.refusal(key)
        if refusal is not None:
            return isinstance(refusal, NotOwner)  # it was moved to another server
        log = self._log_of(key)
        if log is None:
            return False  # its topic is not known here yet
        writer = log.writer
        if _settled(writer):
            return True
        versioned = await context.manifests.load(key)
        if versioned.manifest.deleted or _settled(writer):
            return True
        waits = context.guard.wait_s(key, versioned.manifest) > 0
        if versioned.manifest.unsealed is None:
            writer.adopt(versioned)
            if not waits:
                await writer.run(partial(claim, writer))
            return not waits
        if waits:
            return False
        await writer.run(partial(open_now, writer))
        return True


def _settled(writer: PartitionWriter) -> bool:
    """Whether it is ready, or a put or get is making it ready, or it never will be."""
    ready = writer.readable and not writer.foreign
    return ready or writer.busy() or writer.refusal() is not None
