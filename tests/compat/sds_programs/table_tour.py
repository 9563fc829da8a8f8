"""Every call that the SDS client's users make of tables, each one line of what it gave."""

from collections.abc import Iterator
from typing import Any

from load_table import Arguments, Plain, admin_client, datums, plain, run, say, spec, table_client
from sds.client.datumutil import datum
from sds.client.tablescanner import scan_iter
from sds.table.ttypes import (
    BatchOp,
    BatchRequest,
    BatchRequestItem,
    DataType,
    GetRequest,
    IncrementRequest,
    OperatorType,
    PutRequest,
    RemoveRequest,
    Request,
    ScanAction,
    ScanOp,
    ScanRequest,
    SimpleCondition,
    TableMetadata,
)

NAME = "tour"
GROUP = "g"
ROWS = 23
PAGE = 5


def key(number: int) -> Plain:
    return {"grp": GROUP, "id": number}


def keys(number: int) -> Any:
    return datums(key(number))


def put_request(row: Plain, condition: Any = None) -> Any:
    return PutRequest(NAME, datums(row), condition)


def condition(operator: int, field: str, value: Any) -> Any:
    return SimpleCondition(operator, field, datums({field: value})[field])


def administration(admin: Any, arguments: Arguments) -> None:
    wanted = spec(arguments)
    wanted.metadata = TableMetadata(description="first", appAcl={"app": [1, 2]})
    made = admin.createTable(NAME, wanted)
    say(create=[made.name, made.status.state, made.spec.schema.version])
    say(mine=NAME in [table.name for table in admin.findAllTables()])
    say(state=admin.getTableState(NAME))
    described = admin.describeTable(NAME)
    schema = described.schema
    say(
        describe=[
            [part.attribute for part in schema.entityGroup.attributes],
            schema.entityGroup.enableHash,
            [[part.attribute, part.asc] for part in schema.primaryIndex],
            schema.attributes,
            schema.preSplits,
            schema.secondaryIndexes["by_flag"].projections,
            described.metadata.description,
            described.metadata.appAcl,
        ]
    )
    described.schema.attributes["more"] = DataType.STRING_SET
    described.schema.ttl = 3600
    described.metadata.description = "second"
    admin.alterTable(NAME, described)
    altered = admin.describeTable(NAME)
    schema = altered.schema
    say(alter=[schema.attributes["more"], schema.ttl, altered.metadata.description])
    say(splits=len(admin.getTableSplits(NAME, {}, {})))
    say(service=[admin.getServerVersion().major, admin.getServerTime() > 0])


def records(tables: Any) -> None:
    row = {**key(1), "token": "t", "flag": "f", "count": 5}
    say(put=tables.put(put_request(row)).success)
    say(get=plain(tables.get(GetRequest(NAME, keys(1))).item))
    say(get_some=plain(tables.get(GetRequest(NAME, keys(1), ["count"])).item))
    say(get_none=plain(tables.get(GetRequest(NAME, keys(99))).item))
    amounts = datums({"count": 3})
    say(increment=plain(tables.increment(IncrementRequest(NAME, keys(1), amounts)).amounts))
    tables.put(put_request({**key(1), "token": "u"}))
    say(merged=plain(tables.get(GetRequest(NAME, keys(1))).item))
    say(remove_column=tables.remove(RemoveRequest(NAME, keys(1), ["flag"])).success)
    say(left=plain(tables.get(GetRequest(NAME, keys(1))).item))
    say(remove=tables.remove(RemoveRequest(NAME, keys(1))).success)
    say(gone=plain(tables.get(GetRequest(NAME, keys(1))).item))
    sets = {**keys(2), "more": datum(["b", "a", "b"], DataType.STRING_SET)}
    tables.put(PutRequest(NAME, sets))
    say(sets=plain(tables.get(GetRequest(NAME, keys(2))).item))
    tables.remove(RemoveRequest(NAME, keys(2)))


