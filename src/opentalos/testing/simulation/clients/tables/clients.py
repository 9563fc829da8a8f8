"""Clients of a structured table: they change a few hot rows, switch a stream, read marks.

Sometimes they write a row that no client changes again, so no later change hides a loss. Every put
writes a new text and every increment adds a new number, so the checker can match each change with
the mutation that made it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from opentalos.broker.broker import Broker
from opentalos.broker.tables.api.values import BatchOutcome, TableSpec, WriteItem, Written
from opentalos.model.change import StreamView
from opentalos.model.datum import Columns, DataType, Datum
from opentalos.model.errors import TalosError
from opentalos.model.mutation import NOTHING, Condition, ConditionOperator, Mutation, Operation
from opentalos.model.table import (
    NEVER,
    IndexMode,
    KeyPart,
    LocalIndex,
    StreamSpec,
    TableSchema,
    WhenFull,
)
from opentalos.testing.simulation import history
from opentalos.testing.simulation.clients.message_clients import OWNER, RETRY_S, Client, LiveTopic
from opentalos.testing.simulation.world.server import ServerLost, SimulatedServer, UnansweredBug
from opentalos.testing.simulation.world.world import World

TABLE = "orders"
INDEX, INDEXED = "by-mood", "mood"  # of an eager index, and the column it is of
SHARDS = 3
GROUPS = ("a", "b", "c")
HOT_ROWS = (("a", "1"), ("a", "2"), ("b", "1"), ("c", "1"))
MOODS = ("calm", "glad", "sour")
COLD = 0.12  # of mutations write a row that no client changes again
ADMIN_S = 6.0  # timeout of a change of the table
STUCK_S = (3.0, 10.0)  # how long a topic rejects writes; some longer than a table waits
BATCH_ITEMS = (2, 3, 5)
AMOUNT_STEP = 997  # between two amounts of a client; no two clients use the same amounts


@dataclass(slots=True, eq=False)
class LiveTable:
    """The table as the clients know it.

    ``streams``: topics with their views; ``title``: its unique name in the history.
    """

    name: str
    streams: dict[str, StreamView]
    topics: dict[str, LiveTopic]
    switched: str = ""  # a stream that is disabled and enabled
    tags: dict[str, str] = field(default_factory=dict)  # last known, by row
    actors: int = 0
    title: str = ""
    when_full: WhenFull | None = None  # None: the server's default
    ttl_s: int = NEVER

    def __post_init__(self) -> None:
        self.title = self.title or self.name

    @property
    def schema(self) -> TableSchema:
        """The schema with which the table is created."""
        text = DataType.STRING
        columns = {"g": text, "id": text, "tag": text, "n": DataType.INT64, INDEXED: text}
        return TableSchema(
            group=(KeyPart("g"),),
            primary=(KeyPart("id"),),
            hashed=True,
            shards=SHARDS,
            attributes=columns,
            indexes={INDEX: LocalIndex(columns=(KeyPart(INDEXED),), mode=IndexMode.EAGER)},
            streams={name: StreamSpec(view=view) for name, view in self.streams.items()},
            ttl_s=self.ttl_s,
        )


def row_name(key: Columns) -> str:
    """The name of a row in the history."""
    return "/".join(str(key[name].value) for name in ("g", "id"))


def row_key(row: tuple[str, str]) -> Columns:
    """The key of a row of this table."""
    return {"g": text(row[0]), "id": text(row[1])}


def text(value: str) -> Datum:
    """A text."""
    return Datum(DataType.STRING, value)


def plain(columns: Columns) -> dict[str, Any]:
    """Columns in the form of the history."""
    return {name: datum.value for name, datum in sorted(columns.items())}


class TableClient(Client):
    """Sends mutations, each recorded with its outcome."""

    def __init__(self, world: World, name: str, table: LiveTable) -> None:
        super().__init__(world, name)
        self.table = table
        table.actors += 1
        self._number, self._actor = 0, table.actors

    def invoke(self, server: SimulatedServer, mutation: Mutation, **args: Any) -> history.Operation:
        """Record a mutation before it is sent."""
        content: dict[str, Any] = {"operation": mutation.operation.value}
        if mutation.operation is Operation.REMOVE:
            content["attribute"] = mutation.attributes[0] if mutation.attributes else ""
        elif mutation.operation is Operation.INCREMENT:
            content["amounts"] = plain(mutation.columns)
        else:
            content["columns"] = plain(mutation.columns)
        if mutation.condition is not None:
            content["condition"] = _shown(mutation.condition)
        place = {"table": self.table.title, "key": row_name(mutation.key), "server": server.name}
        return self.world.recorder.invoke(self.name, "mutate", **place, **content, **args)

    async def write(
        self, server: SimulatedServer, mutation: Mutation, **args: Any
    ) -> history.Operation:
        """One mutation."""
        operation = self.invoke(server, mutation, **args)
        written = await self.ask(
            server, operation, lambda broker: broker.tables.write(OWNER, self.table.name, mutation)
        )
        if written is not None:
            self._done(operation, mutation, written)
        return operation

    async def batch(self, server: SimulatedServer, mutations: Sequence[Mutation]) -> None:
        """Several mutations in one call; each is an operation of its own."""
        operations = [self.invoke(server, mutation) for mutation in mutations]
        items = [WriteItem(self.table.name, mutation) for mutation in mutations]

        async def send(broker: Broker) -> Sequence[BatchOutcome]:
            return await broker.tables.batch(OWNER, items)

        outcomes: Sequence[BatchOutcome] = ()

        try:
            outcomes = await server.call("batch", send, timeout_s=self.world.config.call_s)
        except (TalosError, ServerLost, UnansweredBug) as error:
            for operation in operations:
                self.record_failure(operation, error)
        for operation, mutation, outcome in zip(operations, mutations, outcomes, strict=False):
            if isinstance(outcome, TalosError):
                self.record_failure(operation, outcome)
            elif isinstance(outcome, Written):
                self._done(operation, mutation, outcome)

    def put_of(self, row: tuple[str, str], condition: Condition | None = None) -> Mutation:
        """A put with content that no client wrote before."""
        self._number += 1
        columns = {"tag": text(f"{self.name}.{self._number}")}
        if self.rng.random() < 0.4:
            columns[INDEXED] = text(self.rng.choice(MOODS))
        return Mutation(Operation.PUT, row_key(row), columns, condition=condition)

    def increment_of(self, row: tuple[str, str]) -> Mutation:
        """An increment by an amount that no client added before."""
        self._number += 1
        amounts = {"n": Datum(DataType.INT64, self._actor + AMOUNT_STEP * self._number)}
        return Mutation(Operation.INCREMENT, row_key(row), amounts)

    def _done(self, operation: history.Operation, mutation: Mutation, written: Written) -> None:
        amounts = {"amounts": plain(written.amounts)} if written.amounts else {}
        self.world.recorder.ok(operation, success=written.success, **amounts)
        tag = mutation.columns.get("tag")
        if tag is not None and written.success:
            self.table.tags[row_name(mutation.key)] = str(tag.value)


def _shown(condition: Condition) -> dict[str, Any]:
    if condition.operator is None or condition.value is None:
        return {"row_exists": condition.row_exists}
    shown = {"field": condition.field, "operator": int(condition.operator)}
    return shown | {"value": condition.value.value}


class Mutator(TableClient):
    """Changes the hot rows with every kind of mutation."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.think(0.6)
            server = await self.server()
            if self.rng.random() < 0.12:
                count = self.rng.choice(BATCH_ITEMS)
                await self.batch(server, [self.any_mutation() for _ in range(count)])
            else:
                await self.write(server, self.any_mutation())

    def any_mutation(self) -> Mutation:
        """A mutation of a row that other clients change too, or of one of its own."""
        kind = self.rng.random()
        if kind < COLD:
            return self.put_of((self.rng.choice(GROUPS), f"{self.name}.{self._number}"))
        row, kind = self.rng.choice(HOT_ROWS), self.rng.random()
        if kind < 0.3:
            return self.put_of(row)
        if kind < 0.6:
            return self.increment_of(row)
        if kind < 0.75:
            return self.put_of(row, self._condition(row))
        condition = self._condition(row) if self.rng.random() < 0.3 else None
        attributes = () if kind < 0.87 else (self.rng.choice(["n", INDEXED]),)
        return Mutation(Operation.REMOVE, row_key(row), NOTHING, attributes, condition)

    def _condition(self, row: tuple[str, str]) -> Condition:
        tag = self.table.tags.get("/".join(row))
        if tag is None or self.rng.random() < 0.4:
            return Condition(row_exists=self.rng.random() < 0.5)
        operator = self.rng.choice([ConditionOperator.EQUAL, ConditionOperator.NOT_EQUAL])
        return Condition(operator, "tag", text(tag))


