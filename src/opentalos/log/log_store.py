"""All partition logs of one server."""

from opentalos.log.counters import LogCounters
from opentalos.log.partition_log import PartitionLog
from opentalos.log.results import TopicLogSettings
from opentalos.model.limits import LogLimits
from opentalos.ports.clock import Clock
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore

__all__ = ["LogStore", "TopicLogSettings"]


class LogStore:
    """Owner of every partition log of this server and of their shared bounds."""

    def __init__(
        self,
        *,
        files: FileStore,
        meta: MetaStore,
        clock: Clock,
        server: str,
        limits: LogLimits,
    ) -> None:
        self.counters = LogCounters()

    async def start(self) -> None:
        """Start the upkeep; no partition is opened."""
        raise NotImplementedError

    def partition(self, topic: TopicLogSettings, partition: int) -> PartitionLog:
        """The partition's log; made in memory on first use, without I/O."""
        raise NotImplementedError

    def update_topic(self, settings: TopicLogSettings) -> None:
        """Take over changed retention or durability; tells retention of the topic at start."""
        raise NotImplementedError

    async def delete_topic(self, topic_uuid: str, partitions: int) -> None:
        """Fence every partition, then delete files and manifests; idempotent."""
        raise NotImplementedError

    async def close(self) -> None:
        """Refuse appends, commit what is queued, seal everything; bounded by ``close_s``."""
        raise NotImplementedError

    def writable(self) -> bool:
        """Whether puts are accepted: started, not closing, enough space."""
        raise NotImplementedError
