"""Turns of the loop, one each, for what ends in bursts.

Commits that hang together return together, each with a group that grew meanwhile. Their answers
in one turn of the loop would keep the requests of all others waiting, so each group that was slow
takes a turn of its own, and the loop serves its sockets in between.
"""

import asyncio
from collections import deque


class Turns:
    """``next`` returns at once if nobody took this turn, else in the order of the calls."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()  # bounded by the commits in flight
        self._taken = False  # this turn, or the next one by the first that waits

    async def next(self) -> None:
        """Wait for a turn that nobody else took."""
        loop = asyncio.get_running_loop()
        if not self._taken:
            self._taken = True
            loop.call_soon(self._pass_on)
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _pass_on(self) -> None:
        self._taken = False
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else its caller was cancelled
                self._taken = True
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._pass_on)
                return
