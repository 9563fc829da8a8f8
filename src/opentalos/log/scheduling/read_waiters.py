"""Readers that wait at the end of one partition's log."""

import asyncio


class Arrivals:
    """Woken together when a message arrives, or when reading ends on this server.

    ``PartitionLog`` waits, the lifecycle and the writer wake. Each reader checks for itself what
    changed.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def wake(self) -> None:
        """Let every waiting reader check again."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def join(self, future: "asyncio.Future[None]") -> None:
        """Settle this future with the next wake-up; one may wait at several logs."""
        self._waiting.append(future)

    def leave(self, future: "asyncio.Future[None]") -> None:
        """It waits here no more."""
        if future in self._waiting:
            self._waiting.remove(future)

    async def wait(self, deadline_s: float) -> bool:
        """Wait for the next wake-up; False: the deadline, a loop time, came first."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            async with asyncio.timeout_at(deadline_s):
                await future
        except TimeoutError:
            return False
        finally:
            if (not future.done() or future.cancelled()) and future in self._waiting:
                self._waiting.remove(future)
        return True
