"""TableService: records of tables."""

from collections.abc import Sequence
from typing import Any, Final

from opentalos.broker.tables.api.values import (
    RowVersion,
    ScanAction,
    ScanActionKind,
    ScanPage,
    ScanQuery,
)
from opentalos.gateway.sds_http.handlers.context import Handler, Services
from opentalos.gateway.sds_http.handlers.values import (
    REQUEST,
    TABLE,
    Arguments,
    increment_from,
    key_from,
    needed,
    put_from,
    remove_from,
)
from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import ThrottleRejected, ValidationFailed
from opentalos.model.identity import Principal
from opentalos.model.mutation import Operation
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import columns_from, columns_to

COUNT: Final = "count"  # the column of what a scan with an action counted; sds.thrift SCAN_COUNT


async def get(services: Services, caller: Principal, arguments: Arguments) -> sds.GetResult:
    """A record, or nothing."""
    request = needed(arguments[0], REQUEST)
    key = await key_from(services, caller, request)
    found = await services.tables.get(caller, request.tableName, key, request.attributes or ())
    return sds.GetResult(item=None if found is None else columns_to(found))


async def put(services: Services, caller: Principal, arguments: Arguments) -> sds.PutResult:
    """Put columns of a record, which is created if it does not exist."""
    request = needed(arguments[0], REQUEST)
    mutation = await put_from(services, caller, request)
    written = await services.tables.write(caller, request.tableName, mutation)
    return sds.PutResult(success=written.success)


async def increment(
    services: Services, caller: Principal, arguments: Arguments
) -> sds.IncrementResult:
    """Increment integer columns; return the new amounts."""
    request = needed(arguments[0], REQUEST)
    mutation = await increment_from(services, caller, request)
    written = await services.tables.write(caller, request.tableName, mutation)
    return sds.IncrementResult(amounts=columns_to(written.amounts))


async def remove(services: Services, caller: Principal, arguments: Arguments) -> sds.RemoveResult:
    """Remove a record, or some of its columns."""
    request = needed(arguments[0], REQUEST)
    mutation = await remove_from(services, caller, request)
    written = await services.tables.write(caller, request.tableName, mutation)
    return sds.RemoveResult(success=written.success)


async def scan(services: Services, caller: Principal, arguments: Arguments) -> sds.ScanResult:
    """One page of records, or the effect of the scan's action."""
    request: sds.ScanRequest = needed(arguments[0], REQUEST)
    query = ScanQuery(
        table=needed(request.tableName, TABLE),
        index=request.indexName or "",
        start=columns_from(request.startKey),
        stop=columns_from(request.stopKey),
        attributes=tuple(request.attributes or ()),
        condition=request.condition or "",
        limit=request.limit,
        reverse=request.reverse,
        action=None if request.action is None else _action(request.action),
        versions=request.withVersions is True,
    )
    page = await _page(services, caller, query)
    records = await services.work.each(caller.id, page.records, columns_to, weight=len)
    if page.count is not None:
        # INT32, to which the Java example casts it; a page reads far fewer rows.
        records = [columns_to({COUNT: Datum(DataType.INT32, page.count)})]
    return sds.ScanResult(
        nextStartKey=columns_to(page.next_key) if page.next_key else None,
        records=records,
        throttled=page.throttled,
        **(_versions(page.versions) if query.versions else {}),
    )


async def _page(services: Services, caller: Principal, query: ScanQuery) -> ScanPage:
    """A page; an empty one if a later page of a scan is over the table's rate.

    Clients' scanners continue after a page that was cut short, but stop at an error. The first page
    has no start key that it could return, and no key means the end of the scan.
    """
    try:
        return await services.tables.scan(caller, query)
    except ThrottleRejected:
        if not query.start or query.action is not None:
            raise
        return ScanPage(next_key=query.start, throttled=True)


def _versions(found: Sequence[RowVersion]) -> dict[str, Any]:
    return {
        "timestamps": [version.timestamp_ms for version in found],
        "sequences": [version.sequence for version in found],
        "removed": [version.removed for version in found],
    }


def _action(struct: sds.ScanAction) -> ScanAction:
    """The action on each match; the keys come from the scan, not from the request."""
    try:
        kind = ScanActionKind(needed(struct.action, "the kind of its action"))
    except ValueError:
        raise ValidationFailed(f"unknown scan action {struct.action}") from None
    request = struct.request or sds.Request()
    if kind is ScanActionKind.COUNT:
        return ScanAction(kind)
    if kind is ScanActionKind.DELETE:
        remove_request = request.removeRequest or sds.RemoveRequest()
        return ScanAction(kind, tuple(remove_request.attributes or ()))
    if request.incrementRequest is not None:
        amounts = columns_from(request.incrementRequest.amounts)
        return ScanAction(kind, columns=amounts, operation=Operation.INCREMENT)
    update = needed(request.putRequest, "the columns that its action writes")
    return ScanAction(kind, columns=columns_from(update.record))


HANDLERS: Final[dict[str, Handler]] = {
    "get": get,
    "put": put,
    "increment": increment,
    "remove": remove,
    "scan": scan,
    "scanAll": scan,  # also of removed records, which are not kept
}
