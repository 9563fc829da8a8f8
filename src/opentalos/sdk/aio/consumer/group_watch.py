"""When a worker looks at its group again: at once after a change, if the server shows it."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Final

from opentalos.sdk.aio.consumer.group_member import GroupMember

RETRY_S: Final = 0.5  # between looks while partitions are missing, and after one that saw a change
# Look after this part of the interval: not all workers at once, and early enough that a released
# partition gets its new owner within the interval.
JITTER: Final = (0.6, 0.8)
LOOK_S: Final = 1.5  # between looks at a server that marks changes but does not wait for them

Holdings = Mapping[str, Sequence[int]]  # of all live workers


class GroupWatch:
    """Paces the looks of one worker at its group.

    An OpenTalos server answers a look once the group has changed, so a survivor sees at once who
    joined or left. It answers calls that came through another server without waiting; these are
    repeated every ``LOOK_S``. Any other server is asked once in each interval.

    Args: interval_s: between two looks at a server that marks no changes.
    """

    def __init__(self, member: GroupMember, interval_s: float) -> None:
        self._member, self._interval_s = member, interval_s
        self._mark: int | None = None  # of the group as last seen
        self._hurry = asyncio.Event()

    def hurry(self) -> None:
        """Look now: this worker itself has changed."""
        self._hurry.set()

    async def look(self, known: int | None = None) -> Holdings:
        """The group now, or once it differs from ``known``. Raises: as ``GroupMember``."""
        found = await self._member.workers(known)
        self._mark = found.mark
        return found.holdings

    async def next(self, missing: int) -> Holdings:
        """Wait until it is time for the next rebalance. Raises: as ``GroupMember``.

        Args: missing: partitions that this worker lacks.
        """
        pause_s = self._interval_s * random.uniform(*JITTER)
        if not missing and self._mark is not None:
            return await self._changed(pause_s, self._mark)
        await self._pause(min(pause_s, RETRY_S) if missing else pause_s)
        return await self.look()

    async def _changed(self, longest_s: float, known: int) -> Holdings:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + longest_s
        pause_s = min(longest_s, RETRY_S)
        while not await self._pause(pause_s):
            asked_s = loop.time()
            found = await self._look_unless_hurried(known)
            if found is None:
                continue
            if self._mark != known or loop.time() >= until_s:
                return found
            waited = loop.time() - asked_s >= RETRY_S
            pause_s = 0.0 if waited else min(longest_s, LOOK_S)
        return await self.look()

    async def _look_unless_hurried(self, known: int) -> Holdings | None:
        look = asyncio.create_task(self.look(known))
        hurried = asyncio.create_task(self._hurry.wait())
        try:
            await asyncio.wait((look, hurried), return_when=asyncio.FIRST_COMPLETED)
            return look.result() if look.done() else None
        finally:
            look.cancel()
            hurried.cancel()

    async def _pause(self, pause_s: float) -> bool:
        """Wait so long, or less if hurried: True."""
        try:
            async with asyncio.timeout(pause_s):
                await self._hurry.wait()
        except TimeoutError:
            return False
        self._hurry.clear()
        return True
