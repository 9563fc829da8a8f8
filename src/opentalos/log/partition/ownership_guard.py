"""OwnershipGuard: what the log asks before it opens a partition; the log itself knows no cluster.

``ClusterOwnershipGuard`` of the broker answers from the assignment and the session. The guard
saves needless claims; promise I2 rests on the manifest and on fencing at the storage. ``EndProof``
asks the storage.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from opentalos.log.manifest.manifest import Manifest
from opentalos.log.results import AppendWaiter
from opentalos.model.errors import TalosError
from opentalos.model.message import MessageBlock, PartitionKey, PayloadFormat

PROOF_INTERVAL_S = 0.25  # between the beginnings of two, as each makes the segment longer
_BLOCK = MessageBlock(b"", 0, format=PayloadFormat.STATE)


class OwnershipGuard(Protocol):
    """Whether this server is to serve a partition now. It never gives the right to write.

    ``refusal``: why the partition must not be opened or changed here; not done. ``wait_s``: how
    long to wait before the manifest of a partition with an unsealed segment is read again, since
    its former owner is about to seal it; 0: claim it now. ``steady``: False while coordination is
    away, when nothing new is begun. ``certain``: False once it was away for so long that another
    server may have taken over what is open here; storage will tell then. ``living``:
    instances of the servers that live; ``instance``: this one's, empty: it has none. Two
    linearizable checks, Unavailable without an answer: ``confirm_owner``, before a partition of
    another server is claimed, raises what ``refusal`` returns; ``confirm_topic`` raises
    TopicNotExist.
    """

    @property
    def instance(self) -> str: ...
    def refusal(self, key: PartitionKey) -> TalosError | None: ...
    def wait_s(self, key: PartitionKey, former: Manifest) -> float: ...
    def steady(self) -> bool: ...
    def certain(self) -> bool: ...
    def living(self) -> frozenset[str]: ...
    async def confirm_owner(self, key: PartitionKey) -> None: ...
    async def confirm_topic(self, key: PartitionKey) -> None: ...


class SingleServerGuard:
    """The guard of a single server, which owns everything and deletes topics itself."""

    instance = ""

    def refusal(self, key: PartitionKey) -> TalosError | None:
        """Nothing is refused."""
        return None

    def wait_s(self, key: PartitionKey, former: Manifest) -> float:
        """There is no other owner."""
        return 0.0

    def steady(self) -> bool:
        """Always."""
        return True

    def certain(self) -> bool:
        """Always."""
        return True

    def living(self) -> frozenset[str]:
        """There is no other server."""
        return frozenset()

    async def confirm_owner(self, key: PartitionKey) -> None:
        """There is no other."""

    async def confirm_topic(self, key: PartitionKey) -> None:
        """Topics are deleted by this server only."""


class EndProof:
    """Storage refuses the commits of a former owner, so one that succeeds proves the end.

    It proves it to those that asked before the commit began. One runs at a time; whoever asks
    meanwhile shares the next.
    """

    __slots__ = ("_announce", "_began_s", "_next", "_running")

    def __init__(self, announce: Callable[[MessageBlock, AppendWaiter], None]) -> None:
        self._announce = announce
        self._next: asyncio.Future[TalosError | None] | None = None
        self._running = False  # or waits for its time
        self._began_s = float("-inf")

    async def outcome(self) -> TalosError | None:
        """Wait for a commit that begins after this call; None: it succeeded."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        waited = self._next
        if not self._running:
            self._running = True
            self._begin_later()
        return await asyncio.shield(waited)

    def _begin_later(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = self._began_s + PROOF_INTERVAL_S
        if loop.time() >= due_s:
            self._begin()
        else:
            loop.call_at(due_s, self._begin)

    def _begin(self) -> None:
        waited, self._next = self._next, None
        assert waited is not None
        self._began_s = asyncio.get_running_loop().time()
        try:
            self._announce(_BLOCK, partial(self._ended, waited))
        except TalosError as error:
            self._ended(waited, -1, error)

    def _ended(
        self, waited: "asyncio.Future[TalosError | None]", _: int, error: TalosError | None
    ) -> None:
        waited.set_result(error)
        self._running = self._next is not None
        if self._running:
            self._begin_later()
