"""TableShards: every mutation of a table goes through the owner of its row's shard.

The use cases call ``apply``; it finds the owner by name on the ring, here or at another server, and
retries while a shard moves or opens. The ring gives no right to write: rows are kept right by their
versions, and streams by the epoch of the claim (I2). A mutation ends as done, not done or unknown
(I7). ``_follow`` opens own shards with streams, so what a dead owner left is published without any
new mutation.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.peer_rpc.calls import STREAM_PUT
from opentalos.broker.peer_rpc.dispatch import PeerDispatch
from opentalos.broker.peer_rpc.remote_logs import RemoteLogs
from opentalos.broker.tables.rows.index_writes import IndexWrites
from opentalos.broker.tables.rows.row_cache import RowCache
from opentalos.broker.tables.rows.row_work import Answer, Outcome, waiting_of
from opentalos.broker.tables.rows.writer import Stores
from opentalos.broker.tables.shard.notices import notify_all
from opentalos.broker.tables.shard.remote import (
    ask_mark,
    ask_mutations,
    register_calls,
)
from opentalos.broker.tables.shard.server import Server
from opentalos.broker.tables.shard.shard import TableShard
from opentalos.broker.tables.stream.outbox import Outbox
from opentalos.broker.tables.stream.outbox_budget import OutboxBudget
from opentalos.broker.tables.stream.publish_lane import topic_of
from opentalos.broker.tables.stream.stream_puts import StreamPuts
from opentalos.catalog.access.authorize import table_not_exist
from opentalos.catalog.tables.table import Table
from opentalos.catalog.tables.tables import TableCatalog
from opentalos.model.errors import (
    BadRequest,
    NotOwner,
    OutcomeUnknown,
    PartitionNotServing,
    RequestError,
    StoreUnavailable,
    TalosError,
    Unavailable,
)
from opentalos.model.identity import Principal
from opentalos.model.mutation import Mutation
from opentalos.ports.meta_store import MetaStore
from opentalos.ports.row_store import RowStore
from opentalos.sds.key_format import row_key, shard_of

_log = logging.getLogger("opentalos.tables")

ROUTE_S = 3.0  # mutations search the owner of their shard for this long
ROUTE_PAUSE_S = 0.05  # before the first retry; doubles
ROUTE_PAUSE_MAX_S = 0.5
FOLLOW_S = 1.0  # between two checks for own shards that are not open
OPENINGS_AT_ONCE = 32  # concurrent openings of own shards without a call
MARK_S = 5.0  # deadline for a mark
KeyOf = tuple[str, int]  # a shard: its table's uuid and its number


class StreamMark(NamedTuple):
    """Every change not after ``timestamp_ms`` is in the topic, below ``offsets`` (by partition)."""

    timestamp_ms: int
    offsets: Mapping[int, int]


class ShardFigures(NamedTuple):
    """Sums over the shards of this server: now, and since its start."""

    shards: int = 0
    mutations: int = 0
    groups: int = 0
    pending_entries: int = 0  # not published, or not cleared
    pending_bytes: int = 0
    oldest_pending_ms: int = 0  # age of the oldest entry that is not published; 0: none
    published: int = 0
    resent: int = 0
    fenced: int = 0
    gaps: int = 0
    refused_full: int = 0


class TableShards:
    """The shards of one server, and the way to those of others."""

    def __init__(
        self,
        context: BrokerContext,
        rows: RowStore,
        meta: MetaStore,
        tables: TableCatalog,
        principal_of: Callable[[str], Principal | None] = lambda _owner: None,
    ) -> None:
        self._context, self._tables = context, tables
        clock, limits = context.clock, context.config.sds
        self._puts = StreamPuts(context)
        self._server = Server(
            context=context,
            stores=Stores(rows, RowCache(), IndexWrites(rows, clock), clock, limits),
            meta=meta,
            tables=tables,
            puts=self._puts,
            budget=OutboxBudget(limits, self._outboxes),
            principal_of=principal_of,
        )
        self._logs = RemoteLogs(context)
        self._shards: dict[KeyOf, TableShard] = {}
        self._retiring: dict[asyncio.Task[None], None] = {}
        self._wake = asyncio.Event()
        self._follower: asyncio.Task[None] | None = None
        self._closed = False

    def register(self, calls: PeerDispatch) -> None:
        """Answer what other servers ask."""
        calls.register(STREAM_PUT, self._puts.answer)
        register_calls(calls, self._apply_here, self._mark_here, self._changed_here)

    async def start(self) -> None:
        """Open own shards that have streams, from now on."""
        self._follower = asyncio.get_running_loop().create_task(self._follow(), name="shards")

    async def close(self) -> None:
        """Let every shard leave: publish and clear what is possible within a bound."""
        self._closed = True
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)
        self._retire(list(self._shards.values()), "the server is stopping")
        await asyncio.gather(*self._retiring, return_exceptions=True)
        await self._puts.close()

    async def apply(self, table: Table, mutations: Sequence[Mutation]) -> Sequence[Outcome]:
        """One outcome per mutation, in order. Applied: durable, and sure to reach the streams."""
        outcomes: list[Outcome | None] = [None] * len(mutations)
        by_shard: dict[int, list[int]] = {}
        keys: list[bytes] = []
        for place, mutation in enumerate(mutations):
            try:
                key = row_key(table.schema, mutation.key)
            except RequestError as error:
                key, outcomes[place] = b"", error
            else:
                by_shard.setdefault(shard_of(table.schema, key), []).append(place)
            keys.append(key)
        if len(by_shard) == 1:
            await self._apply_shard(table, (*by_shard.items(),)[0], (mutations, keys), outcomes)
        elif by_shard:
            what = (mutations, keys)
            parts = (self._apply_shard(table, part, what, outcomes) for part in by_shard.items())
            await asyncio.gather(*parts)
        lost = OutcomeUnknown("the mutation was not answered")
        return [lost if outcome is None else outcome for outcome in outcomes]

    async def mark(self, table: Table, topic: str) -> StreamMark:
        """Up to when a stream is complete. ``topic``: as the table's schema names it.

        Raises: Unavailable: unknown now. TopicNotExist, PermissionDenied: of the topic.
            BadRequest: the table has no such enabled stream.
        """
        stream = table.streams.get(topic)
        if stream is None or not stream.live:
            raise BadRequest(f"table {table.name} has no enabled stream to {topic}")
        owner = self._server.principal_of(table.owner)
        found = topic_of(self._context, owner or Principal(id=table.owner, number=0), stream)
        marks = await asyncio.gather(
            *(self._shard_mark(table, number, stream.id) for number in range(table.schema.shards))
        )
        partitions = range(found.consumer_partitions)
        facts = await self._logs.read(found, partitions)
        offsets = {}
        for partition, fact in zip(partitions, facts, strict=True):
            if isinstance(fact, TalosError):
                raise fact
            offsets[partition] = fact.offsets.next
        return StreamMark(min(marks), offsets)

    async def table_changed(self, table: Table) -> None:
        """Return when every server works by this record of the table or a newer one.

        Raises: Unavailable: a server did not confirm it.
        """
        await self._settle(table.uuid)
        self._wake.set()
        if self._context.peers is not None:
            await notify_all(self._context, table)

    def forget(self, table_uuid: str) -> None:
        """The table is being dropped: nothing more is written to it here."""
        for shard in self._shards_of(table_uuid):
            shard.close(table_not_exist(shard.place[1]))

    def ownership_changed(self) -> None:
        """This server got or lost shards."""
        self._retire(
            [shard for shard in self._shards.values() if not self._is_own(shard)], "it moved"
        )
        self._wake.set()

    def forget_all(self) -> None:
        """This server's session has lapsed: nothing more is written."""
        for shard in list(self._shards.values()):
            shard.close(PartitionNotServing("this server has lost its session with the cluster"))

    def figures(self) -> ShardFigures:
        """Sums over the shards of this server."""
        counts, now_ms = self._server.counts, self._context.clock.wall_ms()
        boxes = self._outboxes()
        oldest_ms = min(
            (entry.timestamp_ms for box in boxes for entry in box.waiting()), default=now_ms
        )
        return ShardFigures(
            shards=len(self._shards),
            mutations=counts.mutations,
            groups=counts.groups,
            pending_entries=sum(box.entries for box in boxes),
            pending_bytes=sum(box.bytes for box in boxes),
            oldest_pending_ms=max(0, now_ms - oldest_ms),
            published=counts.published,
            resent=counts.resent,
            fenced=counts.fenced,
            gaps=counts.gaps,
            refused_full=counts.refused_full,
        )

    def _outboxes(self) -> list[Outbox]:
        return [shard.outbox for shard in self._shards.values() if shard.outbox is not None]

    # --- mutations ------------------------------------------------------------------------------

    async def _apply_shard(
        self,
        table: Table,
        part: tuple[int, Sequence[int]],
        what: tuple[Sequence[Mutation], Sequence[bytes]],
        outcomes: list[Outcome | None],
    ) -> None:
        """Apply mutations of one shard at its owner, which may change; fill ``outcomes``."""
        loop = asyncio.get_running_loop()
        deadline_s, pause_s = loop.time() + ROUTE_S, ROUTE_PAUSE_S
        number, left = part
        while True:
            found = await self._try_shard(table, number, (what, left))
            again = []
            for place, outcome in zip(left, found, strict=True):
                outcomes[place] = _without_owner(outcome)
                if isinstance(outcome, PartitionNotServing | StoreUnavailable):
                    again.append(place)
            if not again or loop.time() + pause_s > deadline_s or self._closed:
                return
            left = again
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, ROUTE_PAUSE_MAX_S)

    async def _try_shard(
        self,
        table: Table,
        number: int,
        part: tuple[tuple[Sequence[Mutation], Sequence[bytes]], Sequence[int]],
    ) -> Sequence[Outcome]:
        (mutations, keys), places = part
        try:
            self._context.ownership.check_shard(table.uuid, number)
            answers = [self._put(table, number, mutations[place], keys[place]) for place in places]
            return [
                await answer if isinstance(answer, asyncio.Future) else answer for answer in answers
            ]
        except NotOwner as error:
            peers = self._context.peers
            if peers is None or not error.address:
                return [error] * len(places)
            name = (table.uuid, table.owner, table.name)
            some = [mutations[place] for place in places]
            outcomes = await ask_mutations(peers, error.address, name, some)
            if any(isinstance(outcome, NotOwner) for outcome in outcomes):
                await self._catch_up()
            return outcomes
        except TalosError as error:
            return [error] * len(places)

    def offer(
        self,
        table: Table,
        keyed: tuple[bytes, Mutation],
        admit: Callable[[], bool],
        answer: Answer,
    ) -> bool:
        """See OwnShards."""
        key, mutation = keyed
        number = shard_of(table.schema, key)
        try:
            self._context.ownership.check_shard(table.uuid, number)
        except TalosError:
            return False
        found = self._shards.get((table.uuid, number))
        if found is None or not found.accepts or not admit():
            return False
        found.put(waiting_of(mutation, key, answer))
        return True

    def _put(
        self, table: Table, number: int, mutation: Mutation, key: bytes
    ) -> "asyncio.Future[Outcome] | TalosError":
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def answer(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(outcome)

        try:
            self._shard(table, number).put(waiting_of(mutation, key, answer))
        except TalosError as error:
            return error
        return future

    async def _apply_here(
        self, name: tuple[str, str, str], mutations: Sequence[Mutation]
    ) -> Sequence[Outcome]:
        """Apply mutations that another server forwarded; they are not forwarded again."""
        table = await self._table(name)
        outcomes: list[Outcome] = []
        answers = []
        for mutation in mutations:
            try:
                key = row_key(table.schema, mutation.key)
                number = shard_of(table.schema, key)
                self._context.ownership.check_shard(table.uuid, number)
                answers.append(self._put(table, number, mutation, key))
            except TalosError as error:
                answers.append(error)
        for answer in answers:
            outcome = await answer if isinstance(answer, asyncio.Future) else answer
            outcomes.append(_without_owner(outcome))
        return outcomes

    async def _table(self, name: tuple[str, str, str]) -> Table:
        uuid, owner, plain = name
        table = self._tables.by_uuid(uuid)
        if table is None:
            await self._tables.refresh(owner, plain)
            table = self._tables.by_uuid(uuid)
        if table is None:
            raise table_not_exist(plain)
        return table

    # --- shards of this server ------------------------------------------------------------------

    def _shard(self, table: Table, number: int) -> TableShard:
        """The shard, opened if necessary. Raises: PartitionNotServing."""
        found = self._shards.get((table.uuid, number))
        if found is None:
            if self._closed:
                raise PartitionNotServing("the server is stopping")
            found = TableShard(self._server, table, number, self._ended)
            self._shards[table.uuid, number] = found
        return found

    def _ended(self, shard: TableShard) -> None:
        key = (shard.table_uuid, shard.number)
        if self._shards.get(key) is shard:
            del self._shards[key]

    def _shards_of(self, table_uuid: str) -> list[TableShard]:
        return [shard for key, shard in self._shards.items() if key[0] == table_uuid]

    def _is_own(self, shard: TableShard) -> bool:
        try:
            self._context.ownership.check_shard(shard.table_uuid, shard.number)
        except PartitionNotServing:
            return False
        return True

    def _retire(self, shards: Sequence[TableShard], why: str) -> None:
        for shard in shards:
            retiring = shard.leave(PartitionNotServing(f"shard {shard.number}: {why}"))
            task = asyncio.get_running_loop().create_task(retiring, name="shard-close")
            self._retiring[task] = None
            task.add_done_callback(lambda done: self._retiring.pop(done, None))

    async def _follow(self) -> None:
        """Open own shards, so that what a dead owner left is published; close idle ones."""
        while True:
            try:
                await self._open_own()
            except Exception:
                # Without this loop entries of dead owners would never be published.
                _log.exception("opening own shards failed, will retry in %.1f s", FOLLOW_S)
            try:
                async with asyncio.timeout(FOLLOW_S):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    async def _open_own(self) -> None:
        for shard in [shard for shard in self._shards.values() if shard.idle]:
            shard.close(PartitionNotServing("the shard was idle"))
        check = self._context.ownership.check_shard
        room = OPENINGS_AT_ONCE - sum(1 for shard in self._shards.values() if shard.opening)
        for table in [table for table in self._tables.all() if table.streams]:
            for number in range(table.schema.shards):
                if (table.uuid, number) in self._shards:
                    continue
                try:
                    check(table.uuid, number)
                except PartitionNotServing:
                    continue
                if room <= 0:
                    self._wake.set()
                    await asyncio.sleep(ROUTE_PAUSE_S)
                    return
                self._shard(table, number)
                room -= 1

    async def _settle(self, table_uuid: str) -> None:
        await asyncio.gather(*(shard.settled() for shard in self._shards_of(table_uuid)))

    # --- the other servers ----------------------------------------------------------------------

    async def _catch_up(self) -> None:
        try:
            await self._context.ownership.catch_up("")
        except TalosError:
            return  # the next attempt reports it

    async def _changed_here(self, name: tuple[str, str, str]) -> None:
        """Another server changed a table."""
        uuid, owner, plain = name
        await self._tables.refresh(owner, plain)
        if self._tables.by_uuid(uuid) is None:
            self.forget(uuid)
        await self._settle(uuid)
        self._wake.set()

    async def _shard_mark(self, table: Table, number: int, stream: int) -> int:
        name = (table.uuid, table.owner, table.name)
        try:
            self._context.ownership.check_shard(table.uuid, number)
        except NotOwner as error:
            peers = self._context.peers
            if peers is None or not error.address:
                raise _not_serving(error) from error
            return await ask_mark(peers, error.address, name, number, stream)
        return await self._mark_here(name, number, stream)

    async def _mark_here(self, name: tuple[str, str, str], number: int, stream: int) -> int:
        """The mark of an own shard; waits while it is being opened."""
        table = await self._table(name)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + MARK_S
        while True:
            try:
                self._context.ownership.check_shard(table.uuid, number)
                return await self._shard(table, number).mark(stream)
            except NotOwner as error:
                raise _not_serving(error) from error
            except Unavailable:
                if loop.time() + ROUTE_PAUSE_S > deadline_s:
                    raise
            await asyncio.sleep(ROUTE_PAUSE_S)


def _not_serving(error: NotOwner) -> TalosError:
    return PartitionNotServing(str(error))


def _without_owner(outcome: Outcome) -> Outcome:
    """Hide NotOwner, which would make a gateway forward the whole request."""
    return PartitionNotServing(str(outcome)) if isinstance(outcome, NotOwner) else outcome
