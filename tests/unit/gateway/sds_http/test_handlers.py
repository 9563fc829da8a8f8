"""Structs of calls as the broker's values, and its answers as structs."""

from typing import Any

import pytest
from tests.unit.gateway.sds_http.support import KEY, TABLE, Bench, N

from opentalos.broker.tables.api.values import (
    Got,
    ReadItem,
    ScanAction,
    ScanActionKind,
    ScanPage,
    ScanQuery,
    WriteItem,
    Written,
)
from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import ThrottleRejected, ValidationFailed
from opentalos.model.mutation import Condition, ConditionOperator, Mutation, Operation
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import columns_to, to_struct

VALIDATION_FAILED = sds.ErrorCode.VALIDATION_FAILED
NINE = Datum(DataType.INT64, 9)
KEYS = columns_to(KEY)
RECORD = columns_to({**KEY, **N})
PUT = Mutation(Operation.PUT, KEY, N)
ADMIN = "AdminService"


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_get_gives_a_record_or_nothing(bench: Bench) -> None:
    request = sds.GetRequest(tableName="t", keys=KEYS, attributes=["n"])
    assert (await bench.result("get", request)).item is None
    bench.tables.record = N
    assert (await bench.result("get", request)).item == columns_to(N)
    assert bench.tables.asked == [("t", KEY, ("n",))] * 2


async def test_put_parts_the_record_by_the_tables_key(bench: Bench) -> None:
    request = sds.PutRequest(tableName="t", record=RECORD)
    assert (await bench.result("put", request)).success is True
    bench.tables.written = Written(False)
    assert (await bench.result("put", request)).success is False
    assert bench.tables.asked == [("t", PUT)] * 2


async def test_increment_gives_the_new_amounts(bench: Bench) -> None:
    bench.tables.written = Written(True, N)
    request = sds.IncrementRequest(tableName="t", keys=KEYS, amounts=columns_to(N))
    assert (await bench.result("increment", request)).amounts == columns_to(N)
    assert bench.tables.asked == [("t", Mutation(Operation.INCREMENT, KEY, N))]


async def test_what_is_not_part_of_the_key_is_ignored_in_keys(bench: Bench) -> None:
    """As records are passed there; in the ends of a scan it would make the range larger."""
    odd = {**RECORD, **columns_to({"odd": NINE})}
    get = sds.GetRequest(tableName="t", keys=odd)
    increment = sds.IncrementRequest(tableName="t", keys=odd, amounts=columns_to(N))
    remove = sds.RemoveRequest(tableName="t", keys=odd)
    for rpc, request in (("get", get), ("increment", increment), ("remove", remove)):
        await bench.result(rpc, request)
    mutations = [Mutation(Operation.INCREMENT, KEY, N), Mutation(Operation.REMOVE, KEY)]
    assert bench.tables.asked == [("t", KEY, ()), *(("t", mutation) for mutation in mutations)]
    bench.tables.asked, bench.tables.outcomes = [], [Got(N), Written(True, N), Written(True)]
    items = [
        item(1, getRequest=get),
        item(3, incrementRequest=increment),
        item(4, removeRequest=remove),
    ]
    await bench.result("batch", sds.BatchRequest(items=items))
    ((asked, _),) = bench.tables.asked
    assert asked == [ReadItem("t", KEY), *(WriteItem("t", mutation) for mutation in mutations)]
    await bench.result("scan", sds.ScanRequest(tableName="t", startKey=odd))
    assert set(bench.tables.asked[-1][0].start) == set(odd)


CONDITIONS = [
    (sds.SimpleCondition(rowExist=False), Condition(row_exists=False)),
    (
        sds.SimpleCondition(operator=sds.OperatorType.LESS, field="n", value=to_struct(NINE)),
        Condition(ConditionOperator.LESS, "n", NINE),
    ),
]


@pytest.mark.parametrize(("struct", "condition"), CONDITIONS)
async def test_conditions_are_reported(bench: Bench, struct: Any, condition: Condition) -> None:
    remove = sds.RemoveRequest(tableName="t", keys=KEYS, attributes=["n"], condition=struct)
    await bench.result("remove", remove)
    await bench.result("put", sds.PutRequest(tableName="t", record=RECORD, condition=struct))
    removal = Mutation(Operation.REMOVE, KEY, attributes=("n",), condition=condition)
    assert bench.tables.asked == [("t", removal), ("t", PUT._replace(condition=condition))]


@pytest.mark.parametrize(
    "struct",
    [
        sds.SimpleCondition(),
        sds.SimpleCondition(rowExist=True, field="n"),
        sds.SimpleCondition(operator=sds.OperatorType.LESS, field="n"),
        sds.SimpleCondition(operator=9, field="n", value=to_struct(NINE)),
        sds.SimpleCondition(field="n", value=to_struct(NINE)),
    ],
)
async def test_half_a_condition_is_refused(bench: Bench, struct: Any) -> None:
    request = sds.RemoveRequest(tableName="t", keys=KEYS, condition=struct)
    assert await bench.code("remove", request) == VALIDATION_FAILED
    assert bench.tables.asked == []


