"""Every SDS RPC: which right it needs. Written from docs/reference/sds.md and
docs/protocol/sds.md."""

from typing import Any

from tests.e2e.access import model
from tests.e2e.access.model import Line, Right, each, table
from tests.e2e.access.stage import Stage
from tests.raw_client import idl

SDS = idl("sds")
VERSION = SDS.Version(1, 0, "0", "")
UNSUPPORTED = {
    "table": "putToRebuildIndex atomicBatch newTransaction transactionGet transactionCommit",
    "auth": "createCredential",
    "admin": (
        "getApplyList applyQuota getAllApplyList passApply rejectApply cancelApply saveAppInfo "
        "getAppInfo findAllApps cloneTable getIndexTableSplits queryMetric queryMetrics "
        "findAllAppInfo subscribePhoneAlert unsubscribePhoneAlert subscribeEmailAlert "
        "unsubscribeEmailAlert listSubscribedPhone listSubscribedEmail getTableHistorySize "
        "renameTable listSnapshots snapshotTable deleteSnapshot restoreSnapshot listAllSnapshots "
        "cancelSnapshotTable getSnapshotState getQuotaInfo getFloorStreamCheckpoint "
        "getCeilStreamCheckpoint recoverTable listAllDeletedTables restoreTable "
        "getDefaultColdStandBy getGrantRule setGrantRule setSpaceId"
    ),
}


def text(value: str) -> Any:
    return SDS.Datum(SDS.DataType.STRING, SDS.Value(stringValue=value))


def number(value: int) -> Any:
    return SDS.Datum(SDS.DataType.INT64, SDS.Value(int64Value=value))


KEY = {"k": text("row")}
ROW = {**KEY, "v": text("value")}


def nothing(_: Stage) -> Any:
    return {}


def of_table(stage: Stage) -> Any:
    return {"tableName": stage.table_path}


def request(make: Any, *values: Any) -> Any:
    return lambda stage: {"request": make(stage.table_path, *values)}


def spec() -> Any:
    attributes = {"k": SDS.DataType.STRING, "v": SDS.DataType.STRING, "n": SDS.DataType.INT64}
    schema = SDS.TableSchema(primaryIndex=[SDS.KeySpec("k", True)], attributes=attributes)
    return SDS.TableSpec(schema=schema)


def created(name: str) -> Any:
    return lambda stage: {"tableName": name.format(stage.fresh()), "tableSpec": spec()}


def altered(stage: Stage) -> Any:
    """Rights of applications are removed unless they are sent; those of teams remain."""
    wanted = spec()
    wanted.metadata = SDS.TableMetadata(description="changed")
    return {"tableName": stage.table_path, "tableSpec": wanted}


def batch(action: int, make: Any, field: str, *values: Any) -> Any:
    def arguments(stage: Stage) -> Any:
        wanted = SDS.Request(**{field: make(stage.table_path, *values)})
        return {"request": SDS.BatchRequest([SDS.BatchRequestItem(action, wanted)])}

    return arguments


def scan(action: Any = None) -> Any:
    return lambda stage: {"request": SDS.ScanRequest(stage.table_path, action=action)}


READ, WRITE = table(Right.READ), table(Right.WRITE)
DESCRIBE, ALTER = table(Right.DESCRIBE), table(Right.ALTER)
BATCHES = ("batch", "partialAllowedBatch")
UPDATE = SDS.ScanAction(
    SDS.ScanOp.UPDATE, SDS.Request(putRequest=SDS.PutRequest("", {"v": text("new")}))
)

LINES = (
    *(
        Line(f"{service}.{rpc}", model.anybody, arguments)
        for service in ("table", "admin", "auth")
        for rpc, arguments in (
            ("getServerVersion", nothing),
            ("validateClientVersion", lambda _: {"clientVersion": VERSION}),
            ("getServerTime", nothing),
        )
    ),
    *(
        Line(f"{service}.{rpc}", model.anybody, nothing, fails="not supported")
        for service, rpcs in UNSUPPORTED.items()
        for rpc in rpcs.split()
    ),
    Line("table.put", WRITE, request(SDS.PutRequest, ROW)),
    Line("table.get", READ, request(SDS.GetRequest, KEY)),
    Line("table.increment", WRITE, request(SDS.IncrementRequest, KEY, {"n": number(1)})),
    Line("table.scan", READ, scan()),
    Line("table.scanAll", READ, scan()),
    Line("table.scan", READ, scan(SDS.ScanAction(SDS.ScanOp.COUNT)), "that counts"),
    Line("table.scan", each(WRITE, READ), scan(UPDATE), "that changes"),
    Line(
        "table.scan", each(WRITE, READ), scan(SDS.ScanAction(SDS.ScanOp.DELETE)), "that removes",
    ),
    *(
        Line(f"table.{rpc}", READ, batch(1, SDS.GetRequest, "getRequest", KEY), "of gets")
        for rpc in BATCHES
    ),
    *(
        Line(f"table.{rpc}", WRITE, batch(2, SDS.PutRequest, "putRequest", ROW), "of puts")
        for rpc in (*BATCHES, "batchCheckAndMutate")
    ),
    *(
        Line(
            f"table.{rpc}", WRITE,
            batch(3, SDS.IncrementRequest, "incrementRequest", KEY, {"n": number(1)}),
            "of increments",
        )
        for rpc in BATCHES
    ),
    *(
        Line(f"table.{rpc}", WRITE, batch(4, SDS.RemoveRequest, "removeRequest", KEY), "of removes")
        for rpc in (*BATCHES, "batchCheckAndMutate")
    ),
    Line("table.remove", WRITE, request(SDS.RemoveRequest, KEY)),
    Line(
        "table.realRemove", WRITE,
        lambda stage: {"requestList": [SDS.RemoveRequest(stage.table_path, KEY)]},
    ),
    Line("admin.createTable", model.manages, created("new{}")),
    Line(
        "admin.createTable", each(model.manages, model.administrator), created("CLempty/new{}"),
        "of another organisation",
    ),
    Line(
        "admin.findAllTables", model.anybody, nothing, sees=model.sees_owned_or_granted_table,
        shown="table_name",
    ),
    Line("admin.describeTable", DESCRIBE, of_table),
    Line("admin.getTableStatus", DESCRIBE, of_table),
    Line("admin.getTableState", DESCRIBE, of_table),
    Line("admin.getTableSize", DESCRIBE, of_table),
    Line("admin.getTableSplits", READ, lambda stage: {"tableName": stage.table_path}),
    Line(
        "admin.getLatestStreamCheckpoint", DESCRIBE,
        lambda stage: {"tableName": stage.table_path, "topicName": stage.topic_name},
    ),
    Line("admin.getDevelopId", model.anybody, nothing),
    Line("admin.putClientMetrics", model.anybody, nothing),
    Line("admin.disableTable", ALTER, of_table),
    Line("admin.enableTable", ALTER, of_table),
    Line("admin.alterTable", ALTER, altered),
    Line("admin.dropTable", ALTER, of_table, last=True),
)  # fmt: skip
