"""StreamDelivery: brings the changes of one shard into its streams' topics.

A shard makes one when it claims its record, and keeps it to the end of the opening. It joins the
outbox (what is pending), the publisher (what is on its way), the scan for cells of former owners,
backpressure, and the clearing of published cells. It keeps the promise that an acknowledged change
reaches every stream, at least once and each row's in order; `docs/adr/0013-outbox-of-streams.md`
says why that holds.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from opentalos.broker.tables.rows.row_work import TableView
from opentalos.broker.tables.shard.claim import ShardClaim, claim_shard
from opentalos.broker.tables.shard.group_clock import GroupClock
from opentalos.broker.tables.shard.record import shard_path
from opentalos.broker.tables.shard.server import Server
from opentalos.broker.tables.shard.state import Event, IllegalTransition, ShardLife
from opentalos.broker.tables.stream.backpressure import Backpressure, Pressure
from opentalos.broker.tables.stream.gap import record_gaps, stop_stream
from opentalos.broker.tables.stream.marks import Marks
from opentalos.broker.tables.stream.outbox import Entry, Outbox
from opentalos.broker.tables.stream.pending_scan import PendingScan
from opentalos.broker.tables.stream.publish_lane import Publishing, PublishLane
from opentalos.broker.tables.stream.publisher import Publisher
from opentalos.model.errors import (
    ExcessivePending,
    PartitionNotServing,
    StoreUnavailable,
    TalosError,
    Unavailable,
    VersionConflict,
)

CLEAR_AFTER_S: Final = 0.05  # published cells wait for more, or for the row's next mutation
CLEAR_ROWS_MAX: Final = 256  # rows cleared with one group
REFUSED_CHECK_S: Final = 1.0  # between two checks whether a topic has rejected puts for long

_log: Final = logging.getLogger("opentalos.tables")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardCalls:
    """What a delivery calls of its shard.

    ``view``: the table as the shard works by it. ``wake``: its task has something to do. ``on``:
    report an event that ends the shard, with the error for its callers. ``defect``: a transition
    was illegal. ``follow_table``: work by the newest record of the table.
    """

    view: Callable[[], TableView]
    wake: Callable[[], None]
    on: Callable[[Event, TalosError], None]
    defect: Callable[[IllegalTransition], None]
    follow_table: Callable[[], Awaitable[None]]


class StreamDelivery:
    """Runs in the task of its shard, except for answers of lanes, epoch renewals and marks.

    It acts as far as the shard's state permits (``ShardLife``) and reports FENCE and FAIL there.
    """

    def __init__(
        self,
        server: Server,
        shard: ShardCalls,
        place: tuple[str, int],
        claimed: tuple[ShardLife, ShardClaim, float],
        clock: GroupClock,
    ) -> None:
        self._server, self._shard = server, shard
        self._life, self.claim, settled_s = claimed
        table_uuid, self._number = place
        limits = server.stores.limits
        self.outbox = Outbox()
        self.pending_scan = PendingScan(limits, self._number, settled_s)
        self._backpressure = Backpressure(limits)
        self._unwanted = False  # entries came whose stream is gone
        self._clear_due = False
        self._clear_timer: asyncio.TimerHandle | None = None
        self._renewals: dict[asyncio.Task[None], None] = {}
        publishing = Publishing(
            context=server.context,
            puts=server.puts,
            listener=self,
            counts=server.counts,
            owner=lambda: server.owner_of(shard.view().table),
            table_uuid=table_uuid,
            number=self._number,
            schema=shard.view().table.schema,
        )
        self.publisher = Publisher(publishing, self.claim.record.epoch)
        self.marks = Marks(
            life=self._life,
            claim=self.claim,
            clock=clock,
            outbox=self.outbox,
            settled_s=settled_s,
            fenced=self.fenced,
        )

    # --- entries --------------------------------------------------------------------------------

    def publish(self, entries: Iterable[Entry]) -> None:
        """These are durable: send them, each row's in order."""
        if not self._life.publishes:
            return  # the lanes are closed: new ones would leave out what those did not publish
        if self.publisher.push(self._shard.view().streams, entries):
            self._unwanted = True  # the next step drops them
            self._shard.wake()

    def published(self, entries: list[Entry]) -> None:
        """See Listener."""
        if self._life.stopped:
            return
        self.outbox.published(entries)
        if self._backpressure.delaying:
            self._clear_now()  # mutations wait for the room
        elif self._clear_timer is None and not self._clear_due:
            loop = asyncio.get_running_loop()
            self._clear_timer = loop.call_later(CLEAR_AFTER_S, self._clear_now)

    def fenced(self, error: TalosError) -> None:
        """See Listener."""
        if not self._life.stopped:
            self._shard.on(Event.FENCE, PartitionNotServing(f"shard {self._number}: {error}"))

    def renew(self, lane: PublishLane) -> None:
        """See Listener."""
        task = asyncio.get_running_loop().create_task(self._renew(lane), name="shard-epoch")
        self._renewals[task] = None
        task.add_done_callback(lambda done: self._renewals.pop(done, None))

    async def drop_gone(self, view: TableView) -> None:
        """Drop entries of streams that are gone.

        Raises: Unavailable: nothing is dropped yet; or the table's record is older than its rows.
        """
        waiting, limit = self.outbox.waiting(), view.table.next_stream_id
        newest = max((entry.stream for entry in waiting), default=0)
        if newest >= limit:
            error = StoreUnavailable(
                f"shard {self._number} of table {view.table.resource}: changes wait for stream "
                f"{newest}, but the table's record knows only streams below {limit}; it was "
                "restored to an older state than the rows: restore both from one time"
            )
            _log.error("%s", error)
            raise error
        self._unwanted = False
        self.publisher.end(lambda stream: stream in view.streams)
        gone = [entry for entry in waiting if entry.stream not in view.streams]
        await record_gaps(self._server.tables, view.table, gone)
        self.published(gone)

    @property
    def has_unwanted(self) -> bool:
        """``drop_gone`` has something to do."""
        return self._unwanted

    # --- one step of the shard's task -----------------------------------------------------------

    async def relieve(self) -> TalosError | None:
        """Apply backpressure; return the error for all mutations that wait, if they must not wait
        longer."""
        now_s, limits = asyncio.get_running_loop().time(), self._server.stores.limits
        full = self._server.budget.why_full(self.outbox)
        refused = self.publisher.refused()
        when_full = self._shard.view().table.when_full
        for lane in refused:
            if self._backpressure.must_stop(when_full, lane, bool(full), now_s):
                await self._stop_stream(lane)
        pressure = self._backpressure.update(bool(full), now_s)
        if pressure is Pressure.BEGINS:
            asyncio.get_running_loop().call_later(limits.throttle_max_s, self._shard.wake)
        if pressure is not Pressure.EXPIRED:
            return None
        why = refused[0].refusal if refused else full
        return ExcessivePending(
            f"{self.outbox.entries} changes of this shard wait for their stream: {why}"
        )

    @property
    def delaying(self) -> bool:
        """Mutations wait until entries were published and cleared."""
        return self._backpressure.delaying

    def rows_to_clear(self) -> int:
        """How many rows to clear with the group that is written now, at most."""
        due = self.outbox.clearable >= (1 if self._clear_due else CLEAR_ROWS_MAX)
        self._clear_due = False  # with nothing to clear the task would never wait again
        return CLEAR_ROWS_MAX if due else 0

    async def scan(self, *, opening: bool = False) -> bool:
        """Read a page of pending cells if one is due; return whether the pass is not complete.

        Raises: Unavailable, while the shard opens. Later a pass is abandoned instead.
        """
        if not self.pending_scan.due():
            return False
        try:
            rows = await self.pending_scan.page(self._server.stores.rows, self._shard.view().table)
        except Unavailable:
            if opening:
                raise
            self.pending_scan.abandon()
            return False
        for row in rows:
            self.publish(self.outbox.add_found(row.key, row.cells))
        return self.pending_scan.under_way

    def wake_at_s(self) -> float | None:
        """When the shard's task has work here even if nothing wakes it, on the loop's clock; None:
        at once."""
        if self.pending_scan.under_way:
            return None
        now_s = asyncio.get_running_loop().time()
        return self.pending_scan.next_s if self.publisher.idle else now_s + REFUSED_CHECK_S

    # --- the end --------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Return when everything is published and cleared, or the shard has stopped."""
        while self.outbox.entries and not self._life.stopped:
            self._clear_with_next_step()
            await asyncio.sleep(CLEAR_AFTER_S / 5)

    def stop(self) -> None:
        """Put, clear and scan nothing more."""
        self.publisher.end(lambda _: False)
        if self._clear_timer is not None:
            self._clear_timer.cancel()

    async def stopped(self) -> None:
        """Return when nothing of it runs any more, after ``stop``."""
        for task in list(self._renewals):
            task.cancel()
        await asyncio.gather(*self._renewals, return_exceptions=True)

    def _clear_now(self) -> None:
        if self._clear_timer is not None:
            self._clear_timer.cancel()
            self._clear_timer = None
        self._clear_with_next_step()

    def _clear_with_next_step(self) -> None:
        self._clear_due = True
        self._shard.wake()

    async def _stop_stream(self, lane: PublishLane) -> None:
        """The table prefers a gap, which is recorded before anything is dropped."""
        waiting = self.outbox.waiting((lane.stream.id,))
        if await stop_stream(self._server.tables, self._shard.view().table, lane, waiting):
            self._server.counts.gaps += 1
            await self._shard.follow_table()

    async def _renew(self, lane: PublishLane) -> None:
        """The log has forgotten this producer, so the lane continues under a larger epoch."""
        try:
            async with self.claim.turn:
                if not self._life.publishes:
                    return
                epoch = await self.claim.raise_epoch(self.publisher.epoch)
                if self._life.stopped:
                    return
                self._life.renewed(epoch)
            self.publisher.renew(lane, epoch)
        except VersionConflict as error:
            self.fenced(error)
        except TalosError as error:
            if not self._life.stopped:
                self._shard.on(Event.FAIL, PartitionNotServing(f"shard {self._number}: {error}"))
        except IllegalTransition as error:
            self._shard.defect(error)


async def claim_delivery(
    server: Server,
    shard: ShardCalls,
    place: tuple[str, int],
    life: ShardLife,
    clock: GroupClock,
) -> StreamDelivery:
    """Claim a shard and make its delivery, which has not read anything yet.

    Args: place: the table's uuid and the shard's number.
    Raises: TalosError: not claimed, or unknown: claim again.
    """
    table_uuid, number = place
    path = shard_path(table_uuid, number)
    claim, former = await claim_shard(server.meta, path, server.context.config.server)
    settled_s = asyncio.get_running_loop().time()
    if former is not None and former.owner:
        # A single server has no rival, but a write of its own may still be on its way.
        limits, single = server.stores.limits, server.context.peers is None
        settled_s += limits.write_deadline_s if single else limits.settle_s
    clock.stay_above(claim.record.mark_ms)
    return StreamDelivery(server, shard, place, (life, claim, settled_s), clock)
