"""Stores side indexes that a read had to rebuild, so that the next reader need not scan.

Writing one at the seal may fail, and a crash may lose it; nothing but a read notices. Only the
partition's owner stores one, because it alone knows that the segment is still part of the log.
"""

from collections.abc import Mapping

from opentalos.log.context import LogContext
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.segment.format import index_path
from opentalos.log.segment.index import SideIndex
from opentalos.log.segment.writer import delete_if_gone, write_side_index
from opentalos.model.message import PartitionKey

STORES_AT_ONCE_MAX = 4  # others are left to the next read that has to rebuild them


class RebuiltIndexes:
    """Called by the cache of views after each rebuild of an undamaged segment's index."""

    def __init__(
        self, context: LogContext, partitions: Mapping[PartitionKey, PartitionLog]
    ) -> None:
        self._context, self._partitions = context, partitions
        self._storing: dict[str, None] = {}  # paths

    def store_soon(self, key: PartitionKey, segment: Segment, side: SideIndex) -> None:
        """Store it in the background, if this server owns the partition and is not busy with it."""
        path = segment.path(key)
        if path in self._storing or len(self._storing) >= STORES_AT_ONCE_MAX:
            return
        if not self._owns(key, segment):
            return
        self._storing[path] = None

        async def store() -> None:
            try:
                if self._owns(key, segment):
                    await write_side_index(self._context, path, side)
                    await delete_if_gone(self._context, key, index_path(path))
                    if self._dropped(key, segment):
                        self._context.schedule_deletion(index_path(path), 0.0)
            finally:
                del self._storing[path]

        self._context.background.start(store)

    def _owns(self, key: PartitionKey, segment: Segment) -> bool:
        """Whether the segment is part of a log that this process was the last to change."""
        manifest = self._manifest(key)
        return manifest is not None and segment in manifest.sealed

    def _dropped(self, key: PartitionKey, segment: Segment) -> bool:
        """Whether retention dropped the segment meanwhile, and its index with it.

        The index of the last one dropped stays: it has the log's state. And of a log that is no
        longer this process's, nothing is known; its next owner deletes what its manifest does not
        name.
        """
        manifest = self._manifest(key)
        if manifest is None:
            return False
        named = {each.name for each in manifest.segments}
        return segment.name not in named and segment.name != manifest.state_of

    def _manifest(self, key: PartitionKey) -> Manifest | None:
        """The manifest of a log that this process was the last to change, or None."""
        context, log = self._context, self._partitions.get(key)
        if log is None or context.closing or not context.guard.steady():
            return None
        writer = log.writer
        manifest = writer.versioned.manifest
        ours = writer.readable and writer.served and manifest.instance == context.manifests.instance
        return manifest if ours else None
