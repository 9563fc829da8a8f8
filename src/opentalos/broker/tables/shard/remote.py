"""RemoteShards: mutations, marks and changed tables between the servers of a cluster."""

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from opentalos.model import errors
from opentalos.model.datum import Columns, DataType, Datum
from opentalos.model.errors import (
    BadRequest,
    OutcomeUnknown,
    PartitionNotServing,
    TalosError,
)
from opentalos.model.mutation import NOTHING, Condition, ConditionOperator, Mutation, Operation
from opentalos.ports.peers import Peers
from opentalos.sds.cell_format import ABSENT
from opentalos.sds.mutation import Applied

MUTATIONS_CALL: Final = "table-mutations"
MARK_CALL: Final = "table-mark"
CHANGED_CALL: Final = "table-changed"
ASK_S: Final = 15.0  # for another server's answer; a group's write may take most of it

_BYTES_TYPES: Final = frozenset({DataType.BINARY, DataType.RAWBINARY})
Shown = Mapping[str, Any]
Outcome = Applied | TalosError


async def ask_mutations(
    peers: Peers, address: str, table: tuple[str, str, str], mutations: Sequence[Mutation]
) -> Sequence[Outcome]:
    """Outcomes of mutations that another server applies. Not done: Unavailable; unknown:
    OutcomeUnknown. Args: table: its uuid, owner and name."""
    arguments = {"table": list(table), "mutations": [show_mutation(one) for one in mutations]}
    answer = await _ask(peers, address, MUTATIONS_CALL, arguments)
    try:
        outcomes = [_read_outcome(one) for one in answer["outcomes"]]
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise OutcomeUnknown(f"server {address} sent an answer of no meaning") from error
    if len(outcomes) != len(mutations):
        raise OutcomeUnknown(f"server {address} sent {len(outcomes)} of {len(mutations)} outcomes")
    return outcomes


async def ask_mark(
    peers: Peers, address: str, table: tuple[str, str, str], number: int, stream: int
) -> int:
    """The mark of another server's shard. Raises: Unavailable."""
    arguments = {"table": list(table), "slice": number, "stream": stream}
    try:
        answer = await _ask(peers, address, MARK_CALL, arguments)
        return int(answer["mark_ms"])
    except (OutcomeUnknown, KeyError, TypeError, ValueError) as error:
        raise PartitionNotServing(f"server {address} did not tell: {error}") from error


async def ask_changed(peers: Peers, address: str, table: tuple[str, str, str]) -> None:
    """Return when another server works by the table's newest record. Raises: Unavailable."""
    try:
        await _ask(peers, address, CHANGED_CALL, {"table": list(table)})
    except OutcomeUnknown as error:
        raise PartitionNotServing(f"server {address} did not tell: {error}") from error


async def _ask(peers: Peers, address: str, call: str, arguments: Shown) -> Shown:
    try:
        async with asyncio.timeout(ASK_S):
            return await peers.ask(address, call, arguments)
    except TimeoutError as error:
        raise OutcomeUnknown(f"server {address}: no answer within {ASK_S:.0f} s") from error


def answering(
    apply: Callable[[tuple[str, str, str], Sequence[Mutation]], Awaitable[Sequence[Outcome]]],
    mark: Callable[[tuple[str, str, str], int, int], Awaitable[int]],
    changed: Callable[[tuple[str, str, str]], Awaitable[None]],
) -> Mapping[str, Callable[[Shown], Awaitable[Shown]]]:
    """Handlers by call, for what another server asks."""

    async def answer_mutations(arguments: Shown) -> Shown:
        try:
            mutations = [read_mutation(one) for one in arguments["mutations"]]
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise BadRequest(f"need mutations: {error!r}") from error
        outcomes = await apply(_table(arguments), mutations)
        return {"outcomes": [_show_outcome(one) for one in outcomes]}

    async def answer_mark(arguments: Shown) -> Shown:
        try:
            number, stream = int(arguments["slice"]), int(arguments["stream"])
        except (KeyError, TypeError, ValueError) as error:
            raise BadRequest(f"need shard and stream: {error!r}") from error
        return {"mark_ms": await mark(_table(arguments), number, stream)}

    async def answer_changed(arguments: Shown) -> Shown:
        await changed(_table(arguments))
        return {}

    return {
        MUTATIONS_CALL: answer_mutations,
        MARK_CALL: answer_mark,
        CHANGED_CALL: answer_changed,
    }


