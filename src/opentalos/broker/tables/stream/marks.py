"""Marks: times up to which everything of one shard is in the topic of a stream.

A mark rests on time where all else rests on versions and epochs: for ``settle_s`` after a failover
none is issued, since a write of the former owner may still be on its way.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from opentalos.broker.tables.shard.claim import ShardClaim
from opentalos.broker.tables.shard.group_clock import GroupClock
from opentalos.broker.tables.shard.state import ShardLife
from opentalos.broker.tables.stream.outbox import Outbox
from opentalos.model.errors import StoreUnavailable, TalosError, VersionConflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Issues the marks of one shard. ``settled_s``: no former owner writes after it, on the loop's
    clock. ``fenced`` is called if another server has claimed the shard."""

    life: ShardLife
    claim: ShardClaim
    clock: GroupClock
    outbox: Outbox
    settled_s: float
    fenced: Callable[[TalosError], None]

    async def issue(self, stream: int) -> int:
        """Every change not after this time is in the stream's topic.

        It is stored before it is returned, so that changes of later owners are later.

        Raises: Unavailable: no mark can be issued now.
        """
        async with self.claim.turn:
            if not self.life.writes:
                raise StoreUnavailable("the shard is being opened")
            left_s = self.settled_s - asyncio.get_running_loop().time()
            if left_s > 0:
                raise StoreUnavailable(f"a former owner may still write for {left_s:.1f} s")
            unpublished = [entry.timestamp_ms for entry in self.outbox.waiting((stream,))]
            mark_ms = self.clock.mark_ms(unpublished)
            try:
                await self.claim.write_mark(mark_ms)
            except VersionConflict as error:
                self.fenced(error)
                raise StoreUnavailable(str(error)) from error
            return mark_ms
