"""Which SDS calls change something."""

from typing import Any, cast

import pytest
from tests.unit.gateway.sds_http.support import BINARY

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.sds_http.changes import request_changes
from opentalos.wire._generated import sds
from opentalos.wire.thrift import encode_call

SERVICE = sds.SERVICES["TableService"]


def request(body: bytes, content_type: bytes = BINARY.value.encode()) -> Exchange:
    connection: Any = None  # never answered
    made = Exchange(connection, b"POST", b"/v1/api/table", {b"content-type": content_type})
    made.body = body
    return made


def call(rpc: str, argument: object) -> bytes:
    return encode_call(BINARY, SERVICE.methods[rpc], 1, argument)


def batch(*actions: sds.BatchOp) -> bytes:
    items = [sds.BatchRequestItem(action=action) for action in actions]
    return call("batch", sds.BatchRequest(items=items))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (call("get", sds.GetRequest(tableName="t")), False),
        (call("scan", sds.ScanRequest(tableName="t")), False),
        (call("put", sds.PutRequest(tableName="t")), True),
        (call("increment", sds.IncrementRequest(tableName="t")), True),
        (batch(sds.BatchOp.GET, sds.BatchOp.GET), False),
        (batch(sds.BatchOp.GET, sds.BatchOp.PUT), True),
        (b"not Thrift", False),
    ],
    ids=["get", "scan", "put", "increment", "gets", "mixed", "unreadable"],
)
def test_reads_change_nothing_and_all_else_may(body: bytes, expected: bool) -> None:
    assert request_changes(SERVICE, request(body)) is expected


def test_a_scan_with_an_action_changes_something() -> None:
    action = cast("Any", sds.ScanAction())
    body = call("scan", sds.ScanRequest(tableName="t", action=action))
    assert request_changes(SERVICE, request(body))


def test_without_a_content_type_a_call_is_binary() -> None:
    made = request(call("put", sds.PutRequest(tableName="t")))
    made.headers.clear()
    assert request_changes(SERVICE, made)
    made.headers[b"content-type"] = b"text/plain"
    assert not request_changes(SERVICE, made)
