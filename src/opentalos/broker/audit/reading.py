"""AuditService: the events of the topic ``__audit`` that concern the caller."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.catalog.access.roles import may_look
from opentalos.model.errors import PermissionDenied, TalosError
from opentalos.model.identity import Principal
from opentalos.model.message import StoredBlock
from opentalos.model.names import AUDIT_TOPIC, SYSTEM_TENANT
from opentalos.wire.message import decode_block
from opentalos.wire.metrics.audit_event import AuditEvent, AuditOutcome

PARTITION: Final = 0  # all events are in one partition, so that they have one order
SCANNED_EVENTS_MAX: Final = 2_000  # of one page: they are decoded on the loop, block by block
READ_BYTES_MAX: Final = 1 << 20  # of one read


class AuditPage(NamedTuple):
    """Events in the order they were stored. ``next_page``: where to continue, or None at the end;
    a page may be empty although more follow."""

    events: Sequence[AuditEvent]
    next_page: int | None


class AuditService:
    """Administrators see every event; others what their tenant did, or what was done to what
    their tenant owns; not what it was denied of another tenant's, which would say what exists."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    async def read(
        self, caller: Principal, *, page: int, since_ms: int, events_max: int
    ) -> AuditPage:
        """Events from the position ``page`` on that happened at ``since_ms`` or later.

        Raises: PermissionDenied: a guest, an agent, or a key that may not describe;
            NotOwner: another server has them; Unavailable; CorruptLog: what follows the events
            that were read is damaged.
        """
        context = self._context
        if not may_look(caller):
            context.authorizer.refuse(caller, "read the audit", "")
        topic = context.topics.record(SYSTEM_TENANT, AUDIT_TOPIC)
        if topic is None:  # nothing was recorded yet
            return AuditPage((), None)
        log = context.partition_log(topic, PARTITION)
        bounds = await log.proven()
        at = max(page, bounds.start)
        if at >= bounds.next:
            bounds = await log.offsets()  # or its damage
        if since_ms and not page:  # recorded before it is stored, so none of them is earlier
            at = max(at, await log.offset_at(since_ms))
        found: list[AuditEvent] = []
        last = min(bounds.next, at + SCANNED_EVENTS_MAX)
        while at < last and len(found) < events_max:
            read = await log.read(at, messages_max=SCANNED_EVENTS_MAX, bytes_max=READ_BYTES_MAX)
            if not read.blocks:
                break
            for block in read.blocks:
                at = _take(block, at, found, (caller, since_ms, events_max))
                await asyncio.sleep(0)  # much shorter than a piece of long work
                if at >= last or len(found) >= events_max:
                    break
        return AuditPage(found, at if at < bounds.next or log.damage is not None else None)


def _take(
    block: StoredBlock, at: int, found: list[AuditEvent], wanted: tuple[Principal, int, int]
) -> int:
    """Add what concerns the caller; the offset that follows."""
    caller, since_ms, events_max = wanted
    messages = decode_block(bytes(block.payload), block.compression, block.messages)
    for offset, message in enumerate(messages, block.base_offset):
        if offset < at:
            continue
        if len(found) >= events_max:
            return offset
        try:
            event = AuditEvent.decode(message.data)
        except TalosError:  # of a later version, or damaged: the others must be readable
            continue
        if event.at_ms >= since_ms and _concerns(event, caller):
            found.append(event)
    return block.next_offset


def _concerns(event: AuditEvent, caller: Principal) -> bool:
    mine = (caller.id, caller.owner_id)
    if caller.admin or event.owner in mine:
        return True
    return (event.tenant in mine or event.principal in mine) and not _reveals(event)


def _reveals(event: AuditEvent) -> bool:
    """Whether the event says that another tenant's resource exists: nothing is recorded of those
    that do not, or with another error (I8)."""
    if event.outcome == AuditOutcome.DONE:
        return False
    return event.error.endswith("NotExist") or (
        event.error == PermissionDenied.__name__ and event.owner != ""
    )
