"""Gate: what the log asks before it opens a partition; the log itself knows no cluster."""

from typing import Protocol

from opentalos.log.manifest.manifest import Manifest
from opentalos.model.errors import TalosError
from opentalos.model.message import PartitionKey


class OwnershipGuard(Protocol):
    """Whether this server is to serve a partition now. It never gives the right to write.

    ``refusal``: why the partition must not be opened or changed here; not done. ``wait_s``: how
    long to wait before the manifest of a partition whose last segment is still unsealed is looked
    at again, since its former owner is about to seal it; 0: take over now. ``steady``: False while
    coordination is away, when nothing new is begun. Two linearizable looks, Unavailable if they
    cannot tell: ``confirm_owner``, before a partition is taken from another server, raises what
    ``refusal`` returns; ``confirm_topic`` raises TopicNotExist.
    """

    def refusal(self, key: PartitionKey) -> TalosError | None: ...
    def wait_s(self, key: PartitionKey, former: Manifest) -> float: ...
    def steady(self) -> bool: ...
    async def confirm_owner(self, key: PartitionKey) -> None: ...
    async def confirm_topic(self, key: PartitionKey) -> None: ...


class SingleServerGuard:
    """The gate of a lone server: always open. It deletes topics itself, so it needs no look."""

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
