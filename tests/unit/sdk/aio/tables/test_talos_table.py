"""The table client over servers without sockets: values, errors, retries, pages."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.sdk.fake_servers import S1, client_of, in_turn, run
from tests.unit.sdk.fake_tables import FakeTables, refuses, served

from opentalos.model import errors
from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import OutcomeUnknown, TalosError
from opentalos.model.table import KeyPart, StreamSpec, TableSchema, TableSpec, TableState
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.aio.tables import TableAdmin, TalosTable
from opentalos.sdk.core.operation import Reply
from opentalos.sdk.core.table.calls import BatchItem, Get, Increment, Put, Remove, RowExists, Where
from opentalos.sdk.core.table.stream_state import StreamMark
from opentalos.sdk.core.table.values import typed_columns
from opentalos.sdk.errors import BY_TABLE_CODE, NoReply
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import columns_from, columns_to, to_struct
from opentalos.wire.sds.table_schema import spec_to

SCHEMA = TableSchema(
    primary=(KeyPart("id"),),
    attributes={
        "id": DataType.INT64,
        "small": DataType.INT8,
        "text": DataType.STRING,
        "ratio": DataType.FLOAT,
        "tags": DataType.STRING_SET,
        "raw": DataType.BINARY,
        "on": DataType.BOOL,
    },
)


@pytest.fixture
def servers() -> FakeTables:
    found = FakeTables()
    found.on(S1, "describeTable", lambda _: spec_to(TableSpec(schema=SCHEMA)))
    return found


def table_of(servers: FakeTables, **settings: Any) -> TalosTable:
    return TalosTable(client_of(servers, **settings), "users")


def raises(error: Exception) -> Callable[[Any], Any]:
    def handler(_: Any) -> Any:
        raise error

    return handler


def put_done(success: bool = True) -> Callable[[Any], Any]:
    return lambda _: sds.PutResult(success=success)


# --- values ----------------------------------------------------------------------------------


def test_a_record_travels_with_the_types_of_its_columns(servers: FakeTables) -> None:
    sent: list[sds.PutRequest] = []

    def put(request: sds.PutRequest) -> sds.PutResult:
        sent.append(request)
        return sds.PutResult(success=True)

    servers.on(S1, "put", put)
    record: dict[str, Any] = {
        "id": 7,
        "small": -3,
        "text": "x",
        "ratio": 1,
        "tags": {"b", "a"},
        "on": True,
    }
    assert run(table_of(servers).put({**record, "raw": None}))
    assert sent[0].tableName == "users"
    assert sent[0].record == {
        "id": to_struct(Datum(DataType.INT64, 7)),
        "small": to_struct(Datum(DataType.INT8, -3)),
        "text": to_struct(Datum(DataType.STRING, "x")),
        "ratio": to_struct(Datum(DataType.FLOAT, 1.0)),
        "tags": to_struct(Datum(DataType.STRING_SET, ("a", "b"))),
        "on": to_struct(Datum(DataType.BOOL, True)),
        "raw": to_struct(Datum(DataType.BINARY, None)),
    }


def test_the_schema_is_fetched_once_and_again_after_a_mismatch(servers: FakeTables) -> None:
    wrong = refuses(sds.ErrorCode.VALIDATION_FAILED, "no such column")
    servers.on(S1, "put", in_turn(put_done(), put_done(), wrong, put_done()))

    async def scenario() -> None:
        table = table_of(servers)
        await table.put({"id": 1})
        await table.put({"id": 2})
        assert servers.count("describeTable") == 1
        with pytest.raises(errors.ValidationFailed, match="no such column"):
            await table.put({"id": 3})
        await table.put({"id": 4})
        assert servers.count("describeTable") == 2

    run(scenario())


def test_typed_values_need_no_schema(servers: FakeTables) -> None:
    servers.on(S1, "remove", lambda _: sds.RemoveResult(success=False))
    key = Datum(DataType.INT64, 1)
    condition = Where("text", "==", Datum(DataType.STRING, "x"))
    assert run(table_of(servers).remove({"id": key}, condition=condition)) is False
    assert servers.count("describeTable") == 0


@pytest.mark.parametrize(
    "record",
    [
        {"small": 128},
        {"small": True},
        {"small": 1.0},
        {"text": b"x"},
        {"raw": "x"},
        {"on": 1},
        {"ratio": 1e39},
        {"ratio": "1"},
        {"tags": "abc"},
        {"tags": [1]},
        {"tags": 1},
        {"nowhere": 1},
        {"text": "\ud800"},
    ],
)
def test_a_value_that_does_not_fit_is_not_sent(servers: FakeTables, record: Any) -> None:
    with pytest.raises(errors.ValidationFailed):
        run(table_of(servers).put({"id": 1, **record}))
    assert servers.count("put") == 0


def test_a_record_is_delivered_as_plain_values(servers: FakeTables) -> None:
    columns = typed_columns(SCHEMA.attributes, {"id": 1, "tags": ["b", "a"], "raw": b"\x00"})
    found = sds.GetResult(item=columns_to(columns))
    servers.on(S1, "get", in_turn(lambda _: found, lambda _: sds.GetResult()))

    async def scenario() -> None:
        table = table_of(servers)
        assert await table.get({"id": 1}, ["tags"]) == {"id": 1, "tags": ("a", "b"), "raw": b"\0"}
        assert await table.get({"id": 1}) is None

    run(scenario())


# --- outcomes --------------------------------------------------------------------------------


@pytest.mark.parametrize("code", sds.ErrorCode, ids=lambda code: code.name)
def test_every_code_is_an_error_of_its_branch(servers: FakeTables, code: sds.ErrorCode) -> None:
    servers.on(S1, "increment", refuses(code, "why"))
    kind: type[TalosError] = BY_TABLE_CODE.get(code, OutcomeUnknown)
    with pytest.raises(kind, match="why") as caught:
        run(table_of(servers, deadline_s=1.0).increment({"id": 1}, {"small": 1}))
    assert type(caught.value) is kind


@pytest.mark.parametrize("write", [Put({"id": 1, "small": 2}), Remove({"id": 1})])
def test_a_write_without_condition_is_repeated(servers: FakeTables, write: Any) -> None:
    done = in_turn(raises(NoReply("cut")), lambda _: served(write))
    rpc = type(write).__name__.lower()
    servers.on(S1, rpc, done)
    assert run(table_of(servers)._write(write)) is True
    assert servers.count(rpc) == 2


@pytest.mark.parametrize(
    "write",
    [
        Put({"id": 1}, RowExists(False)),
        Put({"id": 1}, Where("small", ">", 1)),
        Remove({"id": 1}, (), Where("small", ">", 1)),
        Increment({"id": 1}, {"small": 1}),
    ],
)
def test_a_write_that_a_second_time_changes_is_unknown(servers: FakeTables, write: Any) -> None:
    rpc = type(write).__name__.lower()
    servers.on(S1, rpc, raises(NoReply("cut")))
    with pytest.raises(OutcomeUnknown, match="cut"):
        run(table_of(servers)._write(write))
    assert servers.count(rpc) == 1


def test_a_rate_that_is_used_up_is_waited_for(servers: FakeTables) -> None:
    busy = refuses(sds.ErrorCode.THROUGHPUT_EXCEED, "busy")
    done = sds.IncrementResult(amounts=columns_to(typed_columns(SCHEMA.attributes, {"small": 5})))
    servers.on(S1, "increment", in_turn(busy, busy, lambda _: done))
    assert run(table_of(servers).increment({"id": 1}, {"small": 1})) == {"small": 5}
    assert servers.count("increment") == 3


def test_an_unknown_operator_is_refused(servers: FakeTables) -> None:
    with pytest.raises(errors.ValidationFailed, match="unknown operator '='"):
        run(table_of(servers).put({"id": 1}, Where("small", "=", 1)))


def test_a_batch_reports_the_outcome_of_each_item(servers: FakeTables) -> None:
    sent: list[sds.BatchRequest] = []

    def batch(request: sds.BatchRequest) -> sds.BatchResult:
        sent.append(request)
        assert request.items is not None
        results = [
            sds.BatchResultItem(success=True, result=sds.Result(getResult=sds.GetResult())),
            sds.BatchResultItem(
                success=True, result=sds.Result(putResult=sds.PutResult(success=True))
            ),
            sds.BatchResultItem(
                success=False,
                serviceException=sds.ServiceException(errorCode=22, errorMessage="overflow"),
            ),
            sds.BatchResultItem(success=False),
        ]
        return sds.BatchResult(items=results)

    servers.on(S1, "batch", batch)
    amounts = {"small": 9}
    items: list[BatchItem] = [Get({"id": 1}), Put({"id": 2})]
    items += [Increment({"id": 3}, amounts), Remove({"id": 4})]
    outcomes = run(table_of(servers).batch(items))
    assert outcomes[:2] == [None, True]
    assert type(outcomes[2]) is errors.ValidationFailed
    assert type(outcomes[3]) is errors.ThrottleRejected
    assert [item.action for item in sent[0].items or ()] == list(sds.BatchOp)
    assert run(table_of(servers).batch([])) == []


def test_a_batch_is_repeated_only_if_every_item_may_be(servers: FakeTables) -> None:
    servers.on(S1, "batch", raises(NoReply("cut")))
    with pytest.raises(OutcomeUnknown):
        run(table_of(servers).batch([Put({"id": 1}), Increment({"id": 1}, {"small": 1})]))
    with pytest.raises(OutcomeUnknown):
        run(table_of(servers).batch([Put({"id": 1}, RowExists())]))
    assert servers.count("batch") == 2
    servers.on(S1, "batch", in_turn(raises(NoReply("cut")), lambda _: sds.BatchResult(items=[])))
    assert run(table_of(servers).batch([Put({"id": 1}), Get({"id": 2})])) == []
    assert servers.count("batch") == 4


# --- scans -----------------------------------------------------------------------------------


def pages(servers: FakeTables, *throttled: bool, empty: int = 0) -> list[sds.ScanRequest]:
    """Answers with a page each, of one record (the first ``empty`` have none); what was asked."""
    asked: list[sds.ScanRequest] = []

    def scan(request: sds.ScanRequest) -> sds.ScanResult:
        number = len(asked)
        start = request.startKey
        asked.append(sds.ScanRequest(startKey=start, stopKey=request.stopKey, limit=request.limit))
        record = columns_to(typed_columns(SCHEMA.attributes, {"id": number}))
        last = number == len(throttled) - 1
        return sds.ScanResult(
            records=[] if number < empty else [record],
            nextStartKey=None if last else record,
            throttled=throttled[number],
        )

    servers.on(S1, "scan", scan)
    return asked


async def rows_of(table: TalosTable) -> list[Any]:
    return [row["id"] async for row in table.scan({"id": -1}, {"id": 100})]


def test_a_scan_goes_from_page_to_page(servers: FakeTables) -> None:
    asked = pages(servers, False, False, False)
    assert run(rows_of(table_of(servers))) == [0, 1, 2]
    starts = [columns_from(item.startKey)["id"].value for item in asked]
    assert starts == [-1, 0, 1]
    assert all(item.stopKey == columns_to({"id": Datum(DataType.INT64, 100)}) for item in asked)


def test_a_scan_that_the_rate_cuts_short_continues(servers: FakeTables) -> None:
    pages(servers, True, True, True, True, False, empty=4)
    assert run(rows_of(table_of(servers))) == [4]


def test_a_scan_that_the_rate_stops_ends(servers: FakeTables) -> None:
    throttled = sds.ScanResult(
        nextStartKey=columns_to({"id": Datum(DataType.INT64, 1)}), records=[], throttled=True
    )
    servers.on(S1, "scan", lambda _: throttled)
    with pytest.raises(errors.ThrottleRejected, match="scan throttled"):
        run(rows_of(table_of(servers, deadline_s=10.0)))


def test_a_page_is_asked_for_again_if_its_answer_is_lost(servers: FakeTables) -> None:
    servers.on(S1, "scan", in_turn(raises(NoReply("cut")), lambda _: sds.ScanResult(records=[])))
    assert run(rows_of(table_of(servers))) == []
    assert servers.count("scan") == 2


# --- administration --------------------------------------------------------------------------


def admin(servers: FakeTables) -> TableAdmin:
    client: Client = client_of(servers)
    return TableAdmin(client)


def test_a_table_is_made_and_described(servers: FakeTables) -> None:
    schema = TableSchema(
        primary=SCHEMA.primary, attributes=SCHEMA.attributes, streams={"t": StreamSpec()}
    )
    made: list[Any] = []

    def create(arguments: Any) -> sds.TableInfo:
        made.append(arguments)
        status = sds.TableStatus(state=sds.TableState.ENABLED, createTime=1, alterTime=2)
        return sds.TableInfo(name=arguments[0], spec=arguments[1], status=status)

    servers.on(S1, "createTable", create)
    info = run(admin(servers).create("users", schema))
    assert made[0][0] == "users"
    assert (info.name, info.state, info.created_ms) == ("users", TableState.ENABLED, 1)
    assert info.spec.schema == schema
    assert run(admin(servers).describe("users")).schema == SCHEMA


def test_a_mark_is_a_time_with_offsets(servers: FakeTables) -> None:
    states = [
        sds.TopicPartitionState(partitionId=number, offset=number * 10) for number in range(3)
    ]
    found = sds.StreamCheckpoint(timestamp=5, topicName="t", partitionStates=states)
    servers.on(S1, "getLatestStreamCheckpoint", lambda _: found)
    assert run(admin(servers).mark("users", "t")) == StreamMark(5, {0: 0, 1: 10, 2: 20})


def test_a_table_that_is_being_made_when_the_answer_is_lost_is_unknown(servers: FakeTables) -> None:
    servers.on(S1, "createTable", raises(NoReply("cut")))
    with pytest.raises(OutcomeUnknown):
        run(admin(servers).create("users", SCHEMA))
    assert servers.count("createTable") == 1


def test_a_refusal_by_status_is_an_error(servers: FakeTables) -> None:
    servers.raw = [Reply(401, {"Content-Type": "text/plain"}, b"no")]
    with pytest.raises(errors.InvalidCredential, match="401: no"):
        run(admin(servers).list())
