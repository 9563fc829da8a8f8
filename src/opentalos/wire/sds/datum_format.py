"""Columns in the compact protocol, written without a struct in between.

The bytes are those of ``map<string, Datum>``; heads and writers come from the definitions.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from opentalos.model.datum import Columns, DataType
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import branch_of
from opentalos.wire.thrift.compact import (
    BINARY,
    CODE,
    FALSE,
    STRUCT,
    TRUE,
    field_head,
    varint,
    write_text,
    write_varint,
    writer_of,
)
from opentalos.wire.thrift.spec import Field

_ENTRY_TYPES: Final = BINARY << 4 | STRUCT  # of the map's keys and values
_END: Final = b"\0\0"  # of the union and of the Datum
_FIELDS: Final = {field.name: field for field in sds.Value.SPEC.fields}


class _Plan(NamedTuple):
    """How a type is written: what comes before its value, the value's writer, a whole null."""

    before: bytes
    write: Callable[[bytearray, Any], None]
    null: bytes


def _before(type_: DataType, field: Field, code: int) -> bytes:
    """Everything of a Datum up to its value."""
    kind = field_head(1, CODE[sds.Datum.SPEC.fields[0].type.ttype]) + varint(type_ << 1)
    return kind + field_head(2, STRUCT, 1) + field_head(field.id, code)


def _plan(type_: DataType) -> _Plan:
    field = _FIELDS[branch_of(type_)]
    before = _before(type_, field, CODE[field.type.ttype])
    null = _before(type_, _FIELDS["nullValue"], TRUE) + _END
    return _Plan(before, writer_of(field.type), null)


_PLANS: Final = {type_: _plan(type_) for type_ in DataType}
# A bool is in its field's head.
_BOOLS: Final = {
    value: _before(DataType.BOOL, _FIELDS["boolValue"], code) + _END
    for value, code in ((True, TRUE), (False, FALSE))
}


def write_columns(out: bytearray, columns: Columns) -> None:
    """Write the columns as a map.

    Raises: ThriftError: a number is out of its type's range.
    """
    write_varint(out, len(columns))
    if columns:
        out.append(_ENTRY_TYPES)
    for name, (type_, value) in columns.items():
        write_text(out, name)
        before, write, null = _PLANS[type_]
        if value is None:
            out += null
        elif type_ is DataType.BOOL:
            out += _BOOLS[bool(value)]
        else:
            out += before
            write(out, value)
            out += _END
