"""GroupMembers: who works in a group, seen as soon as it changes, and leaving at once."""

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from opentalos.group.directory import GroupDirectory, GroupUser
from opentalos.group.state import GroupState

WAIT_S_MAX = 3.0  # of one call; below the 4.5 s after which the server answers every call
WAITING_MAX = 2_000  # calls of one server; the tasks of its gateways suffice for several thousand
GATHER_S = 0.1  # after a change, for those that follow it: workers come and go together


class Members(NamedTuple):
    """Live workers with their partitions. ``mark`` differs with the holdings; None: the
    server does not wait now, so the caller asks at its own intervals."""

    holdings: Mapping[str, Sequence[int]]
    mark: int | None


class _Seen(NamedTuple):
    """Holdings of a group, computed once for all calls until they may differ."""

    holdings: Mapping[str, Sequence[int]]
    mark: int
    partitions: int
    until_s: float  # the first lease expires then unless it is renewed


class GroupMembers:
    """Waits for changes of holdings, and takes seats from workers that leave."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self._waiting = 0
        self._stopping = asyncio.Event()
        # By the event that the next change sets. All workers of a group ask after each change, and
        # a group may have thousands of partitions.
        self._seen: WeakKeyDictionary[asyncio.Event, _Seen] = WeakKeyDictionary()

    def stop_waiting(self) -> None:
        """The server stops: calls that wait return now, and none waits any more."""
        self._stopping.set()

    async def changed(
        self, user: GroupUser, partitions: int, known: int | None, wait_s: float
    ) -> Members:
        """The holdings once they differ from those marked ``known``, or after ``wait_s``, at most
        ``WAIT_S_MAX``. Raises: Unavailable."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + min(wait_s, WAIT_S_MAX)
        while True:
            group = await self._directory.find(user)
            if group is None:
                return Members({}, None)
            seen = self._see(group, partitions, loop.time())
            if self._stopping.is_set() or self._waiting >= WAITING_MAX:
                return Members(seen.holdings, None)
            if seen.mark != known or loop.time() >= until_s:
                return Members(seen.holdings, seen.mark)
            await self._wait(group.changed, min(until_s, seen.until_s))

    async def vacate(self, user: GroupUser, worker: str) -> Sequence[int]:
        """Take the worker's seat. Returns: partitions to be released, as far as known here.

        The seat goes first: whoever registers under the same id meanwhile keeps the new one.
        """
        group = await self._directory.find(user)
        if group is None:
            return ()
        group.remove_worker(worker)
        return [number for number, part in group.partitions.items() if part.value.owner == worker]

    def _see(self, group: GroupState, partitions: int, now_s: float) -> _Seen:
        seen = self._seen.get(group.changed)
        if seen is None or seen.partitions != partitions or now_s >= seen.until_s:
            holdings = group.holdings(now_s, partitions)
            until_s = _next_expiry_s(group, now_s)
            seen = _Seen(holdings, mark_of(holdings), partitions, until_s)
            self._seen[group.changed] = seen
        return seen

    async def _wait(self, changed: asyncio.Event, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._waiting += 1
        waits = [loop.create_task(event.wait()) for event in (changed, self._stopping)]
        try:
            await asyncio.wait(
                waits, timeout=until_s - loop.time(), return_when=asyncio.FIRST_COMPLETED
            )
            if changed.is_set() and not self._stopping.is_set():
                await asyncio.sleep(GATHER_S)
        finally:
            self._waiting -= 1
            for task in waits:
                task.cancel()


def _next_expiry_s(group: GroupState, now_s: float) -> float:
    """When the next live lease expires unless it is renewed; infinity without one."""
    worker_s = [worker.expires_s for worker in group.live_workers(now_s).values()]
    part_s = [part.expires_s for part in group.partitions.values() if part.holder(now_s)]
    return min((*worker_s, *part_s), default=float("inf"))


def mark_of(holdings: Mapping[str, Sequence[int]]) -> int:
    """Equal for equal holdings, at every server; others differ but for one in 4 billion."""
    return zlib.crc32(repr([(worker, list(held)) for worker, held in holdings.items()]).encode())
