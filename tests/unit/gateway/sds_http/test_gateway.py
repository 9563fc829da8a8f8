"""SDS calls through the gateway: forms of replies, refusals, late and broken calls."""

import asyncio
from typing import Any

import pytest
from tests.unit.gateway.sds_http.support import BATCH_ITEMS_MAX, BINARY, DRAIN_S, Bench, N

from opentalos.broker.tables.api.values import ScanPage, Written
from opentalos.gateway.sds_http.gateway import BODY_BYTES_MAX
from opentalos.gateway.sds_http.handlers import HANDLERS
from opentalos.gateway.thrift_http.authentication import Claim
from opentalos.model.errors import (
    ClockSkewed,
    InvalidCredential,
    OutcomeUnknown,
    StoreUnavailable,
    TalosError,
    ThrottleRejected,
)
from opentalos.wire._generated import sds
from opentalos.wire.thrift import ThriftProtocol, decode_reply, encode_call
from opentalos.wire.thrift.spec import BOOL, Field, MethodSpec

TABLE_SERVICE = sds.SERVICES["TableService"]
GET = sds.GetRequest(tableName="t", keys={})
PUT = sds.PutRequest(tableName="t", record={})


def call(rpc: str, *arguments: Any) -> bytes:
    return encode_call(BINARY, TABLE_SERVICE.methods[rpc], 7, *arguments)


def test_every_rpc_has_a_handler() -> None:
    assert set(HANDLERS) == set(sds.SERVICES)
    for name, spec in sds.SERVICES.items():
        assert set(HANDLERS[name]) == set(spec.methods)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreUnavailable("later"), sds.ErrorCode.SERVICE_UNAVAILABLE),
        (ThrottleRejected("slow"), sds.ErrorCode.THROUGHPUT_EXCEED),
        (OutcomeUnknown("who knows"), sds.ErrorCode.INTERNAL_ERROR),
    ],
)
async def test_errors_are_replies_with_status_200(error: TalosError, code: int) -> None:
    bench = Bench()
    bench.tables.error = error
    reply: Any = await bench.reply("get", GET)
    assert reply.error.errorCode == code
    assert reply.error.errorMessage == str(error)
    assert reply.error.requestId == "0a"
    assert bench.gateway.failures == 1


@pytest.mark.parametrize(
    ("error", "status", "header"),
    [
        (InvalidCredential("no"), 401, b"WWW-Authenticate: "),
        (ClockSkewed("no"), 412, b"X-Xiaomi-Timestamp: "),
    ],
)
async def test_callers_are_refused_by_status(error: TalosError, status: int, header: bytes) -> None:
    bench = Bench()
    bench.refusal = error
    _, connection = bench.send(call("get", GET))
    ((got, head, _),) = connection.replies
    assert got == status
    assert header in head
    assert bench.tables.asked == []


QUICK = call("put", sds.PutRequest(tableName="t", record={}))


async def test_a_fast_put_is_answered_when_its_row_is_written() -> None:
    bench = Bench()
    bench.quick.keeps = True
    exchange, connection = bench.send(QUICK)
    ((name, record, answer),) = bench.quick.kept
    assert (name, record, connection.replies) == ("t", {}, [])
    answer(Written(True))
    ((status, _, body),) = connection.replies
    reply: Any = decode_reply(BINARY, TABLE_SERVICE.methods["put"], body)
    assert (status, reply.seqid, reply.result) == (200, 7, sds.PutResult(success=True))
    answer(Written(True))
    assert len(connection.replies) == 1
    assert exchange.answered
    assert bench.tables.asked == []
    assert (bench.gateway.calls["put"], bench.gateway.failures) == (1, 0)


async def test_a_fast_put_that_fails_gets_the_declared_exception() -> None:
    bench = Bench()
    bench.quick.keeps = True
    _, connection = bench.send(QUICK)
    bench.quick.kept[0][2](OutcomeUnknown("who knows"))
    ((_, _, body),) = connection.replies
    reply: Any = decode_reply(BINARY, TABLE_SERVICE.methods["put"], body)
    assert reply.error.errorCode == sds.ErrorCode.INTERNAL_ERROR
    assert bench.gateway.failures == 1


async def test_a_fast_put_whose_shard_has_moved_goes_the_ordinary_way() -> None:
    bench = Bench()
    bench.quick.keeps = True
    _, connection = bench.send(QUICK)
    bench.quick.kept[0][2](None)
    await bench.gateway.drain(DRAIN_S)
    assert len(bench.tables.asked) == 1
    assert (bench.gateway.calls["put"], bench.gateway.failures) == (1, 0)
    ((_, _, body),) = connection.replies
    assert decode_reply(BINARY, TABLE_SERVICE.methods["put"], body).result == sds.PutResult(
        success=True
    )


