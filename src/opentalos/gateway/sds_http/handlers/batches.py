"""TableService: many records at once, each item by itself."""

from collections.abc import Sequence
from typing import Final

from opentalos.broker.tables.api.service import PIECE_ITEMS
from opentalos.broker.tables.api.values import (
    BatchItem,
    BatchOutcome,
    Got,
    ReadItem,
    WriteItem,
    Written,
)
from opentalos.gateway.http.request_scope import current_request_id
from opentalos.gateway.sds_http.errors import exception_of
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
from opentalos.model.errors import TalosError, ValidationFailed
from opentalos.model.identity import Principal
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import columns_to

_NO_REQUEST: Final = "of each item the request that its action names"
_CHECKED: Final = (sds.BatchOp.PUT, sds.BatchOp.REMOVE)


async def batch(services: Services, caller: Principal, arguments: Arguments) -> sds.BatchResult:
    """Items in order; one over the table's rate refuses the whole batch."""
    items = _items(arguments)
    return await _batch(services, caller, items, partial=False)


async def partial_allowed_batch(
    services: Services, caller: Principal, arguments: Arguments
) -> sds.BatchResult:
    """As many items as the table's rate allows; the others say that they were not done.

    Clients repeat these until all are done, so an item that can never be done fails the call.
    """
    items = _items(arguments)
    return await _batch(services, caller, items, partial=True)


async def batch_check_and_mutate(
    services: Services, caller: Principal, arguments: Arguments
) -> sds.BatchResult:
    """Writes with conditions, each by itself."""
    items = _items(arguments)
    if any(item.action not in _CHECKED for item in items):
        raise ValidationFailed("batchCheckAndMutate takes puts and removes alone")
    return await _batch(services, caller, items, partial=False)


def _items(arguments: Arguments) -> Sequence[sds.BatchRequestItem]:
    request: sds.BatchRequest = needed(arguments[0], REQUEST)
    return request.items or ()


async def _batch(
    services: Services, caller: Principal, items: Sequence[sds.BatchRequestItem], *, partial: bool
) -> sds.BatchResult:
    outcomes = await _outcomes(services, caller, items, partial=partial)
    request_id = current_request_id()
    results = await services.work.each(
        caller.id,
        list(zip(items, outcomes, strict=True)),
        lambda pair: _result(*pair, request_id),
        weight=lambda pair: _columns(pair[1]),
    )
    return sds.BatchResult(items=results)


async def real_remove(
    services: Services, caller: Principal, arguments: Arguments
) -> list[sds.RemoveResult]:
    """Removes in order: every remove is a real one here, as removed records are not kept.

    Raises: the first error; others of them may be done.
    """
    requests: Sequence[sds.RemoveRequest] = needed(arguments[0], REQUEST)
    items = [
        sds.BatchRequestItem(action=sds.BatchOp.REMOVE, request=sds.Request(removeRequest=request))
        for request in requests
    ]
    results = []
    for outcome in await _outcomes(services, caller, items, partial=False):
        if isinstance(outcome, TalosError):
            raise outcome
        assert isinstance(outcome, Written)  # of a remove
        results.append(sds.RemoveResult(success=outcome.success))
    return results


async def _outcomes(
    services: Services, caller: Principal, items: Sequence[sds.BatchRequestItem], *, partial: bool
) -> list[BatchOutcome]:
    services.tables.check_batch(len(items))
    wanted: list[BatchItem] = []
    places: list[int] = []
    outcomes: dict[int, BatchOutcome] = {}
    for place, item in enumerate(items):
        try:
            wanted.append(await _item(services, caller, item))
        except TalosError as error:  # this item is wrong; the others are not
            if partial:
                raise
            outcomes[place] = error
        else:
            places.append(place)
        if place % PIECE_ITEMS == PIECE_ITEMS - 1:
            await services.work.pause()  # without a turn: an item may wait for another server
    if partial:
        await services.tables.check_items(caller, wanted)
    done = await services.tables.batch(caller, wanted, partial=partial)
    outcomes.update(zip(places, done, strict=True))
    return [outcomes[place] for place in range(len(items))]


async def _item(services: Services, caller: Principal, item: sds.BatchRequestItem) -> BatchItem:
    request = item.request or sds.Request()
    match item.action:
        case sds.BatchOp.GET:
            get = needed(request.getRequest, _NO_REQUEST)
            key = await key_from(services, caller, get)
            return ReadItem(needed(get.tableName, TABLE), key, tuple(get.attributes or ()))
        case sds.BatchOp.PUT:
            put = needed(request.putRequest, _NO_REQUEST)
            mutation = await put_from(services, caller, put)
            return WriteItem(needed(put.tableName, TABLE), mutation)
        case sds.BatchOp.INCREMENT:
            increment = needed(request.incrementRequest, _NO_REQUEST)
            mutation = await increment_from(services, caller, increment)
            return WriteItem(needed(increment.tableName, TABLE), mutation)
        case sds.BatchOp.REMOVE:
            remove = needed(request.removeRequest, _NO_REQUEST)
            mutation = await remove_from(services, caller, remove)
            return WriteItem(needed(remove.tableName, TABLE), mutation)
    raise ValidationFailed(f"unknown action {item.action} of a batch item")


def _result(
    item: sds.BatchRequestItem, outcome: BatchOutcome, request_id: str
) -> sds.BatchResultItem:
    if isinstance(outcome, TalosError):
        error = exception_of(outcome, request_id)
        return sds.BatchResultItem(action=item.action, success=False, serviceException=error)
    return sds.BatchResultItem(action=item.action, success=True, result=_done(item, outcome))


def _columns(outcome: BatchOutcome) -> int:
    """How many columns an outcome has."""
    return len(outcome.columns or ()) if isinstance(outcome, Got) else 1


def _done(item: sds.BatchRequestItem, outcome: Got | Written) -> sds.Result:
    if isinstance(outcome, Got):
        columns = outcome.columns
        found = sds.GetResult(item=None if columns is None else columns_to(columns))
        return sds.Result(getResult=found)
    if item.action == sds.BatchOp.INCREMENT:
        amounts = columns_to(outcome.amounts)
        return sds.Result(incrementResult=sds.IncrementResult(amounts=amounts))
    if item.action == sds.BatchOp.REMOVE:
        return sds.Result(removeResult=sds.RemoveResult(success=outcome.success))
    return sds.Result(putResult=sds.PutResult(success=outcome.success))


HANDLERS: Final[dict[str, Handler]] = {
    "batch": batch,
    "partialAllowedBatch": partial_allowed_batch,
    "batchCheckAndMutate": batch_check_and_mutate,
    "realRemove": real_remove,
}
