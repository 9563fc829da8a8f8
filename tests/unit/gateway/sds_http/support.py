"""A gateway of SDS on stand-ins: tables that keep what they are asked, and one reply."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from opentalos.broker.long_work import LongWork
from opentalos.broker.tables.api.put_fast_path import PutAnswer
from opentalos.broker.tables.api.values import (
    BatchItem,
    BatchOutcome,
    ScanPage,
    ScanQuery,
    Table,
    Written,
)
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.sds_http.authentication import Sender
from opentalos.gateway.sds_http.gateway import SdsGateway
from opentalos.gateway.sds_http.handlers import HANDLERS, Handlers, Services
from opentalos.gateway.thrift_http.authentication import Claim
from opentalos.model.datum import Columns, DataType, Datum
from opentalos.model.errors import (
    InvalidCredential,
    SizeExceeded,
    TableNotExist,
    TalosError,
)
from opentalos.model.identity import Principal
from opentalos.model.mutation import Mutation
from opentalos.model.table import KeyPart, TableSchema
from opentalos.wire._generated import sds
from opentalos.wire.thrift import Reply, ThriftProtocol, decode_reply, encode_call

ALICE = Principal(id="alice", number=7)
DRAIN_S = 5.0
BATCH_ITEMS_MAX = 100
BINARY = ThriftProtocol.BINARY
SCHEMA = TableSchema(
    primary=(KeyPart("id", ascending=False),),
    group=(KeyPart("user"),),
    attributes={"user": DataType.STRING, "id": DataType.INT64, "n": DataType.INT64},
)
TABLE = Table(uuid="u1", owner="alice", name="t", schema=SCHEMA, created_ms=5, altered_ms=6)
KEY: Columns = {"user": Datum(DataType.STRING, "bob"), "id": Datum(DataType.INT64, 1)}
N: Columns = {"n": Datum(DataType.INT64, 9)}


class Tables:
    """Keeps what is asked; gives or raises what a test sets."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.record: Columns | None = None
        self.written = Written(True)
        self.page = ScanPage()
        self.outcomes: list[BatchOutcome] = []
        self.error: TalosError | None = None
        self.wrong: TalosError | None = None  # of an item of a batch

    async def key_columns(self, caller: Principal, table: str) -> Sequence[str]:
        if table != "t":
            raise TableNotExist(f"table {table} does not exist")
        return SCHEMA.key_columns

    async def get(
        self, caller: Principal, table: str, key: Columns, attributes: Sequence[str]
    ) -> Columns | None:
        self._note(table, key, tuple(attributes))
        return self.record

    async def write(self, caller: Principal, table: str, mutation: Mutation) -> Written:
        self._note(table, mutation)
        return self.written

    async def scan(self, caller: Principal, query: ScanQuery) -> ScanPage:
        self._note(query)
        return self.page

    def check_batch(self, items: int) -> None:
        if items > BATCH_ITEMS_MAX:
            raise SizeExceeded(f"a batch of {items} items")

    async def check_items(self, caller: Principal, items: Sequence[BatchItem]) -> None:
        if self.wrong is not None:
            raise self.wrong

    async def batch(
        self, caller: Principal, items: Sequence[BatchItem], *, partial: bool
    ) -> Sequence[BatchOutcome]:
        self._note(list(items), partial)
        return self.outcomes

    def _note(self, *asked: Any) -> None:
        self.asked.append(asked)
        if self.error is not None:
            raise self.error


class Admin:
    """Knows one table."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def describe(self, caller: Principal, name: str) -> Table:
        if name != "t":
            raise TableNotExist(f"table {name} does not exist")
        return TABLE

    async def create(self, caller: Principal, name: str, spec: Any) -> Table:
        self.asked.append((name, spec))
        return TABLE


class Quick:
    """Leaves each put to the ordinary path, unless set to keep them."""

    def __init__(self) -> None:
        self.keeps = False
        self.kept: list[tuple[str, Columns, PutAnswer]] = []

    def put(self, caller: Principal, name: str, record: Columns, answer: PutAnswer) -> bool:
        if self.keeps:
            self.kept.append((name, record, answer))
        return self.keeps


class Connection:
    """Takes the reply."""

    alive, peer, network, secure = True, "10.0.0.1", "10.0.0.1", False

    def __init__(self) -> None:
        self.replies: list[tuple[int, bytes, bytes]] = []  # status, head, body

    def answer(self, exchange: Exchange, prefix: bytes, body: bytes, extra: bytes) -> None:
        self.replies.append((int(prefix.split()[1]), prefix + extra, body))

    def extend(self, seconds: float) -> None:
        assert seconds > 0


class Bench:
    """A gateway whose caller is alice, or refused."""

    def __init__(self, handlers: Handlers = HANDLERS) -> None:
        self.tables, self.admin = Tables(), Admin()
        self.refusal: TalosError | None = None
        tables: Any = self.tables
        admin: Any = self.admin
        shards: Any = None
        authenticator: Any = SimpleNamespace(caller=self._caller)
        self.quick = Quick()
        quick: Any = self.quick
        self.work = LongWork(None, waiting_max=8)
        services = Services(tables, admin, shards, quick, self.work)
        self.gateway = SdsGateway(services, authenticator, handlers)
        self.once: Claim | None = None  # of each request
        self.used: list[bytes] = []  # signatures that were to be used once
        senders: Any = SimpleNamespace(caller=self._sender, check_once=self._check_once)
        self.gateway._authenticator = senders

    def _caller(self, exchange: Exchange) -> Principal:
        if self.refusal is not None:
            raise self.refusal
        return ALICE

    def _sender(self, exchange: Exchange) -> Sender:
        return Sender(self._caller(exchange), self.once)

    def _check_once(self, exchange: Exchange, claim: Claim) -> None:
        self.used.append(claim.signature)
        if self.used.count(claim.signature) > 1:
            raise InvalidCredential("received before")

    def send(
        self,
        body: bytes,
        *,
        service: str = "TableService",
        method: bytes = b"POST",
        content_type: bytes = BINARY.value.encode(),
    ) -> tuple[Exchange, Connection]:
        connection = Connection()
        stand_in: Any = connection
        path = sds.SERVICES[service].path.encode()
        headers = {b"content-type": content_type}
        exchange = Exchange(stand_in, method, path + b"?id=0a&type=hint", headers)
        exchange.body = body
        self.gateway.routes()[path](exchange)
        return exchange, connection

    async def reply(self, rpc: str, *arguments: Any, service: str = "TableService") -> Reply:
        """The decoded reply of a call, which always comes with status 200."""
        method = sds.SERVICES[service].methods[rpc]
        _, connection = self.send(encode_call(BINARY, method, 7, *arguments), service=service)
        await self.gateway.drain(DRAIN_S)
        ((status, _, body),) = connection.replies
        assert status == 200, body
        return decode_reply(BINARY, method, body)

    async def result(self, rpc: str, *arguments: Any, service: str = "TableService") -> Any:
        """The result of a call that is not refused."""
        reply = await self.reply(rpc, *arguments, service=service)
        assert reply.error is None, reply.error
        return reply.result

    async def code(self, rpc: str, *arguments: Any, service: str = "TableService") -> int:
        """The code of a call that is refused."""
        error: Any = (await self.reply(rpc, *arguments, service=service)).error
        assert error is not None
        assert error.errorMessage
        return int(error.errorCode)
