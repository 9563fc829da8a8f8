"""REST of rows of structured tables: get, put, increment, remove, scan, batch."""

from collections.abc import Mapping
from typing import Any

from opentalos.broker.tables.api.values import (
    BatchItem,
    BatchOutcome,
    Got,
    ReadItem,
    ScanAction,
    ScanActionKind,
    ScanQuery,
    Table,
    WriteItem,
    Written,
)
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import (
    Schema,
    boolean,
    either,
    fields,
    integer,
    items,
    nullable,
    one_of,
    text,
)
from opentalos.gateway.rest.table.row_format import (
    CONDITION,
    NAMES,
    PREFIX,
    ROW,
    SHOWN,
    columns_of,
    condition_of,
    shown,
)
from opentalos.gateway.rest.table.tables import name_of, table_of
from opentalos.model.errors import OutcomeUnknown, TalosError, ValidationFailed
from opentalos.model.mutation import NOTHING, Mutation, Operation
from opentalos.model.table import TableSchema

WRITE_S = 20.0  # for a write to be durable
ITEMS_MAX = 1_000  # of a batch
LIMIT_MAX = 10_000  # of a scan; a page may be shorter, see SdsLimits
LIMIT_DEFAULT = 100

_KEY = {**ROW, "description": "Values of all columns of group and key."}
_CONDITION = {"condition": CONDITION}
_GET = fields(key=_KEY, optional={"columns": NAMES})
_PUT = fields(row=ROW, optional=_CONDITION)
_INCREMENT = fields(
    key=_KEY, amounts={**ROW, "description": "The amount to add, by column."}, optional=_CONDITION
)
_REMOVE = fields(key=_KEY, optional={"columns": NAMES, **_CONDITION})
_APPLIED = boolean("False: the condition was not met.")
_WRITTEN = fields(applied=_APPLIED)
_INCREMENTED = fields(applied=_APPLIED, values={**SHOWN, "description": "The new values."})
_FOUND = fields(row=nullable(SHOWN))
_FAILED = fields(
    error=fields(
        title=text(about="Name of the error."),
        detail=text(),
        outcome=one_of("not done", "unknown"),
        retry_safe=boolean(),
    )
)
_BATCH: Schema = items(
    either(
        fields(get=_GET), fields(put=_PUT), fields(increment=_INCREMENT), fields(remove=_REMOVE)
    ),
    minimum=1,
    maximum=ITEMS_MAX,
)


async def get_row(call: Call) -> Answer:
    """A row by its key."""
    table, sent = await table_of(call), call.document
    key, columns = columns_of(table.schema, sent["key"]), tuple(sent.get("columns", ()))
    found = await call.broker.tables.get(call.caller, name_of(table), key, columns)
    return Answer({"row": None if found is None else shown(found)})


async def put_row(call: Call) -> Answer:
    """Set columns of a row; create the row if it does not exist."""
    return await _write(call, Operation.PUT)


async def increment_row(call: Call) -> Answer:
    """Add to integers of a row."""
    return await _write(call, Operation.INCREMENT)


async def remove_row(call: Call) -> Answer:
    """Remove a row, or some of its columns."""
    return await _write(call, Operation.REMOVE)


async def scan_rows(call: Call) -> Answer:
    """One page of rows in key order."""
    table, sent = await table_of(call), call.document
    schema = table.schema
    query = ScanQuery(
        table=name_of(table),
        index=sent.get("index", ""),
        start=columns_of(schema, sent.get("start", {})),
        stop=columns_of(schema, sent.get("stop", {})),
        attributes=tuple(sent.get("columns", ())),
        condition=sent.get("filter", ""),
        limit=sent.get("limit", LIMIT_DEFAULT),
        reverse=sent.get("reverse", False),
        action=ScanAction(ScanActionKind.COUNT) if sent.get("count", False) else None,
    )
    page = await call.broker.tables.scan(call.caller, query)
    document: dict[str, Any] = {
        "rows": await call.broker.work.each(call.caller.id, page.records, shown, weight=len),
        "next": shown(page.next_key) if page.next_key else None,
        "throttled": page.throttled,
    }
    if page.count is not None:
        document["count"] = page.count
    return Answer(document)


async def batch_rows(call: Call) -> Answer:
    """Independent reads and writes."""
    call.exchange.extend(WRITE_S)
    table, sent = await table_of(call), call.document
    wanted = await call.broker.work.each(
        call.caller.id,
        list(enumerate(sent["items"])),
        lambda item: _item(table, *item),
        weight=lambda item: 2 + sum(map(len, next(iter(item[1].values())).values())),
    )
    found = await call.broker.tables.batch(call.caller, wanted, partial=sent.get("partial", False))
    outcomes = await call.broker.work.each(
        call.caller.id,
        list(zip(wanted, found, strict=True)),
        lambda pair: _outcome(*pair),
        weight=lambda pair: len(pair[1].columns or ()) if isinstance(pair[1], Got) else 1,
    )
    return Answer({"items": outcomes})


