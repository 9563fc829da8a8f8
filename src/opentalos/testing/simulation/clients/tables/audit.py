"""The audit of tables at the end of a run: waits for the streams, reads all rows and changes."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from opentalos.adapters.memory import MemoryRowStore, MemoryStorage
from opentalos.broker.broker import Broker
from opentalos.broker.messaging.plain_messages import Bounds, PlainMessage, Spot
from opentalos.broker.tables.api.values import TABLES, ScanQuery
from opentalos.model.change import ChangeKind, StreamView
from opentalos.model.datum import Columns
from opentalos.model.errors import TalosError
from opentalos.ports.row_store import FamilyName
from opentalos.testing.simulation.clients.message_clients import OWNER, RETRY_S, LiveTopic
from opentalos.testing.simulation.clients.tables.clients import (
    GROUPS,
    HOT_ROWS,
    INDEX,
    INDEXED,
    LiveTable,
    MarkReader,
    Switcher,
    TableClient,
    plain,
    row_name,
    text,
)
from opentalos.testing.simulation.stores.kill_points import ROW_TABLES, uuid_of
from opentalos.testing.simulation.world.server import ServerLost, UnansweredBug
from opentalos.testing.simulation.world.world import World
from opentalos.wire.sds.change import decode_change

PATIENCE_S = 90.0  # after the faults everything must be published within this time
READ_S = 20.0  # timeout of one read of a whole stream
PAGE = Bounds(messages_max=10_000, bytes_max=8 << 20)
SCAN_RECORDS = 3  # of one page; low, so that a scan has several pages
KEY = ("g", "id")
_KINDS = {ChangeKind.PUT: "put", ChangeKind.INCREMENT: "increment", ChangeKind.DELETE: "delete"}


class TableAuditor(TableClient):
    """Checks that the table works once all faults are over, and reads everything."""

    def __init__(self, world: World, table: LiveTable) -> None:
        super().__init__(world, "table auditor", table)
        self._marks, self._switcher = MarkReader(world, table), Switcher(world, table)
        self._last: dict[str, None] = {}  # tags of the last put of each row
        self._gaps: dict[str, None] = {}  # streams that stopped

    async def probe(self) -> None:
        """Enable every stream, then put into every row; that is the row's last change."""
        if self.table.switched:
            await self._until(self._switch_on)
        for row in HOT_ROWS:
            await self._until(partial(self._probe, row))

    async def read_all(self) -> None:
        """Read rows, index, streams and marks, once the streams have each row's last change."""
        await self._until(self._all_cleared)
        await self._until(self._find_gaps)
        rows, entries = _all_rows(self.table.name), _all_entries(self.table.name)
        await self._until(partial(self._scan, rows, {}))
        await self._until(partial(self._scan, entries, {"index": INDEX, "column": INDEXED}))
        await self.read_streams()
        for name in self.table.streams:
            if name not in self._gaps:
                await self._until(partial(self._mark, name))

    async def read_streams(self) -> None:
        """Read all changes of the streams; only the last puts of ``probe`` are waited for."""
        for name, view in self.table.streams.items():
            await self._until(partial(self._read, name, view))

    @property
    def _rotten(self) -> bool:
        """Whether a topic has a flipped bit: its stream may never be complete."""
        rotten = {note.args["topic"] for note in self.world.recorder.history.noted("rot")}
        return any(topic.uuid in rotten for topic in self.table.topics.values())

    async def _until(self, attempt: Callable[[bool], Awaitable[bool]]) -> None:
        """Retry until it succeeds; the last attempt is ``late``, and its failure is recorded."""
        until_s = self.world.loop.time() + PATIENCE_S
        late = False
        while not await attempt(late) and not late:
            await asyncio.sleep(RETRY_S)
            late = self.world.loop.time() > until_s

    def _healed(self, late: bool) -> dict[str, Any]:
        return {"healed": True} if late and not self._rotten else {}

    async def _switch_on(self, late: bool) -> bool:
        return await self._switcher.switch(True, **self._healed(late))

    async def _probe(self, row: tuple[str, str], late: bool) -> bool:
        mutation = self.put_of(row)
        put = await self.write(await self.server(), mutation, **self._healed(late))
        if put.ok:
            self._last[str(mutation.columns["tag"].value)] = None
        return put.ok

    async def _mark(self, name: str, late: bool) -> bool:
        mark = await self._marks.mark(await self.server(), name, **self._healed(late))
        return mark.ok

    async def _all_cleared(self, late: bool) -> bool:
        """No entry waits to be published or cleared, and no rows of a dropped table remain,
        according to storage itself."""
        records = self.world.disk.records
        rows = MemoryRowStore(records)
        known = _table_uuids(records)
        for table in records.tables:
            if table.startswith(ROW_TABLES):
                if uuid_of(table) not in known:
                    if late:
                        text = f"rows of {table}, whose table was dropped"
                        self.world.recorder.note("left-behind", text=text)
                    return False
                left = await rows.scan(table, b"", b"", limit=1, family=FamilyName.PENDING)
                if left and late and not self._rotten:
                    text = f"{len(left[0].cells)} pending entries of {left[0].key!r} in {table}"
                    self.world.recorder.note("left-behind", text=text)
                if left:
                    return False
        return True

    async def _find_gaps(self, late: bool) -> bool:
        """Note which streams have stopped, and since when changes are missing there."""
        server = await self.server()
        args = {"table": self.table.title, "server": server.name, **self._healed(late)}
        operation = self.world.recorder.invoke(self.name, "streams", **args)
        table = await self.ask(
            server, operation, lambda broker: broker.table_admin.describe(OWNER, self.table.name)
        )
        if table is None:
            return False
        self.world.recorder.ok(operation)
        for name, state in table.streams.items():
            if state.gap_ms is not None:
                topic = self.table.topics[name].resource
                self._gaps[name] = None
                self.world.recorder.note(
                    "stream-gap", table=self.table.title, topic=topic, gap_ms=state.gap_ms
                )
        return True

    async def _scan(
        self, queries: Sequence[ScanQuery], index: Mapping[str, str], late: bool
    ) -> bool:
        server = await self.server()
        args = {"table": self.table.title, "server": server.name, **index, **self._healed(late)}
        operation = self.world.recorder.invoke(self.name, "scan", final=True, **args)

        async def scan(broker: Broker) -> list[Columns]:
            return [row for query in queries for row in await _scanned(broker, query)]

        began_ms = min(self._clocks_ms())
        found = await self.ask(server, operation, scan)
        if found is not None:
            rows = [[row_name(row), _others(row)] for row in found]
            wall_ms = [began_ms, max(self._clocks_ms())]
            self.world.recorder.ok(operation, rows=rows, wall_ms=wall_ms)
        return operation.ok

    def _clocks_ms(self) -> list[int]:
        return [server.broker.context.log.time.append_ms() for server in self.world.running()]

    async def _read(self, name: str, view: StreamView, late: bool) -> bool:
        """Read a whole stream; recorded once it has the last changes, or when it is late."""
        topic, server = self.table.topics[name], await self.server()

        async def read(broker: Broker) -> list[list[PlainMessage]]:
            return [await _messages(broker, topic, each) for each in range(topic.partitions)]

        try:
            found = await server.call("changes", read, timeout_s=READ_S)
        except (TalosError, ServerLost, UnansweredBug) as error:
            return self._not_read(topic, f"{type(error).__name__}: {error}") if late else False
        changes = [[_change(view, message) for message in messages] for messages in found]
        tags = {_tag(change) for partition in changes for _, change in partition}
        wanted = {} if name in self._gaps or view is StreamView.KEYS_ONLY else self._last
        missing = [tag for tag in wanted if tag not in tags]
        if missing and not late:
            return False
        for partition, delivered in enumerate(changes):
            args = {"table": self.table.title, "topic": topic.resource, "partition": partition}
            operation = self.world.recorder.invoke(self.name, "changes", **args)
            end = delivered[-1][0] + 1 if delivered else 0
            self.world.recorder.ok(operation, start=0, next=end, changes=delivered)
        return self._not_read(topic, f"no change has the tags {missing}") if missing else True

    def _not_read(self, topic: LiveTopic, error: str) -> bool:
        operation = self.world.recorder.invoke(
            self.name, "changes", table=self.table.title, topic=topic.resource, **self._healed(True)
        )
        self.world.recorder.fail(operation, error)
        return False


