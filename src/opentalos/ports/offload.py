"""Offload: runs work beside the event loop (threads)."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Offload(Protocol):
    """A few threads for calls that release the interpreter lock: decompression, digests.

    Python code competes with the event loop for the lock, which a thread keeps for 5 ms at a time.
    So it must call ``yield_lock`` after each piece of about 1 ms: the loop runs first, if it has
    anything to do. A cancelled caller does not stop the call. Raises what the work raises;
    Unavailable: not done.
    """

    async def run(self, work: Callable[..., T], *args: Any) -> T: ...

    def yield_lock(self) -> None: ...
