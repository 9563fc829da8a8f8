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
        (call("put", sds.PutRequest(tableName="t")), True),
        (call("increment", sds.IncrementRequest(tableName="t")), True),
        (batch(sds.BatchOp.GET, sds.BatchOp.GET), False),
        (batch(sds.BatchOp.GET, sds.BatchOp.PUT), True),
    ],
    ids=["get", "scan", "put", "increment", "gets", "mixed"],
)
def test_reads_change_nothing_and_all_else_may(made: Call, expected: bool) -> None:
    assert changes(made) is expected


def test_a_scan_with_an_action_changes_something() -> None:
    action: Any = cast("Any", sds.ScanAction())
    assert changes(call("scan", sds.ScanRequest(tableName="t", action=action)))