def large_put(protocol: ThriftProtocol) -> tuple[bytes, sds.PutRequest]:
    """A put that takes long to decode."""
    values = sds.Value(int64SetValue=list(range(5_000)))
    record = {"user": text("bob"), "id": number(1), "n": number(2)}
    record["set"] = sds.Datum(type=sds.DataType.INT64_SET, value=values)
    request = sds.PutRequest(tableName="t", record=record)
    return encode_call(protocol, TABLE_SERVICE.methods["put"], 7, request), request


def number(value: int) -> sds.Datum:
    return sds.Datum(type=sds.DataType.INT64, value=sds.Value(int64Value=value))


def text(value: str) -> sds.Datum:
    return sds.Datum(type=sds.DataType.STRING, value=sds.Value(stringValue=value))


@pytest.mark.parametrize("protocol", ThriftProtocol)
async def test_a_large_put_is_decoded_in_pieces_and_answered_in_its_protocol(
    protocol: ThriftProtocol,
) -> None:
    bench = Bench()
    bench.quick.keeps = True
    body, _ = large_put(protocol)
    _, connection = bench.send(body, content_type=protocol.value.encode())
    await bench.gateway.drain(DRAIN_S)
    ((status, head, reply),) = connection.replies
    assert (status, protocol.value.encode() in head) == (200, True)
    done = decode_reply(protocol, TABLE_SERVICE.methods["put"], reply)
    assert done == (7, sds.PutResult(success=True), None)
    assert bench.quick.kept == [], "only the fast decoder feeds the fast path"
    ((table, mutation),) = bench.tables.asked
    assert (table, len(mutation.columns["set"].value)) == ("t", 5_000)
    assert bench.work.counters.turns == 1
    assert bench.work.counters.pauses > 1
    assert (bench.gateway.calls["put"], bench.gateway.failures) == (1, 0)


async def test_a_large_call_that_is_late_gets_its_exception_and_does_nothing() -> None:
    bench = Bench()
    body, _ = large_put(BINARY)
    async with bench.work.turn("a"), bench.work.turn("b"):
        exchange, connection = bench.send(body)
        await asyncio.sleep(0)
        assert exchange.late is not None
        exchange.late(OutcomeUnknown("timeout: outcome unknown"))
    await bench.gateway.drain(DRAIN_S)
    ((status, _, reply),) = connection.replies
    error: Any = decode_reply(BINARY, TABLE_SERVICE.methods["put"], reply).error
    assert (status, error.errorCode) == (200, sds.ErrorCode.INTERNAL_ERROR)
    assert bench.tables.asked == []


async def test_a_large_call_that_cannot_be_read_is_refused_as_a_small_one() -> None:
    bench = Bench()
    body, _ = large_put(BINARY)
    for bad in (body[:-1], body + b"x"):
        _, connection = bench.send(bad)
        await bench.gateway.drain(DRAIN_S)
        assert [reply[0] for reply in connection.replies] == [400]
    assert bench.gateway.failures == 2


@pytest.mark.parametrize("large", [False, True])
async def test_a_signature_without_names_is_used_up_by_what_changes_something(large: bool) -> None:
    bench = Bench()
    bench.once = Claim("KA", b"signature", None, names_signed=False)
    put = large_put(BINARY)[0] if large else QUICK
    outcomes = []
    for body in (call("get", GET), put, call("get", GET), put):
        _, connection = bench.send(body)
        await bench.gateway.drain(DRAIN_S)
        outcomes += [reply[0] for reply in connection.replies]
    assert outcomes == [200, 200, 200, 401]
    assert bench.used == [b"signature", b"signature"]
    assert bench.gateway.failures == 1


async def test_a_batch_of_too_many_items_is_refused_before_they_are_looked_at() -> None:
    bench = Bench()
    item = sds.BatchRequestItem(action=sds.BatchOp.GET)
    code = await bench.code("batch", sds.BatchRequest(items=[item] * (BATCH_ITEMS_MAX + 1)))
    assert code == sds.ErrorCode.SIZE_EXCEED
    assert bench.tables.asked == []


async def test_a_large_reply_is_encoded_in_pieces() -> None:
    bench = Bench()
    bench.tables.page = ScanPage(records=[N] * 1_000)
    result = await bench.result("scan", sds.ScanRequest(tableName="t"))
    assert len(result.records) == 1_000
    assert bench.work.counters.turns == 2  # of the records, and of the reply
    assert bench.work.counters.pauses > 1


