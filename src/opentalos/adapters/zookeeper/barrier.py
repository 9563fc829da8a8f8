"""A write that changes nothing, shared by the reads that wait for it."""

import asyncio
import logging

from kazoo.protocol.serialization import CheckVersion, Transaction

from opentalos.adapters.zookeeper.connection import ZookeeperConnection
from opentalos.model.errors import StoreUnavailable, TalosError

ANY_VERSION = -1
_log = logging.getLogger(__name__)


class Barrier:
    """What this session reads after a barrier has seen every write before it.

    A ``sync`` would not do: a leader that its quorum has left answers it until it notices. This
    needs the quorum, and every ZooKeeper server logs it, so one runs at a time: whoever comes
    meanwhile waits for the next one, together with all others. So their number is bounded by their
    latency, whatever the number of reads.
    """

    def __init__(self, connection: ZookeeperConnection, root: str) -> None:
        self._connection, self._root = connection, root
        self._next: asyncio.Future[Exception | None] | None = None  # for those that wait
        self._task: asyncio.Task[None] | None = None

    async def passed(self) -> None:
        """Wait for a barrier that began after this call. Raises: StoreUnavailable."""
        loop = asyncio.get_running_loop()
        if self._next is None:
            self._next = loop.create_future()
        waited = self._next
        if self._task is None:
            self._task = loop.create_task(self._run(), name="zookeeper barrier")
        error = await asyncio.shield(waited)
        if error is not None:
            raise StoreUnavailable(str(error)) from error

    async def _run(self) -> None:
        waited = None
        try:
            while self._next is not None:
                waited, self._next = self._next, None
                waited.set_result(await self._pass())
        finally:
            self._task = None
            for future in (waited, self._next):
                if future is not None and not future.done():
                    future.cancel()  # only if this task was cancelled
            self._next = None

    async def _pass(self) -> Exception | None:
        try:
            await self._connection.read(Transaction([CheckVersion(self._root, ANY_VERSION)]))
        except TalosError as error:
            return error
        except Exception as error:  # the root of a task that others wait for
            _log.exception("a barrier failed")
            return error
        return None
