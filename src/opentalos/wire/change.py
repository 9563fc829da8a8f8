"""What a stream's message says of a change: one struct in the compact protocol.

Source: sds.md section 6.
"""

import struct
from collections.abc import Collection
from typing import Any, Final

from opentalos.model.change import Change, ChangeKind, StreamView
from opentalos.model.datum import Columns
from opentalos.wire._generated.sds import (
    KeysOnlyEntry,
    MutationLogEntry,
    MutationType,
    RecordImage,
)
from opentalos.wire.datum import columns_from, columns_to
from opentalos.wire.thrift.compact import read_struct, write_struct
from opentalos.wire.thrift.error import ThriftError
from opentalos.wire.thrift.reader import CALL_VALUES_MAX, Cursor
from opentalos.wire.thrift.spec import ThriftStruct

_STRUCTS: Final[dict[StreamView, type[ThriftStruct]]] = {
    StreamView.RECORD_IMAGE: RecordImage,
    StreamView.MUTATE_LOG: MutationLogEntry,
    StreamView.KEYS_ONLY: KeysOnlyEntry,
}


def encode_change(
    view: StreamView, table_name: str, change: Change, attributes: frozenset[str] | None
) -> bytes:
    """The bytes of a message.

    Args: attributes: the columns beside the key that the stream tells; None: all.
    """
    entry = _entry(view, table_name, change, attributes)
    out = bytearray()
    write_struct(out, entry.SPEC, entry)
    return bytes(out)


def _entry(
    view: StreamView, table_name: str, change: Change, attributes: frozenset[str] | None
) -> ThriftStruct:
    common: dict[str, Any] = {"timestamp": change.timestamp_ms, "tableName": table_name}
    match view:
        case StreamView.RECORD_IMAGE:
            record = columns_to({**change.key, **_chosen(change.image, attributes)})
            return RecordImage(record=record, rowDeleted=change.row_deleted, **common)
        case StreamView.MUTATE_LOG:
            amounts = None
            if change.kind is ChangeKind.INCREMENT:
                amounts = columns_to(_chosen(change.amounts, attributes))
            return MutationLogEntry(
                record=columns_to({**change.key, **_chosen(change.columns, attributes)}),
                type=MutationType(change.kind.value),
                rowDeleted=change.row_deleted,
                amounts=amounts,
                **common,
            )
        case StreamView.KEYS_ONLY:
            return KeysOnlyEntry(record=columns_to(change.key), **common)


def _chosen(columns: Columns, attributes: frozenset[str] | None) -> Columns:
    if attributes is None:
        return columns
    return {name: datum for name, datum in columns.items() if name in attributes}


def decode_change(
    view: StreamView, payload: bytes, key_columns: Collection[str], sequence: int = 0
) -> tuple[str, Change]:
    """The table's name and the change that a message tells.

    Args:    sequence: of the row's changes, which the message's own bytes do not have.
    Returns: a change with what its view tells; its kind is PUT or DELETE where that is not told.
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
