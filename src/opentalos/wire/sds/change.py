"""A change as the message of a stream: one struct in the compact protocol.

Source: docs/protocol/sds.md#streams.
"""

import struct
from collections.abc import Collection
from typing import Any, Final

from opentalos.model.change import Change, ChangeKind, StreamView
from opentalos.model.datum import Columns
from opentalos.model.mutation import NOTHING
from opentalos.wire._generated.sds import KeysOnlyEntry, MutationLogEntry, RecordImage
from opentalos.wire.sds.datum import columns_from
from opentalos.wire.sds.datum_format import write_columns
from opentalos.wire.thrift.compact import (
    BINARY,
    FALSE,
    I32,
    I64,
    MAP,
    STOP,
    TRUE,
    field_head,
    read_struct,
    write_text,
    write_varint,
)
from opentalos.wire.thrift.error import ThriftError
from opentalos.wire.thrift.reader import CALL_VALUES_MAX, Cursor
from opentalos.wire.thrift.spec import ThriftStruct

# Heads of fields, each one after the field before it; see sds.thrift for the ids.
_RECORD: Final = field_head(1, MAP)
_KINDS: Final = {kind: field_head(1, I32) + bytes((kind << 1,)) for kind in ChangeKind}
_DELETED, _NOT_DELETED = field_head(1, TRUE), field_head(1, FALSE)
_TIMESTAMP: Final = field_head(1, I64)
_AMOUNTS: Final = field_head(1, MAP)
_NAME, _NAME_AFTER_GAP = field_head(1, BINARY), field_head(2, BINARY)

_STRUCTS: Final[dict[StreamView, type[ThriftStruct]]] = {
    StreamView.RECORD_IMAGE: RecordImage,
    StreamView.MUTATE_LOG: MutationLogEntry,
    StreamView.KEYS_ONLY: KeysOnlyEntry,
}


def encode_change(
    view: StreamView, table_name: str, change: Change, attributes: frozenset[str] | None
) -> bytes:
    """The bytes of a message. Written field by field, since every put on a table pays for it.

    Args: attributes: the columns beside the key that the stream has; None: all.
    """
    shown = _shown(view, change, attributes)
    out = bytearray(_RECORD)
    write_columns(out, {**change.key, **shown} if shown else change.key)
    if view is StreamView.MUTATE_LOG:
        out += _KINDS[change.kind]
    if view is not StreamView.KEYS_ONLY:
        out += _DELETED if change.row_deleted else _NOT_DELETED
    out += _TIMESTAMP
    write_varint(out, change.timestamp_ms << 1)  # zigzag; never negative
    if view is StreamView.MUTATE_LOG:
        if change.kind is ChangeKind.INCREMENT:
            out += _AMOUNTS
            write_columns(out, _chosen(change.amounts, attributes))
            out += _NAME
        else:
            out += _NAME_AFTER_GAP
    else:
        out += _NAME
    write_text(out, table_name)
    out += STOP
    return bytes(out)


def _shown(view: StreamView, change: Change, attributes: frozenset[str] | None) -> Columns:
    if view is StreamView.MUTATE_LOG:
        return _chosen(change.columns, attributes)
    return _chosen(change.image, attributes) if view is StreamView.RECORD_IMAGE else NOTHING


def _chosen(columns: Columns, attributes: frozenset[str] | None) -> Columns:
    if attributes is None:
        return columns
    return {name: datum for name, datum in columns.items() if name in attributes}


def decode_change(
    view: StreamView, payload: bytes, key_columns: Collection[str], sequence: int = 0
) -> tuple[str, Change]:
    """Decode a message: the table's name and the change.

    Args:    sequence: of the row's changes, which the message's own bytes do not have.
    Returns: the part of the change that the view has; its kind is PUT or DELETE if it has none.
    Raises:  ThriftError: not such a struct, or a key column or another needed part is missing.
             ValidationFailed: a value does not fit its type.
    """
    entry = _read(view, payload)
    columns = dict(columns_from(entry.record))
    missing = [name for name in key_columns if name not in columns]
    if missing or entry.timestamp is None or entry.tableName is None:
        lacking = missing or ["timestamp or tableName"]
        raise ThriftError(f"a {type(entry).__name__} lacks {', '.join(lacking)}")
    key = {name: columns.pop(name) for name in key_columns}
    deleted = bool(getattr(entry, "rowDeleted", False))
    change = Change(
        kind=_kind(view, entry, deleted),
        key=key,
        columns=columns if view is StreamView.MUTATE_LOG else {},
        amounts=columns_from(getattr(entry, "amounts", None)),
        image=columns if view is StreamView.RECORD_IMAGE else {},
        row_deleted=deleted,
        timestamp_ms=entry.timestamp,
        sequence=sequence,
    )
    return entry.tableName, change


def _read(view: StreamView, payload: bytes) -> Any:
    cursor = Cursor(payload, CALL_VALUES_MAX)
    spec = _STRUCTS[view].SPEC
    try:
        entry = read_struct(cursor, spec)
    except (IndexError, struct.error):
        raise ThriftError(f"a {spec.name} ends after {len(payload)} bytes") from None
    if cursor.position != len(payload):
        left = len(payload) - cursor.position
        raise ThriftError(f"{left} bytes follow the end of a {spec.name}")
    return entry


def _kind(view: StreamView, entry: Any, deleted: bool) -> ChangeKind:
    if view is not StreamView.MUTATE_LOG:
        return ChangeKind.DELETE if deleted else ChangeKind.PUT
    try:
        return ChangeKind(entry.type)
    except ValueError:
        raise ThriftError(f"a MutationLogEntry has no known type: {entry.type}") from None