async def test_an_invalid_call_is_refused_by_status() -> None:
    bench = Bench()
    for body, method, status in (
        (bytes(BODY_BYTES_MAX + 1), b"POST", 413),
        (b"garbage", b"POST", 400),
        (call("get", GET), b"GET", 400),
    ):
        _, connection = bench.send(body, method=method)
        assert [reply[0] for reply in connection.replies] == [status]
    assert bench.gateway.failures == 3


async def test_a_call_of_other_definitions_gets_an_exception() -> None:
    """The last argument of restoreSnapshot is a boolean in Java 1.2.5."""
    bench = Bench()
    admin = sds.SERVICES["AdminService"]
    method = admin.methods["restoreSnapshot"]
    *same, _ = method.arguments
    older = MethodSpec("restoreSnapshot", (*same, Field(4, "restoreSystable", BOOL)), None, None)
    body = encode_call(BINARY, older, 7, "t", "s", "u", False)
    _, connection = bench.send(body, service="AdminService")
    await bench.gateway.drain(DRAIN_S)
    ((status, _, reply),) = connection.replies
    error: Any = decode_reply(BINARY, method, reply).error
    assert (status, error.errorCode) == (200, sds.ErrorCode.VALIDATION_FAILED)
    assert "restoreSnapshot_args has the wrong type" in error.errorMessage


async def test_arguments_may_be_missing() -> None:
    bench = Bench()
    args = encode_call(BINARY, sds.SERVICES["AdminService"].methods["getDevelopId"], 7)
    _, connection = bench.send(args, service="AdminService")
    await bench.gateway.drain(DRAIN_S)
    ((status, _, body),) = connection.replies
    assert status == 200
    method = sds.SERVICES["AdminService"].methods["getDevelopId"]
    assert decode_reply(BINARY, method, body).result == "alice"
    nothing = call("getServerTime").replace(b"\x0dgetServerTime", b"\x03get")
    _, connection = bench.send(nothing)
    await bench.gateway.drain(DRAIN_S)
    error: Any = decode_reply(BINARY, TABLE_SERVICE.methods["get"], connection.replies[0][2]).error
    assert error.errorCode == sds.ErrorCode.VALIDATION_FAILED


class Hanging:
    """A handler that never ends by itself."""

    def __init__(self) -> None:
        self.cancelled = False

    async def __call__(self, *_: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


@pytest.mark.parametrize(
    ("rpc", "request_", "cancelled"),
    [
        ("get", GET, True),
        ("scan", sds.ScanRequest(tableName="t"), True),
        ("scan", sds.ScanRequest(tableName="t", action=sds.ScanAction()), False),
        ("put", PUT, False),
    ],
    ids=["get", "scan", "scan-action", "put"],
)
async def test_a_late_call_is_answered_and_only_a_read_is_ended(
    rpc: str, request_: Any, cancelled: bool
) -> None:
    hanging = Hanging()
    bench = Bench({**HANDLERS, "TableService": {**HANDLERS["TableService"], rpc: hanging}})
    exchange, connection = bench.send(call(rpc, request_))
    await asyncio.sleep(0)
    assert exchange.late is not None
    exchange.late(OutcomeUnknown("late"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    error: Any = decode_reply(BINARY, TABLE_SERVICE.methods[rpc], connection.replies[0][2]).error
    assert error.errorCode == sds.ErrorCode.INTERNAL_ERROR
    assert hanging.cancelled is cancelled
    await bench.gateway.drain(0.0)


async def test_a_failed_write_keeps_its_reason_and_is_not_a_repeatable_500() -> None:
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError("secret detail")

    bench = Bench({**HANDLERS, "TableService": {**HANDLERS["TableService"], "put": broken}})
    error: Any = (await bench.reply("put", PUT)).error
    assert error.errorCode == sds.ErrorCode.INTERNAL_ERROR
    assert error.errorMessage.startswith("internal error, request 0a-")


async def test_an_error_of_a_call_that_declares_none_is_a_thrift_exception() -> None:
    async def refuse(*_: Any) -> None:
        raise StoreUnavailable("later")

    services = {**HANDLERS["TableService"], "getServerTime": refuse}
    bench = Bench({**HANDLERS, "TableService": services})
    with pytest.raises(Exception, match="later"):
        await bench.reply("getServerTime")


async def test_calls_are_counted_by_rpc() -> None:
    bench = Bench()
    await bench.result("getServerTime")
    await bench.result("getServerVersion")
    await bench.result("getServerVersion")
    assert bench.gateway.calls == {"getServerTime": 1, "getServerVersion": 2}
