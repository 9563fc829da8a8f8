"""Opening a partition as its new owner: claim, recover, copy the tail, register.

``PartitionWriter`` calls ``open_partition`` and gets each finding through ``Claim``. The steps:

1. Claim: the next epoch of the manifest, with this server as the owner. From now on no former owner
   can change the manifest, and the version is carried through; it is never read again (I2).
2. Recover: fence the unsealed segment and scan it up to C, the largest ``committed`` (``log_end``).
3. Copy: what lies from C on was perhaps acknowledged; it is the first group of the new segment.
4. Register: one change seals the old segment at C and names the new one. Only now are the copied
   messages shown or acknowledged (I1, I4).

Before the claim, and once the end of the log is known, the files that the manifest does not name
are judged (``leftovers``): a crash between any two steps leaves such a file, which is deleted or
set aside; good segments prove that the manifest came back older, and the partition is refused.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from opentalos.log.context import LogContext
from opentalos.log.journal.journaled_file import given_back
from opentalos.log.manifest.end_proof import check_last_segment, check_present, check_reached
from opentalos.log.manifest.leftovers import (
    Leftovers,
    Unnamed,
    check_epochs,
    held_segments,
    split,
)
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import VersionedManifest
from opentalos.log.partition.log_end import (
    Claim,
    EndRecovery,
    RecoveredEnd,
    sealed_end,
)
from opentalos.log.partition.queue import name_of
from opentalos.log.results import TopicLogSettings
from opentalos.log.segment.index import SideIndex
from opentalos.log.segment.writer import (
    OpenSegment,
    SegmentStart,
    create_segment,
    delete_if_gone,
    write_side_index_soon,
)
from opentalos.model.errors import (
    CorruptLog,
    ManifestFull,
    NotFound,
    PartitionNotServing,
    TalosError,
    TopicNotExist,
)
from opentalos.model.message import PartitionKey

_log = logging.getLogger(__name__)


# After a crash hundreds of partitions are opened and readers wait for them; the side index of a
# recovered segment is not urgent.
SIDE_INDEX_AFTER_S = 3.0
CLOSED_AFTER_S = 10.0  # a former owner that lives has closed what it handed over by then


class Opened(NamedTuple):
    """What a successful opening gives its owner."""

    versioned: VersionedManifest
    segment: OpenSegment


async def open_partition(
    context: LogContext, key: PartitionKey, settings: TopicLogSettings, claim: Claim
) -> Opened:
    """Claim the next epoch, recover and register a new segment.

    Raises: PartitionNotServing: another server owns the partition. TopicNotExist.
    CorruptLog: acknowledged bytes are damaged or gone, so nothing may be written. Other
    Unavailable or OutcomeUnknown: try again.
    """
    context.counters.openings += 1
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    versioned, present, again = await _claimed(context, key, claim)
    claimed_s = loop.time()
    former = versioned.manifest.unsealed
    unnamed = split(key, versioned.manifest, present, context.pending_deletions)
    leftovers = Leftovers(context, key, versioned.manifest)
    try:
        check_present(key, versioned.manifest, present)
        if former is None:
            recovered = await sealed_end(context, key, versioned, claim)
        else:
            recovered = await EndRecovery(context, key, settings, claim).run(versioned, former)
        if again and versioned.manifest.journal:
            # Another owner may have taken over meanwhile and have ended the journal that had the
            # rest, which must not count as "not done".
            await _check_owned(context, key, versioned)
        cut = versioned.manifest.cut
        if not claim.judged:  # what this process made and never registered, it never acknowledged
            cut = await _judge(context, claim, versioned, leftovers, unnamed, recovered)
        claim.recovered(recovered.tail_end)
    except CorruptLog as error:
        # Or have added or dropped these files.
        await _check_owned(context, key, versioned, error)
        raise
    await leftovers.settle(unnamed)
    claim.leftovers_judged()  # not before: what was not set aside is judged again
    recovered_s = loop.time()
    start = SegmentStart(
        versioned.manifest.epoch, recovered.next_offset, recovered.state, recovered.tail
    )
    segment = await create_segment(context, key, settings.durability, start)
    sealed = replace(versioned.manifest.with_last_sealed(recovered.sealed), cut=cut)
    sealed = _within(sealed, recovered)
    entry = Segment(segment.view.base_offset, segment.epoch)
    try:
        _check_guard(context, key)
        registered = sealed.registered(entry, segment.journal, late=segment.late)
        versioned = await context.manifests.change(key, versioned, registered)
    except TalosError:
        await _close_quietly(segment)
        await delete_if_gone(context, key, segment.view.path)
        raise
    if former is not None:
        context.journaled.settle(former.path(key))
        _after_seal(context, key, former.path(key), recovered.side)
    _log.info(
        "%s is %s at epoch %d: claimed in %.3f s, recovered in %.3f s, open in %.3f s",
        *(name_of(key), "recovered" if former is not None else "open", versioned.manifest.epoch),
        *(claimed_s - began_s, recovered_s - claimed_s, loop.time() - recovered_s),
    )
    return Opened(versioned, segment)


def _within(manifest: Manifest, recovered: RecoveredEnd) -> Manifest:
    """Nothing else came further than a log whose end a loss of power may have taken."""
    if not recovered.may_be_cut:
        return manifest
    mark, end = manifest.metered, recovered.tail_end
    if mark is not None:
        mark = mark._replace(offset=min(mark.offset, end))
    return replace(manifest, metered=mark, cut=True)


async def _check_owned(
    context: LogContext,
    key: PartitionKey,
    versioned: VersionedManifest,
    error: CorruptLog | None = None,
) -> None:
    """Raises: PartitionNotServing, because of ``error``: the manifest has changed."""
    if (await context.manifests.load(key)).version != versioned.version:
        raise PartitionNotServing(f"{name_of(key)}: another server owns the partition") from error


async def _claimed(
    context: LogContext, key: PartitionKey, claim: Claim
) -> tuple[VersionedManifest, Sequence[str], bool]:
    """The manifest with the next epoch, owned by this server; the partition's files; and whether
    it was this server's before."""
    versioned = await _former(context, key)
    former = versioned.manifest
    try:
        present = await files_before_claim(context, key, versioned)
    except CorruptLog:
        context.counters.corrupt += 1
        raise
    owned = await _with_next_epoch(context, key, versioned, claim)
    again = _is_ours(context, former)
    if former.handed_over and not again:
        close_handed_over(context, key, former)
    return owned, present, again


