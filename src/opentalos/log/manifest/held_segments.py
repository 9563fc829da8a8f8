"""What a fenced journal still has of segments, once nobody recovers them: may it be forgotten?

A segment that its manifest names as sealed is in its file. One that no manifest names was perhaps
never registered, or its manifest came back older. So it is forgotten only where the log needs
nothing of it, or after it was set aside; otherwise its partition is recovered, whose opening judges
it (``manifest/leftovers.py``), and the journal stays.
"""

from collections.abc import Callable, Iterable

from opentalos.log.context import LogContext
from opentalos.log.journal.former import FormerJournal
from opentalos.log.journal.laid_over import LaidOver
from opentalos.log.manifest.aside import set_aside
from opentalos.log.manifest.leftovers import NO_OFFSET, Found, examine, least_base
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.manifest.store import NOTHING
from opentalos.log.segment.format import partition_and_epoch
from opentalos.model.errors import CorruptLog, NotFound, NotOwner
from opentalos.model.message import PartitionKey


class HeldSegments:
    """Answers for one server. ``recover_soon`` opens partitions that nobody uses."""

    def __init__(
        self, context: LogContext, recover_soon: Callable[[Iterable[PartitionKey]], None]
    ) -> None:
        self._context, self.recover_soon = context, recover_soon
        self._lost: set[str] = set()  # segments with messages of topics that nothing knows

    def living(self) -> frozenset[str]:
        """Instances of the servers that live."""
        return self._context.guard.living()

    async def forget_if_settled(self, former: FormerJournal, path: str) -> bool:
        """Let the journal forget the segment; False: it must keep it. Raises: TalosError."""
        key, epoch = partition_and_epoch(path)
        versioned = await self._context.manifests.load(key)
        manifest = versioned.manifest
        if manifest.unsealed is not None and manifest.unsealed.path(key) == path:
            return False
        named = any(segment.path(key) == path for segment in manifest.segments)
        if not named and versioned is not NOTHING and not manifest.deleted:
            found = await self._found(former, path)
            beyond = _beyond(found, manifest)
            older = epoch > manifest.epoch  # the manifest: a claim precedes the epoch's segments
            if older or (beyond and not self._is_judged(key, manifest, found)):
                self.recover_soon([key])
                return False
            # A segment is in its journal before its manifest names it.
            if manifest.epoch <= epoch and not await self._context.manifests.refuse_older(
                key, versioned
            ):
                return False
            if beyond:
                await self._put_aside(former, found)
        if versioned is NOTHING and not await self._is_deleted(former, path, key):
            return False
        former.forget(path)
        return True

    async def is_written(self, former: FormerJournal, path: str) -> bool:
        """Whether the segment's file has what the journal says; False: an opening will refuse it.

        A segment that no manifest ends its log with needs no journal. Raises: TalosError.
        """
        key, _ = partition_and_epoch(path)
        unsealed = (await self._context.manifests.load(key)).manifest.unsealed
        if unsealed is None or unsealed.path(key) != path:
            return True
        try:
            await former.written.check(self._context.files, path)
        except NotFound:  # an opening finds that without a journal
            return True
        except CorruptLog:
            return False
        return True

    async def _is_deleted(self, former: FormerJournal, path: str, key: PartitionKey) -> bool:
        """Whether a segment whose manifest is gone is one of a deleted topic, or without messages.

        Else the metadata came back older, and the journal has the only copy.
        """
        if await self._context.topic_deleted(key.topic_uuid):
            return True
        if path not in self._lost:
            extents = await former.whole(self._context.journaled, path)
            found = await examine(LaidOver(self._context.files, extents, 0), path)
            if found.empty or found.next_offset <= found.base_offset != NO_OFFSET:
                return True
            self._lost.add(path)
        return False

    def _is_judged(self, key: PartitionKey, manifest: Manifest, found: Found) -> bool:
        """Whether no opening here has to judge it: it was never registered, and this server has
        opened the partition since, or another one serves it.
        """
        context = self._context
        proves = found.registered and not manifest.accepts_loss(partition_and_epoch(found.path)[1])
        ours = manifest.instance == context.manifests.instance
        elsewhere = isinstance(context.guard.refusal(key), NotOwner)
        return not proves and (ours or elsewhere)

    async def _put_aside(self, former: FormerJournal, found: Found) -> None:
        context = self._context
        extents = await former.whole(context.journaled, found.path)
        await set_aside(context, LaidOver(context.files, extents, 0), found.path)

    async def _found(self, former: FormerJournal, path: str) -> Found:
        extents = await former.whole(self._context.journaled, path)
        return await examine(LaidOver(self._context.files, extents, 0), path)


def _beyond(found: Found, manifest: Manifest) -> bool:
    """Whether the segment has anything that the log may lack."""
    if NO_OFFSET < found.base_offset < least_base(manifest):
        return False
    end = manifest.sealed_next if manifest.unsealed is None else manifest.unsealed.base_offset
    return found.next_offset > end
