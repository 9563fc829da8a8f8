"""Jobs of one partition: open for readers, claim, seal, hand off, drop segments, delete.

Each function runs as a step of the partition (``PutQueue.run``), in the background while its commit
lane skips it, so nothing else changes the partition's manifest or file meanwhile. The upkeep,
readers, recovery and ``LogStore`` start them. A job executes; the writer's methods record what
happened.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import replace

from opentalos.log.context import LogContext
from opentalos.log.journal.journaled_file import JournaledFile
from opentalos.log.manifest.aside import ROOT as ASIDE
from opentalos.log.manifest.manifest import END_STATE_BYTES_MAX, Manifest, Segment
from opentalos.log.manifest.store import NOTHING, VersionedManifest
from opentalos.log.partition.decisions import is_outdated
from opentalos.log.partition.log_end import keeps_state
from opentalos.log.partition.opening import close_handed_over, files_before_claim
from opentalos.log.partition.queue import name_of
from opentalos.log.partition.state import State
from opentalos.log.partition.writer import PartitionWriter, marked
from opentalos.log.segment.format import index_path
from opentalos.log.segment.index import SideIndex
from opentalos.log.segment.view import read_side_index, rebuild_side_index, store_side_index
from opentalos.log.segment.writer import (
    OpenSegment,
    delete_if_gone,
    seal_segment,
    sealed_entry,
    side_index_of,
    write_side_index,
    write_side_index_soon,
)
from opentalos.model.errors import (
    CorruptLog,
    ManifestFull,
    NotFound,
    OutcomeUnknown,
    PartitionNotServing,
    StoreUnavailable,
    TalosError,
)
from opentalos.model.message import Durability, PartitionKey

_log = logging.getLogger(__name__)

FINISH_AFTER_S = 0.5  # the new owner opens first: both work on the same DataNodes
IDLE_S = 10.0  # without a put: another one soon is not expected


async def open_now(writer: PartitionWriter) -> None:
    """Job: open although nothing waits to be written, so that readers know the end."""
    if writer.context.closing:
        raise PartitionNotServing("the server is stopping")
    if writer.segment is None and writer.refusal() is None:
        await writer.open_step()
    if writer.segment is None and writer.state is not State.DAMAGED:
        raise writer.refusal() or PartitionNotServing(f"{name_of(writer.key)} cannot be opened")


async def recover_unused(writer: PartitionWriter) -> None:
    """Job: recover what a former server left, and keep no file open for it unless it is used.

    A late segment has no open file, and sealing it would make a small one.
    """
    await open_now(writer)
    segment = writer.segment
    if segment is None:
        raise writer.refusal() or PartitionNotServing(f"{name_of(writer.key)} is damaged")
    unused = not writer.queue and writer.context.guard.steady()
    if unused and (segment.empty or not segment.late):
        await seal(writer)


async def reopen(writer: PartitionWriter, path: str) -> None:
    """Job: the segment at ``path`` cannot be written behind its journal: go on in another one."""
    if writer.segment is not None and writer.segment.view.path == path:
        writer.write_failed(OutcomeUnknown(f"{path} could not be written behind the journal"))
    if writer.segment is None and writer.served:
        await open_now(writer)


async def roll(writer: PartitionWriter, path: str) -> None:
    """Job: the segment at ``path`` is to have no open file, and to need its journal no more.

    A busy partition continues in the next segment; an idle one is sealed, and so is one without
    messages, whose next segment would be the same file.
    """
    segment, context = writer.segment, writer.context
    if segment is None or segment.view.path != path or not context.guard.steady():
        return
    idle = asyncio.get_running_loop().time() - writer.last_put_s >= IDLE_S
    if segment.has_messages and (writer.queue or not idle):
        await writer.write_step(in_job=True, roll=True)
    elif not writer.queue:
        await seal(writer)


async def claim(writer: PartitionWriter) -> None:
    """Job: make a sealed log's manifest this process's own, without opening a file.

    From then on no other server can add to the log unnoticed, so its end is known.
    Raises: PartitionNotServing: it was changed meanwhile; load it again.
    """
    context = writer.context
    if not writer.foreign or writer.versioned is NOTHING:
        return
    await context.guard.confirm_owner(writer.key)
    held = writer.versioned
    former = held.manifest
    if not writer.end_proven:
        try:
            await files_before_claim(context, writer.key, held)
        except CorruptLog as error:
            if writer.state is State.SEALED and writer.versioned is held:
                writer.found_damaged(error)
            return
    if writer.state is State.DAMAGED:
        return  # a reader found it meanwhile
    owned = former.next_epoch(context.server, context.manifests.instance)
    try:
        versioned = await context.manifests.change(writer.key, held, owned)
    except TalosError:
        writer.manifest_changed()
        raise
    if former.handed_over:
        close_handed_over(context, writer.key, former)
    writer.adopt(versioned)


async def seal_outdated(writer: PartitionWriter) -> None:
    """Job: the topic's durability was changed, so what is acknowledged becomes durable now.

    A put that waits rolls the segment itself, and so does the opening after a failed commit.
    While the coordination is away nothing is sealed; the upkeep does it afterwards.
    """
    busy = writer.queue or writer.group is not None
    if is_outdated(writer) and not busy and writer.context.guard.steady():
        await seal(writer)


async def hand_off(writer: PartitionWriter) -> None:
    """Job: seal for another server that waits: the manifest first, then the file's close."""
    await seal(writer, handing_over=True)