class Switcher(Client):
    """The table's owner: disables and enables one stream."""

    def __init__(self, world: World, table: LiveTable) -> None:
        super().__init__(world, "switcher")
        self.table, self._on = table, True

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.think(10)
            if not await self.switch(not self._on):
                await asyncio.sleep(RETRY_S)

    async def switch(self, enabled: bool, **args: Any) -> bool:
        """Alter the table once and return whether that was acknowledged."""
        name, server = self.table.switched, await self.server()
        schema = self.table.schema
        streams: Mapping[str, StreamSpec] = schema.streams
        streams = {**streams, name: replace(streams[name], enabled=enabled)}
        spec = TableSpec(schema=replace(schema, streams=streams), when_full=self.table.when_full)
        operation = self.world.recorder.invoke(
            self.name,
            "stream",
            table=self.table.title,
            topic=self.table.topics[name].resource,
            enabled=enabled,
            server=server.name,
            **args,
        )
        try:
            await server.call(
                "alter",
                lambda broker: broker.table_admin.alter(OWNER, self.table.name, spec),
                timeout_s=ADMIN_S,
            )
        except (TalosError, ServerLost, UnansweredBug) as error:
            self.record_failure(operation, error)
        else:
            self.world.recorder.ok(operation)
            self._on = enabled
        return operation.ok


