"""OwnershipGuard: what the log asks before it opens a partition; the log itself knows no cluster.

``ClusterOwnershipGuard`` of the broker answers from the assignment and the session. The guard
saves needless claims; promise I2 rests on the manifest and on fencing at the storage.
"""

from typing import Protocol

from opentalos.log.manifest.manifest import Manifest
from opentalos.model.errors import TalosError
from opentalos.model.message import PartitionKey


class OwnershipGuard(Protocol):
    """Whether this server is to serve a partition now. It never gives the right to write.

    ``refusal``: why the partition must not be opened or changed here; not done. ``wait_s``: how
    long to wait before the manifest of a partition with an unsealed segment is read again, since
    its former owner is about to seal it; 0: claim it now. ``steady``: False while coordination is
    away, when nothing new is begun. Two linearizable checks, Unavailable without an answer:
    ``confirm_owner``, before a partition of another server is claimed, raises what ``refusal``
    returns; ``confirm_topic`` raises TopicNotExist.
    """

    def refusal(self, key: PartitionKey) -> TalosError | None: ...
    def wait_s(self, key: PartitionKey, former: Manifest) -> float: ...
    def steady(self) -> bool: ...
    async def confirm_owner(self, key: PartitionKey) -> None: ...
    async def confirm_topic(self, key: PartitionKey) -> None: ...


class SingleServerGuard:
    """The guard of a single server, which owns everything and deletes topics itself."""

    def refusal(self, key: PartitionKey) -> TalosError | None:
        """Nothing is refused."""
        return None

    def wait_s(self, key: PartitionKey, former: Manifest) -> float:
        """There is no other owner."""
        return 0.0

    def steady(self) -> bool:
        """Always."""
        return True

    async def confirm_owner(self, key: PartitionKey) -> None:
        """There is no other."""

    async def confirm_topic(self, key: PartitionKey) -> None:
        """Topics are deleted by this server only."""
