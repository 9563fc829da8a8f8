"""Shard: one part of a table at the server that owns it now.

One task opens it, writes its groups, clears cells and looks for what another owner left. So
between two awaits of that task nothing else changes a row here, and an entry is known before any
later one of its row. What another server still writes is found by the version of each row.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum

from opentalos.broker.tables.row_tables import rows_of
from opentalos.broker.tables.shard.hold import ShardHold, hold
from opentalos.broker.tables.shard.record import shard_path
from opentalos.broker.tables.shard.row_work import TableView, Waiting, settle, view_of
from opentalos.broker.tables.shard.server import Server
from opentalos.broker.tables.shard.writer import Opening, ShardWriter
from opentalos.broker.tables.stream.gap import record_gaps, stop_stream
from opentalos.broker.tables.stream.outbox import Entry, Outbox
from opentalos.broker.tables.stream.publisher import Publisher, Publishing, PublishLane
from opentalos.catalog.access.authorize import table_not_exist
from opentalos.catalog.tables.table import Table
from opentalos.model.errors import (
    ExcessivePending,
    PartitionNotServing,
    StoreUnavailable,
    TableNotEnabled,
    TalosError,
    Unavailable,
    VersionConflict,
)
from opentalos.model.identity import Principal
from opentalos.model.table import TableState, WhenFull
from opentalos.ports.row_store import FamilyName
from opentalos.sds.key_format import shard_range

_log = logging.getLogger("opentalos.tables")

CLEAR_AFTER_S = 0.05  # cells wait so long for more, or for the next mutation of their row
CLEAR_ROWS_MAX = 256  # rows cleared with one group
LOOK_ROWS = 500  # rows with pending cells that one step of a look or an opening reads
REFUSED_LOOK_S = 1.0  # between two looks whether a topic has refused for long
DRAIN_S = 1.0  # a shard that is given up publishes and clears so long


class State(Enum):
    """Where a shard is in its life. It never goes back."""

    OPENING = "opening"
    OPEN = "open"
    ENDED = "ended"


class TableShard:
    """See the module; the Steps and Listener of its parts. ``ended`` is called once, when it takes
    nothing more."""

    def __init__(
        self, server: Server, table: Table, number: int, ended: Callable[["TableShard"], None]
    ) -> None:
        self._server, self.table_uuid, self.number = server, table.uuid, number
        self.place = (table.owner, table.name)
        self._path = shard_path(table.uuid, number)
        self._ended = ended
        self._limits = server.stores.limits
        self.state = State.OPENING
        self._error: TalosError | None = None  # why it ended
        self._queue: deque[Waiting] = deque()
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()  # held by each step of the task
        self._view: TableView = view_of(table)
        self._hold: ShardHold | None = None  # while the table has streams
        self.outbox: Outbox | None = None
        self._publisher: Publisher | None = None
        self._writer = self._new_writer()
        self._group_ms: int | None = None  # time of the group under way
        self._floor_ms = 0  # all changes to come are later
        self._settled_s = 0.0  # from then on no former owner writes
        self._look_at: bytes | None = None  # where a look goes on; None: none is under way
        self._next_look_s = 0.0
        self._clear_due = self._unwanted = False
        self._clear_timer: asyncio.TimerHandle | None = None
        self._full_since_s: float | None = None
        self._renewals: dict[asyncio.Task[None], None] = {}
        self._used_s = asyncio.get_running_loop().time()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="shard")

    # --- what others call -----------------------------------------------------------------------

    def put(self, waiting: Waiting) -> None:
        """Queue a mutation. Raises: Unavailable: not done."""
        if self.state is State.ENDED:
            raise self._error or PartitionNotServing("the shard has another owner")
        if len(self._queue) >= self._limits.waiting_max:
            raise ExcessivePending(f"{len(self._queue)} mutations of this shard wait")
        self._queue.append(waiting)
        self._wake.set()

    @property
    def full(self) -> bool:
        """``put`` would raise."""
        return self.state is State.ENDED or len(self._queue) >= self._limits.waiting_max

    def end(self, error: TalosError) -> None:
        """Take and write nothing more, at once; what waits is not done."""
        if self.state is State.ENDED:
            return
        self.state, self._error = State.ENDED, error
        while self._queue:
            settle(self._queue.popleft(), error)
        if self._publisher is not None:
            self._publisher.end(lambda _: False)
        if self._clear_timer is not None:
            self._clear_timer.cancel()
        self._wake.set()
        self._ended(self)

    async def retire(self, error: TalosError) -> None:
        """End, but publish and clear first what can be within a bound."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + DRAIN_S
        while self._queue:
            settle(self._queue.popleft(), error)
        try:
            async with asyncio.timeout_at(until_s):
                while self.state is State.OPEN and not self._drained():
                    self._clear_due = True
                    self._wake.set()
                    await asyncio.sleep(CLEAR_AFTER_S / 5)
        except TimeoutError:
            pass
        in_order = self.state is State.OPEN
        self.end(error)
        for task in list(self._renewals):
            task.cancel()
        await asyncio.gather(self._task, *self._renewals, return_exceptions=True)
        if in_order and not self._writer.doubt and self._hold is not None:
            await self._hold.leave()

    async def settled(self) -> None:
        """Return when no group by an older state of the table is under way."""
        async with self._turn:
            self._wake.set()

    async def mark(self, stream: int) -> int:
        """Every change not after this time is in the stream's topic. Raises: Unavailable."""
        hold_ = self._hold
        if hold_ is None:
            raise StoreUnavailable("the shard is being opened")
        async with hold_.turn:
            outbox = self.outbox
            if self.state is not State.OPEN or outbox is None:
                raise StoreUnavailable("the shard is being opened")
            left_s = self._settled_s - asyncio.get_running_loop().time()
            if left_s > 0:
                raise StoreUnavailable(f"a former owner may still write for {left_s:.1f} s")
            mark_ms = self._server.context.clock.wall_ms()
            if self._group_ms is not None:
                mark_ms = min(mark_ms, self._group_ms - 1)
            oldest = [entry.timestamp_ms - 1 for entry in outbox.waiting((stream,))]
            mark_ms = max(0, min([mark_ms, *oldest]))
            self._floor_ms = max(self._floor_ms, mark_ms)
            try:
                await hold_.write_mark(mark_ms)
            except VersionConflict as error:
                self.end(PartitionNotServing(f"shard {self.number}: {error}"))
                raise StoreUnavailable(str(error)) from error
            return mark_ms

    @property
    def idle(self) -> bool:
        """Nothing waits, and the table has no stream."""
        idle_s = asyncio.get_running_loop().time() - self._used_s
        return self.outbox is None and not self._queue and idle_s > self._limits.idle_close_s

    # --- Steps: what the writer and the publisher call ------------------------------------------

    def now_ms(self) -> int:
        """See Steps."""
        now_ms = max(self._server.context.clock.wall_ms(), self._floor_ms + 1)
        if self._group_ms is None:
            self._group_ms = now_ms
        return now_ms

    def check(self) -> None:
        """See Steps."""
        if self.state is State.ENDED:
            raise self._error or PartitionNotServing("the shard has another owner")
        self._server.context.ownership.check_shard(self.table_uuid, self.number)

    def pending(self, entries: Iterable[Entry]) -> None:
        """See Steps."""
        if self._publisher is None or self.state is State.ENDED:
            return  # its lanes are gone: new ones would leave out what those did not tell
        if self._publisher.push(self._view.streams, entries):
            self._unwanted = True  # some; the next step drops them
            self._wake.set()

    def published(self, entries: list[Entry]) -> None:
        """See Listener."""
        if self.outbox is None or self.state is State.ENDED:
            return
        self.outbox.published(entries)
        if self._full_since_s is not None:
            self._clear_now()  # makes room
        elif self._clear_timer is None and not self._clear_due:
            loop = asyncio.get_running_loop()
            self._clear_timer = loop.call_later(CLEAR_AFTER_S, self._clear_now)

    def fenced(self, error: TalosError) -> None:
        """See Listener: another server has opened the shard."""
        self.end(PartitionNotServing(f"shard {self.number}: {error}"))

    def renew(self, lane: PublishLane) -> None:
        """See Listener."""
        task = asyncio.get_running_loop().create_task(self._renew(lane), name="shard-epoch")
        self._renewals[task] = None
        task.add_done_callback(lambda done: self._renewals.pop(done, None))

    # --- the task -------------------------------------------------------------------------------

    async def _run(self) -> None:
        error: TalosError = PartitionNotServing("the shard has ended")
        try:
            async with self._turn:
                await self._open()
            if self.state is State.OPENING:
                self.state = State.OPEN
                self._wake.set()
            while self.state is State.OPEN:
                await self._wait()
                await asyncio.sleep(0)  # requests that have come in already make the group larger
                async with self._turn:
                    await self._step()
        except TalosError as raised:
            error = raised
        except Exception as raised:
            _log.exception("shard %d of table %s failed", self.number, self.table_uuid)
            error = StoreUnavailable(f"shard {self.number}: {raised!r}")
        finally:
            self.end(error)

    async def _wait(self) -> None:
        """Until there is something to do."""
        if self._look_at is not None or self._writer.doubt:
            return
        now_s = asyncio.get_running_loop().time()
        until_s = now_s + self._limits.pending_scan_interval_s
        if self._publisher is not None:
            until_s = self._next_look_s if self._publisher.idle else now_s + REFUSED_LOOK_S
        try:
            async with asyncio.timeout_at(until_s):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _step(self) -> None:
        """One group, and some of the other work. Raises: TalosError: the shard is opened anew."""
        await self._follow_table()
        if self._writer.doubt:
            raise StoreUnavailable("a write's outcome is not known: the shard is opened anew")
        await self._check_full()
        group = self._take()
        clear_max = 0
        if self.outbox is not None:
            clear_max = CLEAR_ROWS_MAX if self._clears_now() else 0
            self._clear_due = False  # with nothing to clear it would never wait again
        if group or clear_max:
            try:
                await self._writer.commit(self._view, group, clear_max)
            finally:
                self._group_ms = None
            self._count(group)
        self._plan_next()
        if self._look_is_due():
            try:
                await self._look()
            except Unavailable:  # what is known goes on
                self._look_at = None
                self._next_look_s = (
                    asyncio.get_running_loop().time() + self._limits.opened_scan_interval_s
                )

    def _take(self) -> list[Waiting]:
        group: list[Waiting] = []
        size, queue, limits = 0, self._queue, self._limits
        if self._full_since_s is not None:
            return group
        while queue and len(group) < limits.group_rows_max:
            size += queue[0].bytes
            if group and size > limits.group_bytes_max:
                break
            group.append(queue.popleft())
        state = self._view.table.state
        if group and state is not TableState.ENABLED:
            error = TableNotEnabled(f"table {self._view.table.name} is {state.name.lower()}")
            for waiting in group:
                settle(waiting, error)
            return []
        return group

    def _count(self, group: list[Waiting]) -> None:
        if group:
            self._used_s = asyncio.get_running_loop().time()
            self._server.counts.groups += 1
            self._server.counts.mutations += len(group)

    def _plan_next(self) -> None:
        """Come back at once if something is left to be done."""
        if self._queue and self._full_since_s is None:
            self._wake.set()
        if self.outbox is not None and self._clear_due:
            self._wake.set()

    def _clears_now(self) -> bool:
        assert self.outbox is not None
        return self.outbox.clearable >= (1 if self._clear_due else CLEAR_ROWS_MAX)

    def _clear_now(self) -> None:
        if self._clear_timer is not None:
            self._clear_timer.cancel()
            self._clear_timer = None
        self._clear_due = True
        self._wake.set()

    def _drained(self) -> bool:
        outbox = self.outbox
        return self._publisher is None or outbox is None or outbox.entries == 0

    # --- opening --------------------------------------------------------------------------------

    async def _open(self) -> None:
        """Know every change of the table that was made before this opening."""
        self._server.counts.opened += 1
        if self._server.context.peers is not None:
            await self._server.tables.refresh(*self.place)
        self.check()
        await self._follow_table()

    async def _follow_table(self) -> None:
        """Work by the newest record; begin an outbox if the table has its first stream now."""
        table = self._server.tables.by_uuid(self.table_uuid)
        if table is None:
            raise table_not_exist(self.place[1])
        if table is not self._view.table or self.state is State.OPENING or self._unwanted:
            self._unwanted = False
            self._view = view_of(table, await self._server.tables.spaces.of(table))
            if self._publisher is not None and self.outbox is not None:
                live = self._view.streams
                self._publisher.end(lambda stream: stream in live)
                gone = [one for one in self.outbox.waiting() if one.stream not in live]
                await record_gaps(self._server.tables, table, gone)
                self.published(gone)
        if self.outbox is None and table.streams:
            await self._open_outbox()

    async def _open_outbox(self) -> None:
        """Take the shard from whoever had it, and all that is pending in it."""
        server, table = self._server, self._view.table
        # Each claim raises the epoch: none is made while the rows cannot be read anyway.
        start, _ = shard_range(table.schema, self.number)
        await server.stores.rows.get(rows_of(table), [start or b"\0"])
        me = server.context.config.server
        self._hold, former = await hold(server.meta, self._path, me)
        now_s = asyncio.get_running_loop().time()
        self._floor_ms = self._hold.record.mark_ms
        self._settled_s = now_s
        if former is not None and former.owner:
            # A lone server has no rival, but a write of its own may still be on its way.
            alone = server.context.peers is None
            limits = self._limits
            self._settled_s += limits.write_deadline_s if alone else limits.settle_s
        self.outbox = Outbox()
        publishing = Publishing(
            context=server.context,
            puts=server.puts,
            listener=self,
            counts=server.counts,
            owner=self._owner,
            table_uuid=self.table_uuid,
            number=self.number,
            schema=self._view.table.schema,
        )
        self._publisher = Publisher(publishing, self._hold.record.epoch)
        self._writer = self._new_writer()
        self._look_at = b""
        while self._look_at is not None:
            await self._look()

    def _new_writer(self) -> ShardWriter:
        number = self._server.stores.cache.new_opening()
        return ShardWriter(self._server.stores, self, Opening(number, self.outbox))

    def _owner(self) -> Principal:
        """Whose right to put counts: as an administrator nobody owns a table."""
        owner = self._view.table.owner
        found = self._server.principal_of(owner)
        if found is None:
            return Principal(id=owner, number=0, organisation=owner)
        return replace(found, admin=False) if found.admin else found

    # --- looks at what another owner left -------------------------------------------------------

    def _look_is_due(self) -> bool:
        if self.outbox is None:
            return False
        if self._look_at is None and asyncio.get_running_loop().time() >= self._next_look_s:
            self._look_at = b""
        return self._look_at is not None

    async def _look(self) -> None:
        """Find entries that are not known here, in some rows; often while a former owner may
        still write, seldom later."""
        assert self.outbox is not None
        table = self._view.table
        start, stop = shard_range(table.schema, self.number)
        rows = await self._server.stores.rows.scan(
            rows_of(table),
            max(start, self._look_at or b""),
            stop,
            limit=LOOK_ROWS,
            family=FamilyName.PENDING,
        )
        for row in rows:
            self.pending(self.outbox.add_found(row.key, row.cells))
        if len(rows) == LOOK_ROWS:
            self._look_at = rows[-1].key + b"\0"
            return
        self._look_at = None
        now_s = asyncio.get_running_loop().time()
        fresh = now_s < self._settled_s
        self._next_look_s = now_s + (
            self._limits.opened_scan_interval_s if fresh else self._limits.pending_scan_interval_s
        )

    # --- bounds ---------------------------------------------------------------------------------

    async def _check_full(self) -> None:
        """Hold mutations while too much is pending; then the table's choice counts."""
        outbox, publisher, limits = self.outbox, self._publisher, self._limits
        if outbox is None or publisher is None:
            return
        now_s = asyncio.get_running_loop().time()
        full = self._server.pending.why_full(outbox)
        refused = publisher.refused()
        gap = self._view.table.when_full is WhenFull.GAP
        late_s = now_s - limits.refused_max_s
        for lane in refused:
            since_s = lane.refused_since_s
            if gap and since_s is not None and (since_s <= late_s or full):
                await self._stop_stream(lane)
        if not full:
            self._full_since_s = None
        elif self._full_since_s is None:
            self._full_since_s = now_s
            asyncio.get_running_loop().call_later(limits.throttle_max_s, self._wake.set)
        elif now_s - self._full_since_s >= limits.throttle_max_s:
            self._refuse_waiting(refused[0].refusal if refused else full)

    def _refuse_waiting(self, why: TalosError | str | None) -> None:
        count = self.outbox.entries if self.outbox is not None else 0
        error = ExcessivePending(f"{count} changes of this shard wait for their stream: {why}")
        self._server.counts.refused_full += len(self._queue)
        while self._queue:
            settle(self._queue.popleft(), error)

    async def _stop_stream(self, lane: PublishLane) -> None:
        """The table prefers a gap. It is recorded before anything is dropped."""
        assert self.outbox is not None
        waiting = self.outbox.waiting((lane.stream.id,))
        if await stop_stream(self._server.tables, self._view.table, lane, waiting):
            self._server.counts.gaps += 1
            await self._follow_table()

    async def _renew(self, lane: PublishLane) -> None:
        """The log has forgotten what a lane sent, so it goes on with a larger epoch."""
        hold_, publisher = self._hold, self._publisher
        if hold_ is None or publisher is None:
            return
        try:
            async with hold_.turn:
                if self.state is State.ENDED:
                    return
                publisher.epoch = epoch = await hold_.raise_epoch(publisher.epoch)
            lane.renewed(epoch)
        except TalosError as error:
            self.end(PartitionNotServing(f"shard {self.number}: {error}"))
