"""A broker that stores as much of one tenant as its limits allow, and the doors to it over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final, NamedTuple, TypeVar
from unittest.mock import patch

from tests.loop_steps import LoopSteps
from tests.unit.broker import support
from tests.unit.broker.support import World, world

from opentalos.adapters.memory import MemoryRowStore
from opentalos.broker.broker import Broker
from opentalos.broker.tables.api.values import TableSpec
from opentalos.broker.values import Topic
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.rest.gateway import RestGateway
from opentalos.gateway.sds_http.gateway import SdsGateway
from opentalos.gateway.sds_http.handlers import Services
from opentalos.gateway.thrift_http.gateway import ThriftGateway
from opentalos.gateway.thrift_http.handlers import HANDLERS
from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import TalosError
from opentalos.model.identity import Grantee, GrantType, Permission, Principal
from opentalos.model.limits import TopicLimits
from opentalos.model.mutation import Mutation, Operation
from opentalos.model.table import KeyPart, TableSchema
from opentalos.ports.row_store import Row

TOPICS: Final = 1_500
PARTITIONS: Final = 2_000

GRANTS: Final = 1_000
TABLES: Final = 900
COLUMNS: Final = 500  # of the table, beside its key
ROWS: Final = 1_000
ANSWER_S: Final = 600.0  # of virtual time
BIG, TABLE, GROUP, WORKER = "big", "people", "g0", "w0"


T = TypeVar("T")


class CutOffload:
    """What runs on threads in a server, as steps of their own: a piece ends where it yields."""

    def __init__(self) -> None:
        self.steps: LoopSteps | None = None

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        self._cut("before a thread")
        try:
            return work(*args)
        finally:
            self._cut(f"thread {getattr(work, '__qualname__', work)}")

    def yield_lock(self) -> None:
        self._cut("thread, a piece")

    def _cut(self, name: str) -> None:
        if self.steps is not None:
            self.steps.cut(name)


class LateRows(MemoryRowStore):
    """Answers in later steps of the loop, as a store does that is not in memory."""

    async def get(self, *args: Any, **named: Any) -> Sequence[Row | None]:
        return await _late(super().get(*args, **named))

    async def scan(self, *args: Any, **named: Any) -> Sequence[Row]:
        return await _late(super().scan(*args, **named))

    async def mutate_many(self, *args: Any, **named: Any) -> Sequence[int | TalosError]:
        return await _late(super().mutate_many(*args, **named))


async def _late(call: Awaitable[T]) -> T:
    await asyncio.sleep(0)
    found = await call
    await asyncio.sleep(0)
    return found


class Request(NamedTuple):
    """A request to one of the doors. ``label`` names it."""

    label: str
    method: bytes
    url: bytes
    body: bytes = b""
    headers: Mapping[bytes, bytes] = MappingProxyType({})


class Answered(NamedTuple):
    """A reply, as its connection got it."""

    status: int
    body: bytes


@dataclass
class Crowd:
    """The doors, and what is stored behind them."""

    world: World
    offload: CutOffload
    alice: Principal
    topics: list[Topic]  # the first one has ``PARTITIONS``
    routes: dict[bytes, Callable[[Exchange], None]] = field(default_factory=dict)

    def named(self, name: str, number: int) -> Any:
        """Values of fields, so that requests name what there is."""
        topic = self.topics[number % len(self.topics)]
        match name.removeprefix("item of ").removeprefix("key of "):
            case "topicName" | "topic":
                return self.topics[0].name
            case "topicTalosResourceName" | "topicResourceName" | "topicPartitions":
                return topic.resource
            case "topicSet" | "exclusiveTopics" | "topics":
                return topic.name
            case "partitionId" | "partition" | "partitionTimeIndexMap" | "partitionIdList":
                return number % PARTITIONS
            case "consumerGroup" | "consumerGroupName" | "group":
                return GROUP
            case "workerId" | "worker":
                return WORKER
            case "tableName" | "table":
                return TABLE
            case "keys" | "record" | "key" | "row" | "startKey" | "stopKey":
                return self._column(name, number)
            case "amounts":
                return self._column(name, number) if name.startswith("key of") else 1
            case "user":
                return "u0"
            case "at" | "item of rows":
                return number
        return None

    @staticmethod
    def _column(name: str, number: int) -> Any:
        if not name.startswith("key of"):
            return number
        return ("user", "at", *(f"c{n}" for n in range(COLUMNS)))[number % (COLUMNS + 2)]

    async def send(self, steps: LoopSteps, request: Request) -> Answered:
        """Send a request and wait for its answer, counted under its label."""
        answered: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()

        def answer(_: Exchange, prefix: bytes, body: bytes, extra: bytes) -> None:
            answered.set_result(Answered(int(prefix.split()[1]), body))

        def answer_chunks(_: Exchange, prefix: bytes, chunks: Sequence[bytes]) -> None:
            answered.set_result(Answered(int(prefix.split()[1]), b"".join(chunks)))

        connection: Any = SimpleNamespace(
            answer=answer, answer_chunks=answer_chunks, alive=True, peer="192.0.2.1",
            network="192.0.2.1", secure=True, private=True, certificate=None,
            extend=lambda seconds, waits=False: None, waits=lambda: None,
        )  # fmt: skip
        exchange = Exchange(connection, request.method, request.url, dict(request.headers))
        exchange.body = request.body
        path = exchange.path if exchange.path in self.routes else b"/rest/v1/"
        async with steps.labelled(request.label):
            self.routes[path](exchange)
            await asyncio.wait({answered}, timeout=ANSWER_S)
        assert answered.done(), f"no answer: {request.label}"
        return answered.result()


async def _stored(made: World, alice: Principal) -> list[Topic]:
    broker = made.broker
    topics = [await made.topic(alice, BIG, partitions=PARTITIONS)]
    topics += [await made.topic(alice, f"t{number}") for number in range(TOPICS)]
    for number in range(GRANTS):
        grantee = Grantee(GrantType.DEVELOPER, f"friend{number}")
        await broker.permissions.set_permission(alice, topics[0].resource, grantee, Permission(1))
    key = {"user": DataType.STRING, "at": DataType.INT64}
    cells = {f"c{number}": DataType.INT64 for number in range(COLUMNS)}
    schema = TableSchema(primary=(KeyPart("user"), KeyPart("at")), attributes=key | cells)
    await broker.table_admin.create(alice, TABLE, TableSpec(schema=schema))
    small = TableSpec(schema=replace(schema, attributes=key))
    for number in range(TABLES):
        await broker.table_admin.create(alice, f"table{number}", small)
    for number in range(ROWS):
        row = {"user": Datum(DataType.STRING, "u0"), "at": Datum(DataType.INT64, number)}
        column = {"c0": Datum(DataType.INT64, number)}
        await broker.tables.write(alice, TABLE, Mutation(Operation.PUT, row, column))
    return topics


@asynccontextmanager
async def crowded() -> AsyncIterator[Crowd]:
    """The doors of a started broker; every request is alice's."""
    offload, limits = CutOffload(), TopicLimits(partitions_max=10_000)
    with patch.object(support, "MemoryRowStore", LateRows):
        async with world(topic=limits, offload=offload) as made:
            broker = made.broker
            await broker.principals.ensure_root("AKROOT", "root-secret")
            root = broker.catalogs.principals.get("root")
            assert root is not None
            alice = await broker.principals.create(root, "alice")
            crowd = Crowd(made, offload, alice, await _stored(made, alice))
            crowd.routes = _routes(broker, alice)
            yield crowd


def _routes(broker: Broker, alice: Principal) -> dict[bytes, Callable[[Exchange], None]]:
    authenticator: Any = SimpleNamespace(
        caller=lambda exchange: alice, at_once=lambda exchange: alice, sds_v1="off",
        renewal=lambda exchange: b"",
    )  # fmt: skip
    thrift = ThriftGateway(broker, authenticator, HANDLERS)
    services = Services(
        broker.tables, broker.table_admin, broker.shards, broker.put_fast_path, broker.work
    )
    sds = SdsGateway(services, authenticator)
    rest = RestGateway(broker, authenticator)
    return {**thrift.routes(), **sds.routes(), **dict(rest.prefix_routes())}
