"""Consumer use cases of one topic: worker and partition leases, checkpoints."""

from collections.abc import Mapping, Sequence

from opentalos.broker.values import CheckpointKey, Commit, ConsumeUnit, LockedPartitions
from opentalos.model.identity import Principal


class ConsumerService:
    """What talos-consumer.md section 4 expects of a server, per topic."""

    async def check_register(self, caller: Principal, unit: ConsumeUnit) -> bool:
        """Whether one more worker may join."""
        raise NotImplementedError

    async def lock_worker(self, caller: Principal, unit: ConsumeUnit, address: str) -> bool:
        """Create or refresh a worker lease; False refuses."""
        raise NotImplementedError

    async def lock_partitions(
        self, caller: Principal, unit: ConsumeUnit, address: str
    ) -> LockedPartitions:
        """Take each listed partition that is free or already the worker's."""
        raise NotImplementedError

    async def unlock_partitions(self, caller: Principal, unit: ConsumeUnit) -> None:
        """Drop the worker's leases on the listed partitions; others are ignored."""
        raise NotImplementedError

    async def renew(
        self, caller: Principal, unit: ConsumeUnit, address: str
    ) -> tuple[bool, Sequence[int]]:
        """Refresh the worker and its partitions: (heartbeat, partitions held by others)."""
        raise NotImplementedError

    async def query_workers(
        self, caller: Principal, group: str, resource: str
    ) -> Mapping[str, Sequence[int]]:
        """All live workers with the partitions they hold, idle ones too."""
        raise NotImplementedError

    async def query_offset(
        self, caller: Principal, group: str, resource: str, partition: int
    ) -> int:
        """Last committed offset; -1 if none."""
        raise NotImplementedError

    async def update_offset(self, caller: Principal, commit: Commit) -> bool:
        """Commit a checkpoint; False if the worker does not hold the partition."""
        raise NotImplementedError

    async def worker_id(self, caller: Principal, group: str, resource: str, partition: int) -> str:
        """Worker that holds the partition; empty if nobody does."""
        raise NotImplementedError

    async def org_offsets(
        self, caller: Principal, prefix: str, organisation: str
    ) -> Mapping[CheckpointKey, int]:
        """All checkpoints of an organisation's groups whose name starts with ``prefix``."""
        raise NotImplementedError

    async def delete_group(self, caller: Principal, group: str, resource: str) -> None:
        """Forget a group's checkpoints; refused while workers live."""
        raise NotImplementedError

    async def reset_checkpoint(self, caller: Principal, key: CheckpointKey, offset: int) -> None:
        """Audited reset: revokes the lease and sets the checkpoint in one write."""
        raise NotImplementedError