async def seal(writer: PartitionWriter, *, handing_over: bool = False) -> None:
    """Job: commit what waits, seal the open segment; the next start needs no recovery.

    ``handing_over``: the manifest has all that the next owner needs, so the file is closed and
    its side index written afterwards. No byte is written into it after the change.
    """
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while writer.queue or writer.group is not None:
        delay_s = await writer.write_step(in_job=True)
        if delay_s > 0:
            await asyncio.sleep(delay_s)
    segment = writer.segment
    if segment is None:
        return
    keeps = not segment.empty or keeps_state(writer.versioned.manifest, segment.state)
    if keeps:
        await segment.reserve()
        if writer.segment is not segment:
            raise PartitionNotServing(f"{name_of(writer.key)} was given up while it was sealed")
    writer.begin_seal()
    context = writer.context
    path = segment.view.path
    drained_s = loop.time()
    least_s = context.limits.commit_deadline_s / 2  # as in ``_closed``
    try:
        if keeps:
            await writer.bounded(segment.write_mark(last=True), least_s=least_s)
        side = side_index_of(segment) if keeps else None
        end_state = segment.state.encode()
        # A slot is given back as soon as possible, and a side index would wait for another one
        # behind the files of all segments that are sealed at the same time.
        slotted = isinstance(segment.file, JournaledFile) and segment.file.slotted
        index_later = slotted and len(end_state) <= END_STATE_BYTES_MAX
        at_once = handing_over and not slotted and _may_close_later(segment, end_state)
        if at_once:
            await writer.bounded(segment.write_out(), least_s=least_s)
        closed = at_once or (segment.late and not keeps)
        if closed:  # a late one that keeps nothing makes no file for that
            entry = sealed_entry(segment)
        else:
            entry = await _closed(writer, segment, None if index_later else side)
        closed_s = loop.time()
        manifest = writer.versioned.manifest.with_last_sealed(entry if keeps else None)
        if at_once:
            manifest = manifest.handed_off(end_state)
        elif keeps and index_later:
            manifest = replace(manifest, end_state=end_state)
        versioned = await context.manifests.change(
            writer.key, writer.versioned, marked(writer, manifest)
        )
    except Exception as error:
        writer.write_failed(error)
        await delete_if_gone(context, writer.key, index_path(path))
        raise
    context.counters.seals += 1
    writer.sealed(versioned)
    if at_once:
        _finish_soon(context, writer.key, segment, side)
    elif side is not None and index_later:
        write_side_index_soon(context, writer.key, path, side)
    if side is None:
        context.schedule_deletion(path, 0.0)
    else:
        context.views.put(path, side)
    _log.info(
        "%s is sealed at epoch %d: drained in %.3f s, closed in %.3f s, registered in %.3f s",
        *(name_of(writer.key), versioned.manifest.epoch),
        *(drained_s - began_s, closed_s - drained_s, loop.time() - closed_s),
    )


def _may_close_later(segment: OpenSegment, end_state: bytes) -> bool:
    """Whether the manifest may name the end before the file is closed.

    What is only flushed is durable with the close: before it, a loss of power takes committed
    bytes, and the manifest would name an end that is lost.
    """
    synced = segment.durability is Durability.SYNCED
    return synced and len(end_state) <= END_STATE_BYTES_MAX


def _finish_soon(
    context: LogContext, key: PartitionKey, segment: OpenSegment, side: SideIndex | None
) -> None:
    """Close a segment that the manifest names as sealed by now, and store its side index.

    Every byte of it was committed and none is written any more, so the next owner need not wait.
    """

    async def close() -> None:
        await asyncio.sleep(FINISH_AFTER_S)
        try:
            async with asyncio.timeout(context.limits.recover_deadline_s):
                await seal_segment(segment)
        except (TalosError, TimeoutError) as error:  # its new owner does: ``close_handed_over``
            _log.warning("%s was not closed: %s", segment.view.path, str(error) or "it hangs")
        if side is not None:
            write_side_index_soon(context, key, segment.view.path, side)

    context.background.start(close)


async def _closed(writer: PartitionWriter, segment: OpenSegment, side: SideIndex | None) -> Segment:
    """Close the file and write its side index, both at once: a new owner may wait for them.

    Many are closed at once, so one hangs only if it leaves a put just the time for a fresh file.
    """
    least_s = writer.context.limits.commit_deadline_s / 2
    if side is None:
        return await writer.bounded(seal_segment(segment), least_s=least_s)
    both = asyncio.gather(
        seal_segment(segment),
        write_side_index(writer.context, segment.view.path, side),
        return_exceptions=True,
    )
    closed, _ = await writer.bounded(both, least_s=least_s)
    if isinstance(closed, BaseException):
        raise closed
    return closed