class Refuser(Client):
    """Makes one topic of a table reject writes for a long time, once."""

    def __init__(self, world: World, table: LiveTable) -> None:
        super().__init__(world, "refuser")
        self.table = table

    async def run(self) -> None:
        """Until finished or cancelled."""
        world = self.world
        names = [name for name in self.table.streams if name != self.table.switched]
        topic = self.table.topics[self.rng.choice(names)]
        await asyncio.sleep(self.rng.random() * world.config.chaos_s / 3)
        world.recorder.note("topic-stuck", topic=topic.resource)
        world.disk.stuck[topic.uuid] = None
        await asyncio.sleep(self.rng.uniform(*STUCK_S))
        del world.disk.stuck[topic.uuid]
        world.recorder.note("topic-takes-more", topic=topic.resource)


class MarkReader(Client):
    """Queries the marks of streams."""

    def __init__(self, world: World, table: LiveTable) -> None:
        super().__init__(world, "marks")
        self.table = table

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.think(4)
            await self.mark(await self.server(), self.rng.choice([*self.table.streams]))

    async def mark(self, server: SimulatedServer, name: str, **args: Any) -> history.Operation:
        """One query."""
        operation = self.world.recorder.invoke(
            self.name,
            "mark",
            table=self.table.title,
            topic=self.table.topics[name].resource,
            server=server.name,
            **args,
        )

        async def ask(broker: Broker) -> tuple[int, Mapping[int, int]]:
            table = await broker.table_admin.describe(OWNER, self.table.name)
            mark = await broker.shards.mark(table, name)
            return mark.timestamp_ms, mark.offsets

        found = await self.ask(server, operation, ask)
        if found is not None:
            time_ms, offsets = found
            recorded = [list(item) for item in sorted(offsets.items())]
            self.world.recorder.ok(operation, timestamp_ms=time_ms, offsets=recorded)
        return operation