async def test_scan_asks_for_its_range_and_gives_a_page(bench: Bench) -> None:
    bench.tables.page = ScanPage(records=[N], next_key=KEY, throttled=True)
    request = sds.ScanRequest(
        tableName="t", indexName="i", startKey=KEYS, stopKey={}, attributes=["n"],
        condition="n = 9", reverse=True,
    )  # fmt: skip
    page = await bench.result("scan", request)
    assert (page.records, page.nextStartKey, page.throttled) == ([columns_to(N)], KEYS, True)
    assert bench.tables.asked == [
        (
            ScanQuery(
                table="t", index="i", start=KEY, stop={}, attributes=("n",), condition="n = 9",
                limit=10, reverse=True,
            ),
        )
    ]  # fmt: skip
    bench.tables.page = ScanPage()
    assert (await bench.result("scan", request)).nextStartKey is None


@pytest.mark.parametrize("versions", [None, True])
async def test_a_scan_under_way_that_is_over_its_rate_is_a_page_cut_short(
    bench: Bench, versions: bool | None
) -> None:
    bench.tables.error = ThrottleRejected("slow")
    request = sds.ScanRequest(tableName="t", startKey=KEYS, withVersions=versions)
    page = await bench.result("scan", request)
    assert (page.records, page.nextStartKey, page.throttled) == ([], KEYS, True)
    assert page.timestamps == ([] if versions else None)


@pytest.mark.parametrize(
    "request_",
    [
        sds.ScanRequest(tableName="t"),
        sds.ScanRequest(
            tableName="t", startKey=KEYS, action=sds.ScanAction(action=sds.ScanOp.DELETE)
        ),
    ],
    ids=["no-start", "action"],
)
async def test_a_call_without_a_resume_position_is_refused_over_its_rate(
    bench: Bench, request_: Any
) -> None:
    bench.tables.error = ThrottleRejected("slow")
    assert await bench.code("scan", request_) == sds.ErrorCode.THROUGHPUT_EXCEED


PUT_N = sds.Request(putRequest=sds.PutRequest(record=columns_to(N)))
INCREMENT_N = sds.Request(incrementRequest=sds.IncrementRequest(amounts=columns_to(N)))
REMOVE_N = sds.Request(removeRequest=sds.RemoveRequest(attributes=["n"]))


@pytest.mark.parametrize(
    ("kind", "request_", "action"),
    [
        (0, None, ScanAction(ScanActionKind.COUNT)),
        (1, None, ScanAction(ScanActionKind.DELETE)),
        (1, REMOVE_N, ScanAction(ScanActionKind.DELETE, ("n",))),
        (2, PUT_N, ScanAction(ScanActionKind.UPDATE, columns=N)),
        (
            2,
            INCREMENT_N,
            ScanAction(ScanActionKind.UPDATE, columns=N, operation=Operation.INCREMENT),
        ),
    ],
)
async def test_scan_actions_count(
    bench: Bench, kind: int, request_: Any, action: ScanAction
) -> None:
    bench.tables.page = ScanPage(count=4)
    request = sds.ScanRequest(
        tableName="t", action=sds.ScanAction(action=sds.ScanOp(kind), request=request_)
    )
    (record,) = (await bench.result("scan", request)).records
    assert record == columns_to({"count": Datum(DataType.INT32, 4)})
    assert bench.tables.asked[0][0].action == action


@pytest.mark.parametrize("kind", [None, 2, 7])
async def test_half_a_scan_action_is_refused(bench: Bench, kind: int | None) -> None:
    request = sds.ScanRequest(tableName="t", action=sds.ScanAction(action=kind))
    assert await bench.code("scan", request) == VALIDATION_FAILED
    assert bench.tables.asked == []


def item(action: int | None, **request: Any) -> sds.BatchRequestItem:
    return sds.BatchRequestItem(action=action, request=sds.Request(**request))


async def test_items_of_a_batch_have_their_own_outcomes(bench: Bench) -> None:
    items = [
        item(2, putRequest=sds.PutRequest(tableName="t", record=RECORD)),
        item(2, putRequest=sds.PutRequest(tableName="nothing", record=RECORD)),
        item(9),
        item(1, getRequest=sds.GetRequest(tableName="t", keys=KEYS)),
        item(3, incrementRequest=sds.IncrementRequest(tableName="t", keys=KEYS, amounts=RECORD)),
        item(4, removeRequest=sds.RemoveRequest(tableName="t", keys=KEYS)),
        item(4),
    ]
    bench.tables.outcomes = [Written(False), Got(N), Written(True, N), ThrottleRejected("slow")]
    got = (await bench.result("batch", sds.BatchRequest(items=items))).items
    ((asked, partial),) = bench.tables.asked
    amounts = {**KEY, **N}
    assert partial is False
    assert asked == [
        WriteItem("t", PUT),
        ReadItem("t", KEY),
        WriteItem("t", Mutation(Operation.INCREMENT, KEY, amounts)),
        WriteItem("t", Mutation(Operation.REMOVE, KEY)),
    ]
    assert [entry.success for entry in got] == [True, False, False, True, True, False, False]
    assert got[0].result.putResult.success is False
    assert got[3].result.getResult.item == columns_to(N)
    assert got[4].result.incrementResult.amounts == columns_to(N)
    refused = [got[number].serviceException for number in (1, 2, 5, 6)]
    assert [(error.details, error.callId) for error in refused] == [
        (error.errorMessage, "0a") for error in refused
    ]
    assert [error.errorCode for error in refused] == [
        sds.ErrorCode.RESOURCE_NOT_FOUND, VALIDATION_FAILED, sds.ErrorCode.THROUGHPUT_EXCEED,
        VALIDATION_FAILED,
    ]  # fmt: skip