async def drop(writer: PartitionWriter, count: int, last: Segment) -> None:
    """Job: retention drops the oldest segments, manifest first, files after a grace.

    It was decided for ``count`` segments up to ``last``. If a merge changed them meanwhile, the
    count means others, which have not expired: nothing is dropped, and the next pass decides again.
    """
    context = writer.context
    if writer.segment is None and not writer.readable:
        return
    manifest = writer.versioned.manifest
    if manifest.sealed[count - 1 : count] != (last,):
        return
    gone = _metered(writer, manifest.sealed[:count])
    if not gone or not _kept_is_reported(writer, manifest.start):
        return
    if len(gone) == len(manifest.segments):
        await _keep_state(writer, gone[-1])
    versioned = await change_sealed(writer, manifest.dropped(len(gone)))
    due_s = asyncio.get_running_loop().time() + context.limits.delete_grace_s
    for segment in gone:
        path = segment.path(writer.key)
        context.views.forget(path)
        context.schedule_deletion(path, due_s)
        if versioned.manifest.state_of != segment.name:
            context.schedule_deletion(index_path(path), due_s)
    context.counters.segments_dropped += len(gone)


async def recount(writer: PartitionWriter, counted: Mapping[int, int]) -> None:
    """Job: store from when retention counts segments whose append times are wrong."""
    if writer.segment is None and not writer.readable:
        return
    await change_sealed(writer, writer.versioned.manifest.recounted(counted))
    _log.warning(
        "%s: append times of sealed segments do not fit the clock, retention counts from now: %d",
        *(name_of(writer.key), len(counted)),
    )


async def change_sealed(writer: PartitionWriter, manifest: Manifest) -> VersionedManifest:
    """Change segments that are sealed; the partition continues as it was.

    Also after an error that says "not done": an outage must not cost the open segment. Only after
    a conflict or an unknown outcome is what is held perhaps outdated.
    Raises: TalosError.
    """
    context = writer.context
    if not context.guard.steady():
        raise PartitionNotServing("coordination is away: sealed segments are changed later")
    try:
        versioned = await context.manifests.change(
            writer.key, writer.versioned, marked(writer, manifest)
        )
    except (StoreUnavailable, ManifestFull):
        raise
    except TalosError as error:
        # A later change would need the true version.
        if writer.segment is not None:
            writer.write_failed(error)
        else:
            writer.manifest_changed()
        raise
    writer.manifest_replaced(versioned)
    return versioned


async def close_later(writer: PartitionWriter) -> None:
    """Job: close what a dropped partition left open, after its last step."""
    await writer.close_abandoned()


def _metered(writer: PartitionWriter, segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """The segments that metering has seen whole; all of them if the topic is not metered."""
    if writer.meter is None:
        return segments
    metered = writer.meter.mark.offset
    return tuple(segment for segment in segments if (segment.next_offset or 0) <= metered)


def _kept_is_reported(writer: PartitionWriter, start: int) -> bool:
    """Whether usage events say that the messages from ``start`` on were kept until now."""
    kept = None if writer.meter is None else writer.meter.kept
    return kept is None or kept.permits(start)


async def _keep_state(writer: PartitionWriter, last: Segment) -> None:
    """Make sure of the last segment's side index: it will be the only place of the log's state.

    Writing it at the seal may have failed, which does no harm as long as the segment is there. Or
    its end is open: then it is read, although a part of it may be cut yet, or be lost with the
    power. Its recovery decides that and makes it durable.
    """
    context, path = writer.context, last.path(writer.key)
    limits = context.limits
    with contextlib.suppress(NotFound):
        await context.files.recover(index_path(path), deadline_s=limits.recover_deadline_s)
    interval_bytes = limits.index_interval_bytes
    if await read_side_index(context.files, index_path(path), interval_bytes) is None:
        side, _ = await rebuild_side_index(context.files, path, last, interval_bytes)
        await store_side_index(context.files, path, side)


async def delete(writer: PartitionWriter) -> None:
    """Job: fence every writer of this partition, then delete its files and its manifest."""
    context = writer.context
    writer.work_failed(PartitionNotServing("it is being deleted"))
    versioned = await context.manifests.load(writer.key)
    if versioned is not NOTHING and not versioned.manifest.deleted:
        tombstone = versioned.manifest.tombstone(context.manifests.instance)
        versioned = await context.manifests.change(writer.key, versioned, tombstone)
    folder = f"{writer.key.topic_uuid}/{writer.key.partition}"
    set_aside = await context.files.list(f"{ASIDE}/{folder}")
    for path in [*set_aside, *await context.files.list(folder)]:
        context.views.forget(path)
        await context.files.delete(path)
    await writer.close_abandoned()  # an open descriptor would keep the space of a deleted file
    await context.manifests.remove(writer.key, versioned)
    writer.deleted()
