"""Readers that wait at the end of logs, and how many of them continue in one pass of the loop.

One message may be what thousands of calls wait for. If all of them continued in the same pass of
the event loop, it would be as long as they like, and everybody else would wait for its end.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any, Final

AT_ONCE: Final = 8  # calls that continue in one pass, each for 0.1 to 0.4 ms

_Outcome = tuple["asyncio.Future[Any]", Any]


class WakeUps:
    """Settles the futures of waiting calls, ``AT_ONCE`` in each pass of the loop.

    Whoever wakes them is served in rotation: a log with thousands of readers does not delay those
    of another one. A few are settled at once.
    """

    def __init__(self) -> None:
        self._due: OrderedDict[object, deque[_Outcome]] = OrderedDict()  # by who wakes them
        self._left = AT_ONCE  # in this pass
        self._scheduled = False

    def settle(self, whose: object, outcomes: Iterable[_Outcome]) -> None:
        """Set the results of these futures soon, in their order; one that is done is left out."""
        due = self._due.get(whose)
        for outcome in outcomes:
            if outcome[0].done():
                continue
            if due is None and self._left and not self._due:
                self._set(outcome)
                continue
            if due is None:
                due = self._due[whose] = deque()
            due.append(outcome)
        if (self._due or self._left < AT_ONCE) and not self._scheduled:
            self._schedule()

    async def turn(self, whose: object) -> None:
        """Wait until one may continue that nobody has woken, such as at its deadline."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.settle(whose, [(future, None)])
        await future

    def _set(self, outcome: _Outcome) -> None:
        future, value = outcome
        if not future.done():  # else its caller has left meanwhile
            self._left -= 1
            future.set_result(value)

    def _schedule(self) -> None:
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self._pass)

    def _pass(self) -> None:
        self._scheduled, self._left = False, AT_ONCE
        while self._due and self._left:
            whose, due = self._due.popitem(last=False)
            self._set(due.popleft())
            if due:
                self._due[whose] = due
        if self._due or self._left < AT_ONCE:
            self._schedule()


class Arrivals:
    """Woken together when a message arrives, or when reading ends on this server.

    ``PartitionLog`` waits, the lifecycle and the writer wake. Each reader checks for itself what
    changed.
    """

    __slots__ = ("_waiting", "_wake_ups")

    def __init__(self, wake_ups: WakeUps) -> None:
        self._wake_ups = wake_ups
        self._waiting: dict[asyncio.Future[None], None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def wake(self) -> None:
        """Let every waiting reader check again."""
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            self._wake_ups.settle(self, [(future, None) for future in waiting])

    def join(self, future: "asyncio.Future[None]") -> None:
        """Settle this future with the next wake-up; one may wait at several logs."""
        self._waiting[future] = None

    def leave(self, future: "asyncio.Future[None]") -> None:
        """It waits here no more."""
        self._waiting.pop(future, None)

    async def wait(self, deadline_s: float) -> bool:
        """Wait for the next wake-up; False: the deadline, a loop time, came first."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.join(future)
        try:
            async with asyncio.timeout_at(deadline_s):
                await future
        except TimeoutError:
            await self.late()
            return False
        finally:
            self.leave(future)
        return True

    async def late(self) -> None:
        """Call it when a deadline has come: those of many readers may be the same."""
        await self._wake_ups.turn(self)