async def files_before_claim(
    context: LogContext, key: PartitionKey, versioned: VersionedManifest
) -> Sequence[str]:
    """The partition's files, before a claim expects this manifest: whatever that names is among
    them, and what a former owner adds meanwhile is left to the next opening.

    Raises: CorruptLog: the manifest is older than its files, which a claim would hide, because it
    raises the epoch; PartitionNotServing: another server owns the partition.
    """
    await context.journals_known()
    present = await context.files.list(f"{key.topic_uuid}/{key.partition}")
    try:
        check_epochs(key, versioned.manifest, [*present, *held_segments(context, key)])
    except CorruptLog as error:
        await _check_owned(context, key, versioned, error)
        raise
    return present


async def _former(context: LogContext, key: PartitionKey) -> VersionedManifest:
    """The manifest once the former owner has sealed, or need not be waited for."""
    _check_guard(context, key)
    while True:
        versioned = await context.manifests.load(key)
        if versioned.manifest.deleted:
            raise PartitionNotServing(f"{name_of(key)} is being deleted")
        if versioned.manifest.unsealed is None or _is_ours(context, versioned.manifest):
            return versioned
        wait_s = context.guard.wait_s(key, versioned.manifest)
        if wait_s <= 0:
            return versioned
        await asyncio.sleep(wait_s)  # the guard bounds how often


async def _with_next_epoch(
    context: LogContext, key: PartitionKey, versioned: VersionedManifest, claim: Claim
) -> VersionedManifest:
    """The next epoch of what is held, owned by this server.

    A partition without any segment may be one of a deleted topic that this server still has in
    memory. Its manifest stands now, so a deletion that begins later will find it.
    """
    if versioned.manifest.unsealed is None:
        _check_room(context, versioned.manifest)
    if not _is_ours(context, versioned.manifest):
        await context.guard.confirm_owner(key)
    _check_guard(context, key)
    claim.former_seen(versioned.manifest)
    owned = versioned.manifest.next_epoch(context.server, context.manifests.instance)
    versioned = await context.manifests.change(key, versioned, owned)
    if (
        not versioned.manifest.segments and versioned.manifest.state_of is None
    ):  # nothing was ever written
        try:
            await context.guard.confirm_topic(key)
        except TopicNotExist:
            await context.manifests.remove(key, versioned)
            raise
    return versioned


def _is_ours(context: LogContext, former: Manifest) -> bool:
    return former.instance == context.manifests.instance


def _check_guard(context: LogContext, key: PartitionKey) -> None:
    refusal = context.guard.refusal(key)
    if refusal is not None:
        raise refusal


def _check_room(context: LogContext, manifest: Manifest) -> None:
    try:
        manifest.check_room()
    except ManifestFull:
        context.counters.refused_manifest_full += 1
        raise


async def _close_quietly(segment: OpenSegment) -> None:
    """Close a file that may be an orphan now, so that no descriptor stays open."""
    try:
        await given_back(segment.file)
    except TalosError as error:
        _log.debug("%s was not closed: %s", segment.view.path, error)


def _after_seal(context: LogContext, key: PartitionKey, path: str, side: SideIndex | None) -> None:
    if side is None:
        context.schedule_deletion(path, 0.0)
    else:
        context.views.put(path, side)

        def write() -> None:
            if not context.closing:
                write_side_index_soon(context, key, path, side)

        asyncio.get_running_loop().call_later(SIDE_INDEX_AFTER_S, write)


def close_handed_over(context: LogContext, key: PartitionKey, manifest: Manifest) -> None:
    """Make sure that the last sealed file is closed, in case its former owner died before."""
    if not manifest.segments:
        return
    path = manifest.segments[-1].path(key)

    async def recover() -> None:
        try:
            await context.files.recover(path, deadline_s=context.limits.recover_deadline_s)
        except NotFound:
            return  # retention was quicker
        except TalosError as error:
            _log.warning("%s may not be closed yet: %s", path, error)

    def start() -> None:
        if not context.closing:
            context.background.start(recover)

    asyncio.get_running_loop().call_later(CLOSED_AFTER_S, start)


async def _judge(
    context: LogContext,
    claim: Claim,
    versioned: VersionedManifest,
    leftovers: Leftovers,
    unnamed: Unnamed,
    recovered: RecoveredEnd,
) -> bool | None:
    """Whether the log was cut; see ``Manifest``.

    Raises: CorruptLog: something proves that the log was longer. TalosError: not known.
    """
    end, manifest = recovered.tail_end, versioned.manifest
    cut = manifest.cut
    try:
        await leftovers.judge(unnamed, end, may_be_cut=recovered.may_be_cut)
        if not recovered.may_be_cut:
            cut = await check_reached(context, leftovers.key, manifest, end)
        await check_last_segment(context.files, leftovers.key, manifest)
    except CorruptLog:
        claim.damaged(versioned, recovered.view(leftovers.key))
        raise
    return cut