async def _write(call: Call, operation: Operation) -> Answer:
    call.exchange.extend(WRITE_S)
    table = await table_of(call)
    mutation = _mutation(table.schema, operation, call.document)
    written = await call.broker.tables.write(call.caller, name_of(table), mutation)
    return Answer(_written(operation, written))


def _mutation(schema: TableSchema, operation: Operation, sent: Mapping[str, Any]) -> Mutation:
    condition = condition_of(schema, sent.get("condition"))
    if operation is Operation.PUT:
        row = columns_of(schema, sent["row"])
        key = {name: row.pop(name) for name in schema.key_columns if name in row}
        return Mutation(operation, key, row, condition=condition)
    key = columns_of(schema, sent["key"])
    columns = columns_of(schema, sent.get("amounts", NOTHING))
    removed = tuple(sent.get("columns", ()))
    return Mutation(operation, key, columns, removed, condition)


def _item(table: Table, number: int, sent: Mapping[str, Any]) -> BatchItem:
    ((kind, call),) = sent.items()
    name, schema = name_of(table), table.schema
    try:
        if kind == "get":
            return ReadItem(name, columns_of(schema, call["key"]), tuple(call.get("columns", ())))
        return WriteItem(name, _mutation(schema, Operation(kind), call))
    except ValidationFailed as error:
        raise ValidationFailed(f"items[{number}]: {error}; no item was applied") from None


def _outcome(item: BatchItem, found: BatchOutcome) -> dict[str, Any]:
    match found, item:
        case TalosError(), _:
            unknown = isinstance(found, OutcomeUnknown)
            problem = {
                "title": type(found).__name__,
                "detail": str(found),
                "outcome": "unknown" if unknown else "not done",
                "retry_safe": found.retry_safe,
            }
            return {"error": problem}
        case Got(), _:
            return {"row": None if found.columns is None else shown(found.columns)}
        case Written(), WriteItem():
            return _written(item.mutation.operation, found)
    raise AssertionError(f"{found!r} is not an outcome of {item!r}")


def _written(operation: Operation, written: Written) -> dict[str, Any]:
    document: dict[str, Any] = {"applied": written.success}
    if operation is Operation.INCREMENT:
        document["values"] = shown(written.amounts)
    return document


_TAG = "rows"
_PATH = "tables/{table}/rows/"
_STATUSES = (409, 422)
ROUTES = (
    Route(
        method="POST", path=_PATH + "get", handler=get_row, tag=_TAG, statuses=_STATUSES,
        summary="Get the row with a key; null if it does not exist.", body=Body(_GET),
        reply=_FOUND,
    ),
    Route(
        method="POST", path=_PATH + "put", handler=put_row, tag=_TAG, statuses=_STATUSES,
        summary="Write columns of a row; other columns keep their values.",
        notes="The row includes its key columns. The reply means that the row is durable.",
        body=Body(_PUT), reply=_WRITTEN,
    ),
    Route(
        method="POST", path=_PATH + "increment", handler=increment_row, tag=_TAG,
        statuses=_STATUSES, summary="Add to integers of a row.", body=Body(_INCREMENT),
        reply=_INCREMENTED,
    ),
    Route(
        method="POST", path=_PATH + "remove", handler=remove_row, tag=_TAG, statuses=_STATUSES,
        summary="Remove a row, or only the named columns.", body=Body(_REMOVE),
        reply=_WRITTEN,
    ),
    Route(
        method="POST", path=_PATH + "scan", handler=scan_rows, tag=_TAG, statuses=_STATUSES,
        summary="Scan rows from start (inclusive) to stop (exclusive) in key or index order.",
        notes=(
            "start and stop may be prefixes of a key. With reverse, start is the greater one. If "
            "next is not null, continue with a scan that has it as start; a page may be shorter "
            "than limit, or empty. Example of a filter: age > 30 AND city = 'Rome'."
        ),
        body=Body(
            fields(
                optional={
                    "start": PREFIX,
                    "stop": PREFIX,
                    "reverse": boolean(),
                    "limit": integer(1, LIMIT_MAX),
                    "filter": text(chars_max=8_192),
                    "index": text(chars_min=1, chars_max=256),
                    "columns": NAMES,
                    "count": boolean("Return the number of rows instead of the rows."),
                }
            ),
            optional=True,
        ),
        reply=fields(
            rows=items(SHOWN),
            next=nullable(SHOWN),
            throttled=boolean("The page is short because of the table's rate; continue later."),
            optional={"count": integer(about="Rows of this page.")},
        ),
    ),
    Route(
        method="POST", path=_PATH + "batch", handler=batch_rows, tag=_TAG, statuses=_STATUSES,
        summary="Do several independent reads and writes; one result for each, in order.",
        notes=(
            "If an item's values do not fit the columns' types, the whole request is rejected and "
            "nothing is applied. Any other failure concerns its item only. With partial, items "
            "over the table's rate fail individually; without it, the whole batch fails."
        ),
        body=Body(fields(items=_BATCH, optional={"partial": boolean()})),
        reply=fields(items=items(either(_FOUND, _WRITTEN, _INCREMENTED, _FAILED))),
    ),
)  # fmt: skip
