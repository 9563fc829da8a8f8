"""Tables of a broker over memory stores."""

from collections.abc import Mapping
from dataclasses import replace

from opentalos.broker.broker import Broker
from opentalos.broker.tables.api.values import ScanPage, ScanQuery, Table, TableSpec
from opentalos.model.change import StreamView
from opentalos.model.datum import Columns, DataType, Datum
from opentalos.model.identity import Principal
from opentalos.model.mutation import Mutation, Operation
from opentalos.model.table import IndexMode, KeyPart, LocalIndex, StreamSpec, TableSchema

ALICE = Principal(id="alice", number=1)
BOB = Principal(id="bob", number=2)
APP = Principal(id="app", number=3)
ADMIN = Principal(id="root", number=4, admin=True)
ATTRIBUTES: Mapping[str, DataType] = {
    "user": DataType.STRING,
    "at": DataType.INT64,
    "city": DataType.STRING,
    "count": DataType.INT64,
}
PLAIN = TableSchema(primary=(KeyPart("user"), KeyPart("at")), attributes=ATTRIBUTES)
HASHED = TableSchema(
    group=(KeyPart("user"),),
    primary=(KeyPart("at"),),
    hashed=True,
    shards=4,
    attributes=ATTRIBUTES,
    indexes={"by_city": LocalIndex(columns=(KeyPart("city"),), mode=IndexMode.EAGER)},
)


def string(value: str) -> Datum:
    return Datum(DataType.STRING, value)


def integer(value: int) -> Datum:
    return Datum(DataType.INT64, value)


def key(user: str, at: int) -> Columns:
    return {"user": string(user), "at": integer(at)}


def put(user: str, at: int, **columns: Datum) -> Mutation:
    return Mutation(Operation.PUT, key(user, at), columns)


def remove(user: str, at: int) -> Mutation:
    return Mutation(Operation.REMOVE, key(user, at))


def streamed(schema: TableSchema, topic: str, **changes: object) -> TableSchema:
    spec = StreamSpec(view=StreamView.MUTATE_LOG)
    return replace(schema, streams={topic: spec}, **changes)  # type: ignore[arg-type]


async def make(
    broker: Broker, schema: TableSchema = PLAIN, name: str = "people", **fields: object
) -> Table:
    """A table of alice's."""
    spec = TableSpec(schema=schema, **fields)  # type: ignore[arg-type]
    return await broker.table_admin.create(ALICE, name, spec)


async def fill(broker: Broker, users: int, each: int, name: str = "people") -> None:
    for user in range(users):
        for at in range(each):
            mutation = put(f"u{user}", at, city=string(f"c{at % 3}"), count=integer(at))
            assert (await broker.tables.write(ALICE, name, mutation)).success


async def pages(broker: Broker, **query: object) -> list[ScanPage]:
    """Every page of a scan, as a client walks through it."""
    found: list[ScanPage] = []
    while True:
        asked = ScanQuery(table="people", **query)  # type: ignore[arg-type]
        page = await broker.tables.scan(ALICE, asked)
        found.append(page)
        if not page.next_key:
            return found
        query["start"] = page.next_key
        assert len(found) < 1_000
