"""Decodes JSON values of fetched tables, by the schema fingerprint that producers set."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa

from opentalos.model.errors import BadRequest
from opentalos.sdk.arrow.fingerprints import parts_by_fingerprint

__all__ = ["decode_json"]

_POSITION: Final = ("partition", "offset")  # kept, as the identity of a record


def decode_json(table: Any, schemas: Mapping[str | None, Any]) -> dict[str | None, Any]:
    """The records of each schema fingerprint, with the fields of their JSON values as columns.

    Each ``pyarrow.Table`` has ``partition`` and ``offset``, then the fields of its schema, in the
    order of the records. A field that a value lacks is null; one that the schema lacks is left out.

    Args:   table: with ``partition``, ``offset``, ``data`` and ``schema_fingerprint``; schemas: a
            ``pyarrow.Schema`` by fingerprint; None is for records without one.
    Raises: BadRequest: a fingerprint has no schema; or a value is not a JSON object or does not fit
            its schema, which names the record.
    """
    return {
        name: _decoded(part, schemas[name]) for name, part in parts_by_fingerprint(table, schemas)
    }


def _decoded(part: Any, schema: Any) -> Any:
    taken = sorted(set(schema.names) & set(_POSITION))
    if taken:
        raise BadRequest(f"a schema has the field {taken[0]}, which is a column of every record")
    rows = [_value(part, number) for number in range(part.num_rows)]
    try:
        decoded = pa.Table.from_pylist(rows, schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise _misfit(part, rows, schema) from error
    for number, name in enumerate(_POSITION):
        decoded = decoded.add_column(number, name, part[name])
    return decoded


def _value(part: Any, number: int) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(part["data"][number].as_py())
    except msgspec.DecodeError as error:
        raise BadRequest(f"{_record(part, number)} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadRequest(f"{_record(part, number)} is JSON, but not an object")
    return value


def _misfit(part: Any, rows: list[dict[str, Any]], schema: Any) -> BadRequest:
    """The error for the first value that does not fit."""
    for number, row in enumerate(rows):
        try:
            pa.Table.from_pylist([row], schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            return BadRequest(f"{_record(part, number)} does not fit its schema: {error}")
    return BadRequest("the values do not fit their schema together: read fewer at a time")


def _record(part: Any, number: int) -> str:
    return f"the value at [{part['partition'][number]}] offset {part['offset'][number]}"