def _table(arguments: Shown) -> tuple[str, str, str]:
    try:
        uuid, owner, name = map(str, arguments["table"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadRequest(f"need a table's uuid, owner and name: {error!r}") from error
    return uuid, owner, name


# --- values as JSON carries them --------------------------------------------------------------


def show_mutation(mutation: Mutation) -> Shown:
    """A mutation as JSON."""
    shown: dict[str, Any] = {
        "operation": mutation.operation.value,
        "key": _show_columns(mutation.key),
        "columns": _show_columns(mutation.columns),
        "attributes": list(mutation.attributes),
    }
    condition = mutation.condition
    if condition is not None:
        shown["condition"] = {
            "operator": None if condition.operator is None else int(condition.operator),
            "field": condition.field,
            "value": None if condition.value is None else _show_datum(condition.value),
            "row_exists": condition.row_exists,
        }
    return shown


def read_mutation(shown: Shown) -> Mutation:
    """Inverse of ``show_mutation``. Raises: KeyError, TypeError, ValueError, binascii.Error."""
    condition = None
    told = shown.get("condition")
    if told is not None:
        operator, value = told["operator"], told["value"]
        condition = Condition(
            None if operator is None else ConditionOperator(operator),
            str(told["field"]),
            None if value is None else _read_datum(value),
            told["row_exists"],
        )
    return Mutation(
        Operation(shown["operation"]),
        _read_columns(shown["key"]),
        _read_columns(shown["columns"]),
        tuple(map(str, shown["attributes"])),
        condition,
    )


def _show_columns(columns: Columns) -> Shown:
    return {name: _show_datum(datum) for name, datum in columns.items()}


def _read_columns(shown: Shown) -> Columns:
    return {name: _read_datum(datum) for name, datum in shown.items()}


def _show_datum(datum: Datum) -> list[Any]:
    type_, value = datum
    if isinstance(value, bytes):
        return [int(type_), base64.b64encode(value).decode()]
    if isinstance(value, tuple):
        return [int(type_), [_show_element(element) for element in value]]
    return [int(type_), value]


def _show_element(element: Any) -> Any:
    return base64.b64encode(element).decode() if isinstance(element, bytes) else element


def _read_datum(shown: Sequence[Any]) -> Datum:
    number, value = shown
    type_ = DataType(number)
    if value is None:
        return Datum(type_, None)
    if type_ in _BYTES_TYPES:
        return Datum(type_, base64.b64decode(value, validate=True))
    if type_ is DataType.BINARY_SET:
        return Datum(type_, tuple(base64.b64decode(one, validate=True) for one in value))
    return Datum(type_, tuple(value) if isinstance(value, list) else value)


def _show_outcome(outcome: Outcome) -> Shown:
    if isinstance(outcome, TalosError):
        return {"error": type(outcome).__name__, "text": str(outcome)}
    return {"success": outcome.success, "amounts": _show_columns(outcome.amounts)}


def _read_outcome(shown: Shown) -> Outcome:
    if "error" in shown:
        kind = getattr(errors, str(shown["error"]), OutcomeUnknown)
        known = isinstance(kind, type) and issubclass(kind, TalosError)
        return (kind if known else OutcomeUnknown)(str(shown["text"]))
    amounts = shown["amounts"]
    return Applied(
        bool(shown["success"]), _read_columns(amounts) if amounts else NOTHING, {}, ABSENT, None
    )
