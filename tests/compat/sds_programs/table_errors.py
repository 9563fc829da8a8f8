"""Calls of the SDS client that are refused: each one line with the code or status it got."""

import time
from collections.abc import Callable
from typing import Any

from load_table import Arguments, admin_client, datums, factory, run, say, spec, table_client
from sds.client.clientfactory import ThreadSafeClient
from sds.client.datumutil import datum
from sds.client.exceptions import SdsTransportException
from sds.errors.ttypes import ServiceException
from sds.table.ttypes import (
    BatchOp,
    BatchRequest,
    BatchRequestItem,
    DataType,
    GetRequest,
    IncrementRequest,
    KeySpec,
    PutRequest,
    RemoveRequest,
    Request,
    ScanRequest,
    TableSpec,
)

NAME = "errors"
SKEW_S = 4_000.0
INT64_MAX = 2**63 - 1


def refused(name: str, call: Callable[..., Any], *arguments: Any) -> None:
    """Make a call and say how it was refused."""
    try:
        told: list[Any] = ["done", repr(call(*arguments))]
    except ServiceException as error:
        told = ["code", error.errorCode, error.errorMessage]
    except SdsTransportException as error:
        told = ["status", error.httpStatusCode, error.errorMessage]
    say(name=name, told=told)


def once(arguments: Arguments) -> Any:
    """The client below its own repetitions, which wait a second each."""
    made = factory(arguments).new_table_client(f"{arguments['url']}/v1/api/table", 10.0)
    assert isinstance(made.client, ThreadSafeClient)
    return made.client


def of_records(tables: Any) -> None:
    key = datums({"grp": "g", "id": 1})
    refused("no-table", tables.get, GetRequest("nothing", key))
    refused("missing-key", tables.get, GetRequest(NAME, datums({"grp": "g"})))
    refused("unknown-column", tables.put, PutRequest(NAME, {**key, "odd": datum(1)}))
    refused("wrong-type", tables.put, PutRequest(NAME, {**key, "count": datum("x")}))
    refused("wrong-key-type", tables.get, GetRequest(NAME, {**key, "id": datum("x")}))
    refused("unknown-attribute", tables.get, GetRequest(NAME, key, ["odd"]))
    refused("remove-unknown", tables.remove, RemoveRequest(NAME, key, ["odd"]))
    long_key = datums({"grp": "g" * 3_000, "id": 1})
    refused("long-key", tables.put, PutRequest(NAME, long_key))
    large = {**key, "token": datum("x" * 300_000)}
    refused("large-record", tables.put, PutRequest(NAME, large))
    huge = {**key, "token": datum("x" * 600_000)}
    refused("large-body", tables.put, PutRequest(NAME, huge))
    tables.put(PutRequest(NAME, {**key, **datums({"count": INT64_MAX})}))
    refused("overflow", tables.increment, IncrementRequest(NAME, key, datums({"count": 1})))
    refused("increment-text", tables.increment, IncrementRequest(NAME, key, datums({"token": "x"})))
    say(
        name="nothing-applied",
        told=tables.get(GetRequest(NAME, key)).item["count"].value.int64Value,
    )
    refused("bad-condition", tables.scan, ScanRequest(NAME, condition="count >"))
    refused("unknown-index", tables.scan, ScanRequest(NAME, indexName="odd"))
    get = Request(getRequest=GetRequest(NAME, key))
    many = BatchRequest([BatchRequestItem(BatchOp.GET, get)] * 1_001)
    refused("huge-batch", tables.batch, many)
    refused("not-supported", tables.putToRebuildIndex, PutRequest(NAME, key))


def of_tables(admin: Any, arguments: Arguments) -> None:
    refused("exists", admin.createTable, NAME, spec(arguments))
    refused("bad-name", admin.createTable, "_no/good name_", spec(arguments))
    refused("no-schema", admin.createTable, "empty", TableSpec())
    streamed = spec({**arguments, "streams": {"no-such-topic": "MUTATE_LOG"}})
    refused("no-topic", admin.createTable, "streamed", streamed)
    changed = admin.describeTable(NAME)
    changed.schema.primaryIndex = [KeySpec("token", True)]
    refused("changed-key", admin.alterTable, NAME, changed)
    retyped = admin.describeTable(NAME)
    retyped.schema.attributes["flag"] = DataType.INT64
    refused("retyped-index", admin.alterTable, NAME, retyped)
    refused("drop-nothing", admin.dropTable, "nothing")
    refused("no-snapshots", admin.snapshotTable, NAME, "s1")
    refused("no-clones", admin.cloneTable, NAME, "copy", False)
    refused("no-quota-applications", admin.getQuotaInfo)


def of_disabled(admin: Any, tables: Any) -> None:
    admin.disableTable(NAME)
    refused("disabled", tables.get, GetRequest(NAME, datums({"grp": "g", "id": 1})))
    admin.enableTable(NAME)


def of_callers(arguments: Arguments) -> None:
    request = GetRequest(NAME, datums({"grp": "g", "id": 1}))
    refused("wrong-secret", once({**arguments, "secret": "not this one"}).get, request)
    refused("unknown-key", once({**arguments, "key_id": "NOBODY"}).get, request)
    refused("stranger", once({**arguments, **arguments["stranger"]}).get, request)
    now_s = time.time
    time.time = lambda: now_s() + SKEW_S
    refused("skewed", once(arguments).get, request)
    time.time = now_s


def program(arguments: Arguments) -> None:
    admin, tables = admin_client(arguments), table_client(arguments)
    admin.createTable(NAME, spec(arguments))
    of_records(tables)
    of_tables(admin, arguments)
    of_disabled(admin, tables)
    of_callers(arguments)


run(program)
