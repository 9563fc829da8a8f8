"""Which SDS calls change something."""

from typing import Any, cast

import pytest

from opentalos.gateway.sds_http.changes import changes
from opentalos.wire._generated import sds
from opentalos.wire.thrift import Call

SERVICE = sds.SERVICES["TableService"]


def call(rpc: str, argument: object) -> Call:
    return Call(SERVICE.methods[rpc], 1, (argument,))


def batch(*actions: sds.BatchOp) -> Call:
    items = [sds.BatchRequestItem(action=action) for action in actions]
    return call("batch", sds.BatchRequest(items=items))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (call("get", sds.GetRequest(tableName="t")), False),
        (call("scan", sds.ScanRequest(tableName="t")), False),
        (call("scanAll", sds.ScanRequest(tableName="t")), False),
        (call("realRemove", [sds.RemoveRequest(tableName="t")]), True),
        (call("put", sds.PutRequest(tableName="t")), True),
        (call("increment", sds.IncrementRequest(tableName="t")), True),
        (batch(sds.BatchOp.GET, sds.BatchOp.GET), False),
        (batch(sds.BatchOp.GET, sds.BatchOp.PUT), True),
    ],
    ids=["get", "scan", "scan all", "real remove", "put", "increment", "gets", "mixed"],
)
def test_reads_change_nothing_and_all_else_may(made: Call, expected: bool) -> None:
    assert changes(made) is expected


@pytest.mark.parametrize("rpc", ["scan", "scanAll"])
def test_a_scan_with_an_action_changes_something(rpc: str) -> None:
    action: Any = cast("Any", sds.ScanAction())
    assert changes(call(rpc, sds.ScanRequest(tableName="t", action=action)))
