"""Producer ids for puts that run at the same time, for asyncio."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from opentalos.sdk.core.producer.sequences import Sequences

# Puts of one producer in flight; each lane is a producer for the log, which remembers 1,000 of
# a principal in every partition.
LANES_MAX: Final = 16


class Lanes:
    """Hands each put sequence numbers that no other put uses meanwhile.

    Two puts in flight with numbers of one producer id could arrive in the wrong order. So each has
    a lane, an id of its own; a lane that is free again is used first, so a caller that waits for
    each put needs one lane only. Belongs to one event loop.

    Args: new_id: draws the producer id of a new lane.
    """

    def __init__(self, new_id: Callable[[], int]) -> None:
        self._new_id = new_id
        self._free: list[Sequences] = []
        self._places = asyncio.Semaphore(LANES_MAX)

    @asynccontextmanager
    async def lane(self) -> AsyncIterator[Sequences]:
        """A lane for one put; waits while ``LANES_MAX`` puts are in flight."""
        async with self._places:
            sequences = self._free.pop() if self._free else Sequences(self._new_id())
            try:
                yield sequences
            finally:
                self._free.append(sequences)
