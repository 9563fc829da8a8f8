"""Endings: waits for the lease recoveries of many files with one poll for all of them.

After a failover a thousand files may wait at the same time. One job per file and poll would keep
threads, loop and interpreter busy for longer than the DataNodes need.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from opentalos.adapters.hdfs.client import HdfsClient
from opentalos.model.errors import StoreUnavailable, TalosError

POLL_S = 0.03  # between polls; DataNodes finish a recovery within about a heartbeat (1 to 3 s)
FILES_PER_JOB = 64  # polled by one thread, one after the other

Length = int | TalosError | None  # None: not closed yet


def final_lengths(client: HdfsClient, paths: Sequence[str]) -> Sequence[Length]:
    """Length of each file once it is closed; on a thread."""
    return [_final_length(client, path) for path in paths]


def _final_length(client: HdfsClient, path: str) -> Length:
    try:
        return client.final_length(path)
    except TalosError as error:
        return error


class Endings:
    """Files under recovery and the callers that wait for them. ``poll`` checks some files."""

    def __init__(self, poll: Callable[[Sequence[str]], Awaitable[Sequence[Length]]]) -> None:
        self._poll = poll
        self._waiting: dict[asyncio.Future[int], str] = {}
        self._task: asyncio.Task[None] | None = None

    async def length(self, path: str, *, wait_s: float) -> int | None:
        """The length once the file is closed; None: not within ``wait_s``.

        Raises: NotFound, StoreUnavailable.
        """
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[future] = path
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="hdfs endings")
        try:
            async with asyncio.timeout(wait_s):
                return await future
        except TimeoutError:
            return None
        finally:
            self._waiting.pop(future, None)

    async def close(self) -> None:
        """Stop polling; waiting callers get StoreUnavailable."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._settle_all(StoreUnavailable("the file store is closed"))

    async def _run(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(POLL_S)
                asked = list(self._waiting.items())
                for start in range(0, len(asked), FILES_PER_JOB):
                    await self._ask(asked[start : start + FILES_PER_JOB])
        finally:
            self._task = None

    async def _ask(self, asked: Sequence[tuple[asyncio.Future[int], str]]) -> None:
        some = [(future, path) for future, path in asked if not future.done()]
        if not some:
            return
        lengths: Sequence[Length]
        try:
            lengths = await self._poll([path for _, path in some])
        except TalosError as error:
            lengths = [error] * len(some)
        for (future, _), length in zip(some, lengths, strict=True):
            _settle(future, length)

    def _settle_all(self, error: TalosError) -> None:
        for future in self._waiting:
            _settle(future, error)


def _settle(future: "asyncio.Future[int]", length: Length) -> None:
    if length is None or future.done():
        return
    if isinstance(length, TalosError):
        future.set_exception(length)
    else:
        future.set_result(length)