def conditions(tables: Any) -> None:
    absent, present = SimpleCondition(rowExist=False), SimpleCondition(rowExist=True)
    row = {**key(3), "count": 5}
    puts = [
        tables.put(put_request(row, present)).success,
        tables.put(put_request(row, absent)).success,
        tables.put(put_request(row, absent)).success,
        tables.put(put_request(row, condition(OperatorType.EQUAL, "count", 6))).success,
        tables.put(put_request(row, condition(OperatorType.GREATER, "count", 4))).success,
    ]
    say(conditional_puts=puts)
    not_five = condition(OperatorType.NOT_EQUAL, "count", 5)
    at_most_five = condition(OperatorType.LESS_OR_EQUAL, "count", 5)
    removes = [
        tables.remove(RemoveRequest(NAME, keys(3), None, guard)).success
        for guard in (not_five, at_most_five)
    ]
    say(conditional_removes=removes)


def items() -> Iterator[Any]:
    for number in range(ROWS):
        row = {**key(number), "count": number, "flag": f"f{number % 2}", "token": f"t{number}"}
        yield BatchRequestItem(BatchOp.PUT, Request(putRequest=put_request(row)))


def batches(tables: Any) -> None:
    done = tables.batch(BatchRequest(list(items()))).items
    say(batch=[len(done), all(item.success and item.result.putResult.success for item in done)])
    mixed = [
        BatchRequestItem(BatchOp.GET, Request(getRequest=GetRequest(NAME, keys(0), ["count"]))),
        BatchRequestItem(
            BatchOp.INCREMENT,
            Request(incrementRequest=IncrementRequest(NAME, keys(0), datums({"count": 10}))),
        ),
        BatchRequestItem(BatchOp.GET, Request(getRequest=GetRequest(NAME, {"grp": datum("g")}))),
        BatchRequestItem(
            BatchOp.REMOVE, Request(removeRequest=RemoveRequest(NAME, keys(0), ["flag"]))
        ),
    ]
    done = tables.batch(BatchRequest(mixed)).items
    say(
        mixed=[
            [item.success for item in done],
            plain(done[1].result.incrementResult.amounts),
            done[2].serviceException.errorCode,
            done[3].result.removeResult.success,
        ]
    )


def scans(tables: Any) -> None:
    group = datums({"grp": GROUP})
    whole = ScanRequest(NAME, startKey=group, stopKey=group, attributes=["id"], limit=PAGE)
    say(scan=[row["id"] for row in scan_iter(tables, whole)])
    back = ScanRequest(
        NAME, startKey=keys(5), stopKey=keys(9), attributes=["id"], reverse=True, limit=PAGE
    )
    say(reverse=[row["id"] for row in scan_iter(tables, back)])
    some = ScanRequest(
        NAME, startKey=group, stopKey=group, condition="count >= 7 AND count < 9", limit=PAGE
    )
    say(filtered=[row["count"] for row in scan_iter(tables, some)])
    first = tables.scan(ScanRequest(NAME, startKey=group, stopKey=group, limit=PAGE))
    say(page=[len(first.records), plain(first.nextStartKey), first.throttled])
    flag = datums({"grp": GROUP, "flag": "f1"})
    index = ScanRequest(NAME, indexName="by_flag", startKey=flag, stopKey=flag, limit=PAGE)
    say(index=sorted(row["id"] for row in scan_iter(tables, index)))
    count = ScanRequest(
        NAME, startKey=group, stopKey=group, limit=100, action=ScanAction(ScanOp.COUNT)
    )
    say(counted=plain(tables.scan(count).records[0]))


def end(admin: Any, tables: Any) -> None:
    status = admin.getTableStatus(NAME)
    say(status=[status.state, status.rowCount, status.size > 0, admin.getTableSize(NAME) > 0])
    admin.disableTable(NAME)
    say(disabled=admin.getTableState(NAME))
    admin.enableTable(NAME)
    say(enabled=[admin.getTableState(NAME), plain(tables.get(GetRequest(NAME, keys(7))).item)])
    admin.disableTable(NAME)
    admin.dropTable(NAME)
    say(dropped=NAME not in [table.name for table in admin.findAllTables()])


def program(arguments: Arguments) -> None:
    admin, tables = admin_client(arguments), table_client(arguments)
    administration(admin, arguments)
    records(tables)
    conditions(tables)
    batches(tables)
    scans(tables)
    end(admin, tables)


run(program)
