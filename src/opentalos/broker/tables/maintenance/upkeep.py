"""Background work on tables: completes creations and drops, stops streams without a topic.

Each server runs it; in a cluster only the leader changes anything. What a crash interrupted is
completed by whichever server leads next.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.api.access import TableAccess, TableWriter, row_tables
from opentalos.broker.tables.api.values import Table
from opentalos.broker.tables.maintenance.sweep import TableSweep
from opentalos.broker.tables.shard.record import remove_records
from opentalos.catalog.tables.table import stopped_stream
from opentalos.catalog.topics.topics import Existence, existence
from opentalos.model.errors import (
    OutcomeUnknown,
    TableNotExist,
    TalosError,
    Unavailable,
)
from opentalos.model.table import TableState
from opentalos.ports.meta_store import MetaStore

_LOG = logging.getLogger("opentalos.tables")
UPKEEP_INTERVAL_S = 1.0
REMOVE_WAIT_S = 2.0  # a caller waits this long for the rows to be removed; below its own timeout
REMOVALS_MAX = 8  # concurrent drops in the background
UNFINISHED_S = 10.0  # a creation or disabling that takes longer is completed by the leader


class TableUpkeep:
    """The loops of one server. Without leadership they only publish the space that it used.

    A drop is a record in state DELETING, then the rows, then the record's removal. The server
    that got the request completes it at once; a leader that does the same is harmless.
    """

    def __init__(
        self, context: BrokerContext, access: TableAccess, shards: TableWriter, meta: MetaStore
    ) -> None:
        self._context, self.access, self._shards, self._meta = context, access, shards, meta
        self.sweep = TableSweep(context, access)
        self.removing: dict[str, asyncio.Task[None]] = {}
        self._loops: list[asyncio.Task[None]] = []
        # Since when, on the loop's clock, this leader has seen a table in a transient state.
        self._unfinished: dict[tuple[str, TableState], float] = {}
        self._waiting: set[tuple[str, int]] = set()  # streams whose topic is not known

    def start(self) -> None:
        """Start; what a crash interrupted is completed first."""
        sweep_s = self._context.config.sds.sweep_interval_s
        for name, step, pause_s in (
            ("table upkeep", self.run_once, UPKEEP_INTERVAL_S),
            ("table sweep", self.sweep.run_once, sweep_s),
        ):
            self._loops.append(asyncio.create_task(_repeat(step, name, pause_s), name=name))

    async def close(self) -> None:
        """Stop; what is not complete is completed after the next start."""
        tasks = [*self.removing.values(), *self._loops]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run_once(self) -> None:
        """One pass."""
        await self.access.tables.spaces.publish()
        if not self._context.ownership.leads():
            return
        tables = self.access.tables
        room = REMOVALS_MAX - len(self.removing)
        for dead in tables.dropped()[: max(0, room)]:
            self._remove_task(dead)
        now_s = asyncio.get_running_loop().time()
        former, self._unfinished = self._unfinished, {}
        for table in list(tables.all()):
            if table.state is not TableState.ENABLED and table.state is not TableState.DISABLED:
                step = (table.uuid, table.state)
                self._unfinished[step] = former.get(step, now_s)
                if now_s - self._unfinished[step] >= UNFINISHED_S:
                    await self._finish(table)
            elif table.streams:
                await self._check_topics(table)

    async def finish_creation(self, table: Table) -> Table:
        """Create its row tables and enable it.

        Raises: OutcomeUnknown: the record is stored, and the leader completes the creation.
        """
        try:
            await self.access.make_room(table)
            if table.quota_bytes is not None:
                await self.access.tables.spaces.create(table.uuid)
            return await self._settle(table, TableState.CREATING, TableState.ENABLED)
        except Unavailable as error:
            raise OutcomeUnknown(f"table {table.name} is being created: {error}") from error

    async def finish_disabling(self, table: Table) -> Table:
        """Disable it once every owner of a shard works by it.

        Raises: OutcomeUnknown: it is being disabled, and the leader completes it.
        """
        if table.state is not TableState.DISABLING:
            return table
        try:
            await self._shards.table_changed(table)
            return await self._settle(table, TableState.DISABLING, TableState.DISABLED)
        except Unavailable as error:
            raise OutcomeUnknown(f"table {table.name} is being disabled: {error}") from error

    async def remove_soon(self, dead: Table) -> None:
        """Complete a drop; returns when it is done, failed, or after a bounded wait."""
        await asyncio.wait({self._remove_task(dead)}, timeout=REMOVE_WAIT_S)

    async def drop_entries(self, before: Table, after: Table) -> None:
        """Drop the entries of indexes that a schema lost; an error is only logged, since
        the entries are unreachable and cost only space."""
        for name in sorted(set(row_tables(before)) - set(row_tables(after))):
            try:
                await self.access.rows.drop_table(name)
            except TalosError as error:
                _LOG.warning("could not drop the index entries %s: %s", name, error)

    async def _settle(self, table: Table, before: TableState, after: TableState) -> Table:
        def change(now: Table) -> Table:
            return replace(now, state=after) if now.state is before else now

        return await self.access.tables.change(table, change)

    async def _finish(self, table: Table) -> None:
        try:
            if table.state is TableState.CREATING:
                await self.finish_creation(table)
            else:
                await self.finish_disabling(table)
        except TalosError as error:
            _LOG.warning(
                "could not complete the change of table %s, which stays %s: %s",
                table.resource,
                table.state.name,
                error,
            )

    async def _check_topics(self, table: Table) -> None:
        """A stream whose topic was deleted stops: from then on changes are missing.

        If the catalogue does not know the topic, and no deletion of it is on record, the catalogue
        may be older than the table's rows: the changes wait, until the topic is adopted or the
        stream is disabled.
        """
        for name, state in table.streams.items():
            if not state.live:
                continue
            place, stream = (state.topic_owner, state.topic_name), (table.uuid, state.id)
            found = await existence(self._context.topics, state.topic_uuid, *place)
            if found is Existence.DELETED:
                await self._stop_stream(table, name, state.id)
            elif found is Existence.EXISTS:
                self._waiting.discard(stream)
            elif stream not in self._waiting:
                self._waiting.add(stream)
                _LOG.error(
                    "stream of table %s waits: the catalogue does not know topic %s (%s), and no "
                    "deletion of it is on record; adopt the topic (talos log adopt), or disable "
                    "the stream",
                    *(table.resource, name, state.topic_uuid),
                )

    async def _stop_stream(self, table: Table, topic: str, stream_id: int) -> None:
        now_ms = self._context.clock.wall_ms()
        try:
            changed = await self.access.tables.change(
                table, lambda now: stopped_stream(now, topic, stream_id, now_ms, "topic deleted")
            )
            _LOG.error("stream of table %s stopped: topic %s was deleted", table.resource, topic)
            await self._shards.table_changed(changed)
        except TalosError as error:
            _LOG.warning("stream of table %s to %s: %s", table.resource, topic, error)

    def _remove_task(self, dead: Table) -> asyncio.Task[None]:
        task = self.removing.get(dead.uuid)
        if task is None:
            task = asyncio.create_task(self._remove(dead), name=f"drop table {dead.uuid}")
            self.removing[dead.uuid] = task
        return task

    async def _remove(self, dead: Table) -> None:
        try:
            await self._notify(dead)
            for name in row_tables(dead):
                await self.access.rows.drop_table(name)
            await remove_records(self._meta, dead.uuid)
            await self.access.tables.spaces.remove(dead.uuid)
            await self.access.tables.remove(dead)
        except TalosError as error:
            _LOG.warning(
                "could not complete the drop of table %s, will retry: %s", dead.resource, error
            )
        finally:
            del self.removing[dead.uuid]

    async def _notify(self, dead: Table) -> None:
        """Owners stop writing before the rows go; an unreachable one is not waited for: its
        writes fail when the rows are gone."""
        self._shards.forget(dead.uuid)
        self.access.rates.forget(dead.uuid)
        try:
            await self._shards.table_changed(dead)
        except (Unavailable, TableNotExist) as error:
            _LOG.info("drop of table %s: %s", dead.resource, error)


async def _repeat(step: Callable[[], Awaitable[None]], what: str, pause_s: float) -> None:
    while True:
        try:
            await step()
        except TalosError as error:
            _LOG.warning("%s: %s", what, error)
        except Exception:
            # Without this loop drops would never complete.
            _LOG.exception("%s failed, will retry in %.1f s", what, pause_s)
        await asyncio.sleep(pause_s)
