"""TableShard: one opening of a part of a table, at the server that owns it now.

``shards.py`` makes one when a mutation or a stream needs it, and drops it when it has stopped. One
task runs all its work: it claims the shard, reads what is pending, writes groups, clears cells.
Between two awaits of that task nothing else changes a row here, so an entry is known before any
later one of its row. What another server still writes is detected by the version of each row, and
its blocks are rejected by the logs, which know the epoch of the claim (I2).

The states are in ``state.py``. A mutation that is not written when the shard stops is not done; an
outcome that cannot be found out ends the opening, and the next one finds in the rows what happened
(I7). A defect, such as an illegal transition, fences the shard in the same way.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from opentalos.broker.tables.row_tables import rows_of
from opentalos.broker.tables.rows.row_work import TableView, Waiting, settle, view_of
from opentalos.broker.tables.rows.writer import Opening, ShardWriter
from opentalos.broker.tables.shard.group_clock import GroupClock
from opentalos.broker.tables.shard.group_queue import GroupQueue
from opentalos.broker.tables.shard.server import Server
from opentalos.broker.tables.shard.state import Event, IllegalTransition, ShardLife, State
from opentalos.broker.tables.stream.delivery import (
    ShardCalls,
    StreamDelivery,
    claim_delivery,
)
from opentalos.broker.tables.stream.outbox import Outbox
from opentalos.catalog.access.authorize import table_not_exist
from opentalos.catalog.tables.table import Table
from opentalos.model.errors import (
    PartitionNotServing,
    StoreUnavailable,
    TableNotEnabled,
    TalosError,
)
from opentalos.model.table import TableState
from opentalos.sds.key_format import shard_range

_log = logging.getLogger("opentalos.tables")

DRAIN_S: Final = 1.0  # a shard that leaves publishes and clears for this long
_OPENING: Final = frozenset({State.OPENING, State.CLAIMING, State.READING})


class TableShard:
    """See the module. ``stopped`` is called once, when it takes and writes nothing more.

    | State | What the task does |
    | --- | --- |
    | OPENING, CLAIMING, READING | ``_advance``: one method for each, until the shard serves |
    | SERVING, LEAVING | ``_step``: a group, clears, a page of the pending scan |
    | RELEASING, FENCED, CLOSED | nothing: ``_stop`` answered what waited |

    Others call ``put``, ``mark``, ``leave`` and ``close``; all else happens in the task.
    """

    def __init__(
        self, server: Server, table: Table, number: int, stopped: Callable[["TableShard"], None]
    ) -> None:
        self._server, self.table_uuid, self.number = server, table.uuid, number
        self.place = (table.owner, table.name)
        self._stopped = stopped
        self._limits = server.stores.limits
        self._life = ShardLife()
        self._error: TalosError | None = None  # why it stopped
        self._queue = GroupQueue(self._limits)
        self._clock = GroupClock(server.context.log.time.append_ms)
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()  # held by each step of the task
        self._view: TableView = view_of(table)
        self._delivery: StreamDelivery | None = None  # while the table has streams
        self._writer = self._new_writer()
        self._used_s = asyncio.get_running_loop().time()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="shard")

    # --- what others call -----------------------------------------------------------------------

    def put(self, waiting: Waiting) -> None:
        """Queue a mutation. Raises: Unavailable: not done."""
        if not self._life.accepts:
            raise self._why_stopped()
        self._queue.put(waiting)
        self._wake.set()

    @property
    def accepts(self) -> bool:
        """``put`` would not raise."""
        return self._life.accepts and not self._queue.full

    @property
    def opening(self) -> bool:
        """It does not serve yet."""
        return self._life.state in _OPENING

    @property
    def idle(self) -> bool:
        """Nothing waits, nothing was written for long, and the table has no stream."""
        idle_s = asyncio.get_running_loop().time() - self._used_s
        return self._delivery is None and not self._queue and idle_s > self._limits.idle_close_s

    @property
    def outbox(self) -> Outbox | None:
        """What is pending; None: it has not claimed the shard."""
        return None if self._delivery is None else self._delivery.outbox

    def close(self, error: TalosError) -> None:
        """Take and write nothing more, at once; what waits is not done."""
        if not self._life.stopped:
            self._on(Event.CLOSE, error)

    async def leave(self, error: TalosError) -> None:
        """Stop in order: publish and clear what is possible in ``DRAIN_S``, release the claim."""
        if self._life.stopped or self._life.at(State.LEAVING):
            return
        self._queue.refuse(error)
        self._on(Event.LEAVE, error)
        if self._life.at(State.LEAVING):
            await self._drain()
        if self._life.at(State.LEAVING):
            self._on(Event.DRAINED, error)
        await asyncio.gather(self._task, return_exceptions=True)
        if self._delivery is not None:
            await self._delivery.stopped()
        if self._life.at(State.RELEASING):
            await self._release(error)

    async def settled(self) -> None:
        """Return when no group by an older record of the table is being written."""
        async with self._turn:
            self._wake.set()

    async def mark(self, stream: int) -> int:
        """Every change not after this time is in the stream's topic. Raises: Unavailable."""
        if self._delivery is None:
            raise StoreUnavailable("the shard is being opened")
        return await self._delivery.marks.issue(stream)

    # --- transitions ----------------------------------------------------------------------------

    def _on(self, event: Event, error: TalosError | None = None) -> None:
        """Take a transition. ``error``: for those who wait, if the shard stops by it."""
        try:
            self._life.on(event)
        finally:
            if self._life.stopped:
                self._stop(error or PartitionNotServing("the shard has stopped"))

    def _stop(self, error: TalosError) -> None:
        """Answer what waits; nothing is accepted, written or published from now on."""
        if self._error is not None:
            return
        self._error = error
        self._queue.refuse(error)
        if self._delivery is not None:
            self._delivery.stop()
        self._wake.set()
        self._stopped(self)

    def _fail(self, error: TalosError) -> None:
        if not self._life.stopped:
            self._on(Event.FAIL, error)

    def _defect(self, error: IllegalTransition) -> None:
        """The state is FENCED now. The defect is reported as an unhandled error: servers
        log it, simulations fail by it."""
        text = f"shard {self.number} of table {self.table_uuid} fenced, illegal transition: {error}"
        self._stop(StoreUnavailable(text))
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": text, "exception": error})

    def _why_stopped(self) -> TalosError:
        return self._error or PartitionNotServing("another server owns the shard")

    # --- the task -------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            async with self._turn:
                await self._advance()
            self._wake.set()
            while self._life.writes:
                await self._wait()
                await asyncio.sleep(0)  # requests that have arrived already join the group
                async with self._turn:
                    await self._step()
        except TalosError as error:
            self._fail(error)
        except IllegalTransition as error:
            self._defect(error)
        except Exception as error:
            _log.exception("shard %d of table %s failed", self.number, self.table_uuid)
            self._fail(StoreUnavailable(f"shard {self.number}: {error!r}"))
        finally:
            self._fail(PartitionNotServing("the shard has stopped"))

    async def _advance(self) -> None:
        """Do what the state asks for until the shard serves or has stopped."""
        while self._life.state in _OPENING:
            if self._life.at(State.OPENING):
                await self._open()
            elif self._life.at(State.CLAIMING):
                await self._claim()
            elif self._delivery is not None:
                under_way = await self._delivery.scan(opening=True)
                if not under_way and self._life.at(State.READING):
                    self._on(Event.PENDING_READ)

    async def _open(self) -> None:
        self._server.counts.opened += 1
        if self._server.context.peers is not None:
            await self._server.tables.refresh(*self.place)
        self._check()
        await self._follow_table()
        if self._life.at(State.OPENING):
            self._on(Event.STREAMS if self._view.table.streams else Event.NO_STREAMS)

    async def _claim(self) -> None:
        # Each claim raises the epoch: none is made while the rows cannot be read anyway.
        start, _ = shard_range(self._view.table.schema, self.number)
        await self._server.stores.rows.get(rows_of(self._view.table), [start or b"\0"])
        calls = ShardCalls(
            view=lambda: self._view,
            wake=self._wake.set,
            on=self._on,
            defect=self._defect,
            follow_table=self._follow_table,
        )
        place = (self.table_uuid, self.number)
        delivery = await claim_delivery(self._server, calls, place, self._life, self._clock)
        if not self._life.at(State.CLAIMING):
            return  # it stopped meanwhile
        self._life.claimed(delivery.claim.record.epoch)
        self._delivery = delivery
        self._writer = self._new_writer()

    async def _wait(self) -> None:
        """Until there is something to do."""
        if self._writer.doubt:
            return
        until_s = asyncio.get_running_loop().time() + self._limits.pending_scan_interval_s
        if self._delivery is not None:
            at_s = self._delivery.wake_at_s()
            if at_s is None:
                return
            until_s = at_s
        try:
            async with asyncio.timeout_at(until_s):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    def _has_stopped(self) -> bool:
        """Whether the shard stopped during the last await; nothing is to be done any more."""
        return not self._life.writes

    async def _step(self) -> None:
        """One group, and some of the other work. Raises: TalosError: the shard has to reopen."""
        await self._follow_table()
        if self._has_stopped():
            return
        if self._delivery is None and self._view.table.streams:
            self._on(Event.STREAMS)
            await self._advance()
            if self._has_stopped():
                return
        if self._writer.doubt:
            raise StoreUnavailable("write outcome unknown; reopening the shard")
        delivery, clear_max = self._delivery, 0
        if delivery is not None:
            rejected = await delivery.relieve()
            if rejected is not None:
                self._server.counts.refused_full += self._queue.refuse(rejected)
        group = self._take()
        if delivery is not None:
            clear_max = delivery.rows_to_clear()
        if group or clear_max:
            try:
                await self._writer.commit(self._view, group, clear_max)
            finally:
                self._clock.group_ended()
            self._count(group)
        if self._queue and not (delivery is not None and delivery.delaying):
            self._wake.set()
        if delivery is not None:
            await delivery.scan()

    def _take(self) -> list[Waiting]:
        """The next group; none while mutations are delayed or the table is disabled."""
        if self._delivery is not None and self._delivery.delaying:
            return []
        group, table = self._queue.take(), self._view.table
        if group and table.state is not TableState.ENABLED:
            error = TableNotEnabled(f"table {table.name} is {table.state.name.lower()}")
            for waiting in group:
                settle(waiting, error)
            return []
        return group

    def _count(self, group: list[Waiting]) -> None:
        if group:
            self._used_s = asyncio.get_running_loop().time()
            self._server.counts.groups += 1
            self._server.counts.mutations += len(group)

    async def _follow_table(self) -> None:
        """Work by the newest record of the table. Raises: TalosError: it cannot be followed."""
        table = self._server.tables.by_uuid(self.table_uuid)
        if table is None:
            raise table_not_exist(self.place[1])
        delivery = self._delivery
        unwanted = delivery is not None and delivery.has_unwanted
        if table is self._view.table and not unwanted and not self._life.at(State.OPENING):
            return
        self._view = view_of(table, await self._server.tables.spaces.of(table))
        if delivery is not None:
            await delivery.drop_gone(self._view)

    def _check(self) -> None:
        """Raises: Unavailable: this server must not write to the shard now."""
        if self._life.stopped:
            raise self._why_stopped()
        self._server.context.ownership.check_shard(self.table_uuid, self.number)

    def _new_writer(self) -> ShardWriter:
        stores, delivery = self._server.stores, self._delivery
        opening = Opening(
            number=stores.cache.new_opening(),
            now_ms=self._clock.now_ms,
            check=self._check,
            outbox=None if delivery is None else delivery.outbox,
            publish=(lambda _: None) if delivery is None else delivery.publish,
        )
        return ShardWriter(stores, opening)

    # --- leaving --------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Until everything is published and cleared, or for ``DRAIN_S``."""
        if self._delivery is None:
            return
        try:
            async with asyncio.timeout(DRAIN_S):
                await self._delivery.drain()
        except TimeoutError:
            pass

    async def _release(self, error: TalosError) -> None:
        """No write is under way, so the next owner need not wait before it issues marks."""
        if self._writer.doubt:
            self._on(Event.FAIL, error)
            return
        if self._delivery is not None:
            await self._delivery.claim.release()
        self._on(Event.RELEASED, error)