async def test_a_real_remove_is_a_remove_of_each(bench: Bench) -> None:
    requests = [sds.RemoveRequest(tableName="t", keys=KEYS)] * 2
    removal = WriteItem("t", Mutation(Operation.REMOVE, KEY))
    bench.tables.outcomes = [Written(True), Written(False)]
    results = await bench.result("realRemove", requests)
    assert [result.success for result in results] == [True, False]
    assert bench.tables.asked == [([removal] * 2, False)]
    bench.tables.outcomes = [Written(True), ThrottleRejected("slow")]
    assert await bench.code("realRemove", requests) == sds.ErrorCode.THROUGHPUT_EXCEED
    bench.tables.outcomes = []
    assert await bench.result("realRemove", []) == []


async def test_a_scan_of_all_is_a_scan(bench: Bench) -> None:
    bench.tables.page = ScanPage(records=[N])
    page = await bench.result("scanAll", sds.ScanRequest(tableName="t"))
    assert page.records == [columns_to(N)]
    assert bench.tables.asked == [(ScanQuery(table="t"),)]


async def test_a_partial_batch_says_without_success_what_the_rate_refused(bench: Bench) -> None:
    """Clients repeat such items until none is left, so nothing else may be among them."""
    put = item(2, putRequest=sds.PutRequest(tableName="t", record=RECORD))
    bench.tables.outcomes = [Written(True), ThrottleRejected("slow")]
    got = await bench.result("partialAllowedBatch", sds.BatchRequest(items=[put, put]))
    assert [entry.success for entry in got.items] == [True, False]
    assert bench.tables.asked == [([WriteItem("t", PUT)] * 2, True)]
    bench.tables.asked = []
    assert await bench.code("partialAllowedBatch", sds.BatchRequest(items=[put, item(9)])) == (
        VALIDATION_FAILED
    )
    bench.tables.wrong = ValidationFailed("key column id is missing")
    assert await bench.code("partialAllowedBatch", sds.BatchRequest(items=[put])) == (
        VALIDATION_FAILED
    )
    assert bench.tables.asked == []


async def test_checked_batches_have_no_reads_and_no_increments(bench: Bench) -> None:
    request = sds.BatchRequest(items=[item(1, getRequest=sds.GetRequest(tableName="t"))])
    assert await bench.code("batchCheckAndMutate", request) == VALIDATION_FAILED
    assert bench.tables.asked == []


async def test_a_table_is_described_with_its_id_and_owner(bench: Bench) -> None:
    spec = await bench.result("describeTable", "t", service=ADMIN)
    assert (spec.metadata.tableId, spec.metadata.developerId) == (TABLE.uuid, "alice")
    assert [part.attribute for part in spec.schema.entityGroup.attributes] == ["user"]


@pytest.mark.parametrize(
    "metadata",
    [
        sds.TableMetadata(stream=sds.StreamSpec(enableStream=True)),
        sds.TableMetadata(enableSysSnapshot=True),
        sds.TableMetadata(enableEgAcl=True),
        sds.TableMetadata(pitr=sds.PointInTimeRecovery(enablePointInTimeRecovery=True)),
        sds.TableMetadata(softDeletedTtl=1),
        sds.TableMetadata(coldStandBy=sds.ColdStandBy(enableColdStandBy=True)),
    ],
)
async def test_promises_that_are_not_kept_are_not_taken(bench: Bench, metadata: Any) -> None:
    schema = sds.TableSchema(primaryIndex=[sds.KeySpec(attribute="k")])
    spec = sds.TableSpec(schema=schema, metadata=metadata)
    code = await bench.code("createTable", "t", spec, service=ADMIN)
    assert code == sds.ErrorCode.UNSUPPORTED_OPERATION
    assert bench.admin.asked == []


async def test_what_is_switched_off_may_be_named(bench: Bench) -> None:
    schema = sds.TableSchema(primaryIndex=[sds.KeySpec(attribute="k")], enableTransaction=False)
    metadata = sds.TableMetadata(enableSysSnapshot=False, pitr=sds.PointInTimeRecovery())
    spec = sds.TableSpec(schema=schema, metadata=metadata)
    info = await bench.result("createTable", "t", spec, service=ADMIN)
    assert (info.name, info.status.state, info.status.createTime) == ("t", 3, 5)