def _table_uuids(records: MemoryStorage) -> set[str]:
    """The uuids of tables that exist or are being dropped."""
    return {
        json.loads(kept.record.value)["uuid"]
        for path, kept in records.records.items()
        if path.startswith(f"{TABLES}/")
    }


def _all_rows(table: str) -> list[ScanQuery]:
    return [ScanQuery(table=table, limit=SCAN_RECORDS)]


def _all_entries(table: str) -> list[ScanQuery]:
    within = [{"g": text(group)} for group in GROUPS]
    return [
        ScanQuery(table=table, index=INDEX, start=group, stop=group, limit=SCAN_RECORDS)
        for group in within
    ]


async def _scanned(broker: Broker, query: ScanQuery) -> list[Columns]:
    rows: list[Columns] = []
    while True:
        page = await broker.tables.scan(OWNER, query)
        rows += page.records
        if not page.next_key:
            return rows
        query = replace(query, start=page.next_key)


async def _messages(broker: Broker, topic: LiveTopic, partition: int) -> list[PlainMessage]:
    found: list[PlainMessage] = []
    offset = 0
    while True:
        page = await broker.plain_messages.get_anywhere(
            OWNER, topic.resource, Spot(partition, offset), PAGE
        )
        found += page.messages
        offset = page.next_offset
        if not page.messages:
            return found


def _others(row: Columns) -> dict[str, Any]:
    return plain({name: datum for name, datum in row.items() if name not in KEY})


def _change(view: StreamView, message: PlainMessage) -> list[Any]:
    """[offset, change] in the form of the history."""
    sequence = int(message.message.sequence_number or 0)
    _, change = decode_change(view, message.message.data, KEY, sequence)
    fields: dict[str, Any] = {
        "key": row_name(change.key),
        "sequence": change.sequence,
        "timestamp_ms": change.timestamp_ms,
        "kind": _KINDS[change.kind],
        "columns": plain(change.columns),
        "amounts": plain(change.amounts),
        "image": plain(change.image),
        "row_deleted": change.row_deleted,
    }
    return [message.offset, fields]


def _tag(change: Mapping[str, Any]) -> str:
    """The tag of the put that made a change."""
    written = {**change["image"], **change["columns"]}
    return str(written.get("tag", ""))
