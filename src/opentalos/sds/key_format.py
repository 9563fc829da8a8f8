"""Row keys of structured tables: bytes in the order of the key's values. Sans-io.

Shape: hashed tables begin with [bucket u16be]: the lower half of the CRC-32 of the group's columns
    as they stand in the key. Then the columns of the key, one after another:
    BOOL [0 or 1], INT8 to INT64 [big endian, sign bit turned], FLOAT and DOUBLE [IEEE double,
    big endian; sign bit turned, of negative ones all bits], STRING (UTF-8) and BINARY
    [bytes, 00 as 00 FF][00 00]. A descending column has all its bits turned.
    No null, no NaN; -0.0 is 0.0. This format never changes: rows of another one would be lost.
"""

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from opentalos.model.datum import Columns, DataType, Datum, Scalar
from opentalos.model.errors import CorruptLog, ValidationFailed
from opentalos.model.table import TableSchema
from opentalos.sds.layout import KeyColumn, layout_of
from opentalos.sds.value_rules import INTEGER_BITS, datum_fault

BUCKETS: Final = 1 << 16  # values of the hash that hashed keys begin with
BUCKET_BYTES: Final = 2
_TURNED: Final = bytes(255 - byte for byte in range(256))
_DOUBLE: Final = struct.Struct(">d")
_DOUBLE_BYTES: Final = 8
_SIGN: Final = 1 << 63
_ALL: Final = (1 << 64) - 1
_NEGATIVE_ZERO: Final = (_SIGN - 1).to_bytes(_DOUBLE_BYTES)
_END: Final = b"\x00\x00"
_END_TURNED: Final = b"\xff\xff"


def _bool_bytes(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def _integer_bytes(bits: int) -> Callable[[int], bytes]:
    top, size = 1 << (bits - 1), bits // 8
    return lambda value: (value + top).to_bytes(size)


def _float_bytes(value: float) -> bytes:
    pattern = int.from_bytes(_DOUBLE.pack(value + 0.0))  # -0.0 + 0.0 is 0.0
    return (pattern ^ (_ALL if pattern & _SIGN else _SIGN)).to_bytes(_DOUBLE_BYTES)


def _binary_bytes(value: bytes) -> bytes:
    return value.replace(b"\x00", b"\x00\xff") + _END


def _string_bytes(value: str) -> bytes:
    return _binary_bytes(value.encode())


_BYTES_OF: Final[Mapping[DataType, Callable[[Any], bytes]]] = {
    DataType.BOOL: _bool_bytes,
    **{type_: _integer_bytes(bits) for type_, bits in INTEGER_BITS.items()},
    DataType.FLOAT: _float_bytes,
    DataType.DOUBLE: _float_bytes,
    DataType.STRING: _string_bytes,
    DataType.BINARY: _binary_bytes,
}


def _bool_of(raw: bytes) -> bool:
    if raw[0] > 1:
        raise ValueError("a truth value is neither 0 nor 1")
    return raw[0] == 1


def _integer_of(bits: int) -> Callable[[bytes], int]:
    top = 1 << (bits - 1)
    return lambda raw: int.from_bytes(raw) - top


def _float_of(raw: bytes) -> float:
    pattern = int.from_bytes(raw)
    pattern ^= _SIGN if pattern & _SIGN else _ALL
    value: float = _DOUBLE.unpack(pattern.to_bytes(_DOUBLE_BYTES))[0]
    if value != value or raw == _NEGATIVE_ZERO:
        raise ValueError("a number is NaN or -0.0")
    return value


def _binary_of(raw: bytes) -> bytes:
    if raw.count(b"\x00") != raw.count(b"\x00\xff"):
        raise ValueError("a zero byte stands alone")
    return raw.replace(b"\x00\xff", b"\x00")


def _string_of(raw: bytes) -> str:
    return _binary_of(raw).decode()


_VALUE_OF: Final[Mapping[DataType, Callable[[bytes], Scalar]]] = {
    DataType.BOOL: _bool_of,
    **{type_: _integer_of(bits) for type_, bits in INTEGER_BITS.items()},
    DataType.FLOAT: _float_of,
    DataType.DOUBLE: _float_of,
    DataType.STRING: _string_of,
    DataType.BINARY: _binary_of,
}
_FIXED_BYTES: Final[Mapping[DataType, int]] = {
    DataType.BOOL: 1,
    **{type_: bits // 8 for type_, bits in INTEGER_BITS.items()},
    DataType.FLOAT: _DOUBLE_BYTES,
    DataType.DOUBLE: _DOUBLE_BYTES,
}


def encode_column(column: KeyColumn, datum: Datum) -> bytes:
    """One column of a key. Raises: ValidationFailed for a wrong type or value."""
    fault = datum_fault(column.type, datum)
    if fault:
        raise ValidationFailed(f"key column {column.name} {fault}")
    raw = _BYTES_OF[column.type](datum.value)
    return raw if column.ascending else raw.translate(_TURNED)


def encode_key(columns: Sequence[KeyColumn], group: int, values: Columns) -> bytes:
    """The key of ``columns``, hashed over the first ``group`` of them (0: not hashed).

    Raises: ValidationFailed for a column that is missing.
    """
    parts = []
    for column in columns:
        datum = values.get(column.name)
        if datum is None:
            raise ValidationFailed(f"key column {column.name} is missing")
        parts.append(encode_column(column, datum))
    raw = b"".join(parts)
    return hash_of(b"".join(parts[:group])) + raw if group else raw


def hash_of(group: bytes) -> bytes:
    """Bucket of an entity group, from the bytes of its columns."""
    return (zlib.crc32(group) & (BUCKETS - 1)).to_bytes(BUCKET_BYTES)


def decode_key(columns: Sequence[KeyColumn], group: int, raw: bytes) -> dict[str, Datum]:
    """Inverse of `encode_key`. Raises: CorruptLog."""
    position = start = BUCKET_BYTES if group else 0
    values: dict[str, Datum] = {}
    try:
        for number, column in enumerate(columns, 1):
            value, position = _decode_column(column, raw, position)
            values[column.name] = Datum(column.type, value)
            if number == group and hash_of(raw[start:position]) != raw[:start]:
                raise ValueError("the bucket is not that of the group")
        if position != len(raw):
            raise ValueError(f"{len(raw) - position} bytes are too many")
    except ValueError as error:
        raise CorruptLog(f"stored key {raw.hex()} cannot be read: {error}") from error
    return values


def _decode_column(column: KeyColumn, raw: bytes, position: int) -> tuple[Scalar, int]:
    size = _FIXED_BYTES.get(column.type)
    if size is not None:
        end = following = position + size
    else:
        end = raw.find(_END if column.ascending else _END_TURNED, position)
        following = end + len(_END)
    if end < 0 or end > len(raw):
        raise ValueError(f"column {column.name} is cut short")
    part = raw[position:end]
    return _VALUE_OF[column.type](part if column.ascending else part.translate(_TURNED)), following


def row_key(schema: TableSchema, key: Columns) -> bytes:
    """Key of a record's row, 1 byte and more.

    Raises: ValidationFailed for a column that is missing, too many, or of a wrong type or value.
    """
    layout = layout_of(schema)
    raw = encode_key(layout.key, layout.group if schema.hashed else 0, key)
    if len(key) != len(layout.key):
        surplus = sorted(set(key) - {column.name for column in layout.key})
        raise ValidationFailed(f"column {surplus[0]} is not part of the key")
    return raw


def key_of(schema: TableSchema, raw: bytes) -> dict[str, Datum]:
    """Key columns of a row, in their order. Raises: CorruptLog."""
    layout = layout_of(schema)
    return decode_key(layout.key, layout.group if schema.hashed else 0, raw)


def shard_of(schema: TableSchema, raw: bytes) -> int:
    """Shard of a row or of an index entry, from 0, by its stored key."""
    if schema.shards == 1:
        return 0
    return int.from_bytes(raw[:BUCKET_BYTES]) * schema.shards // BUCKETS


def share_of(schema: TableSchema, raw: bytes, shares: int) -> int:
    """Which of so many equal shares a row belongs to, from 0, by its stored key.

    Rows of a hashed group share one, and rows of a shard have few: shares cut the buckets as
    shards do. Rows of other tables are spread by their whole key.
    """
    bucket = raw[:BUCKET_BYTES] if schema.hashed else hash_of(raw)
    return int.from_bytes(bucket) * shares // BUCKETS


def shard_range(schema: TableSchema, shard: int) -> tuple[bytes, bytes]:
    """First stored key of a shard and the one after its last; empty: the table's end."""
    return _shard_start(schema, shard), _shard_start(schema, shard + 1)


def _shard_start(schema: TableSchema, shard: int) -> bytes:
    if shard in (0, schema.shards):
        return b""
    return (-(-shard * BUCKETS // schema.shards)).to_bytes(BUCKET_BYTES)


def splits(schema: TableSchema) -> tuple[bytes, ...]:
    """Where the shards but the first begin, ascending."""
    return tuple(_shard_start(schema, shard) for shard in range(1, schema.shards))


def scan_range(
    schema: TableSchema,
    start: Columns,
    stop: Columns,
    *,
    reverse: bool = False,
    index: str | None = None,
) -> tuple[bytes, bytes]:
    """First stored key of a scan and the one after its last (empty: the end), both ascending.

    ``start`` belongs to the scan and ``stop`` does not, in the direction of the scan. Either may
    have only leading columns (none: from the table's beginning, to its end): then every record
    with these is within the scan. A hashed group is given whole or not at all.
    Raises: ValidationFailed, also if the scan would have to go the other way.
    """
    layout = layout_of(schema)
    if index is not None and index not in layout.index_keys:
        raise ValidationFailed(f"the table has no index {index}")
    columns = layout.key if index is None else layout.index_keys[index]
    group = layout.group if schema.hashed else 0
    first, first_whole = _prefix(columns, group, start)
    last, last_whole = _prefix(columns, group, stop)
    if reverse:
        low = last + b"\x00" if last_whole else last
        high = _after(first, first_whole)
    else:
        low = first
        high = last if last_whole else _after(last, last_whole)
    if high and low > high:
        order = "below" if reverse else "above"
        raise ValidationFailed(f"the start key is {order} the stop key in the order of the scan")
    return low, high


def _prefix(columns: Sequence[KeyColumn], group: int, values: Columns) -> tuple[bytes, bool]:
    """Bytes of the leading columns that are given, and whether these are all."""
    count = 0
    while count < len(columns) and columns[count].name in values:
        count += 1
    if count < len(values):
        known = {column.name for column in columns[:count]}
        surplus = min(name for name in values if name not in known)
        if count < len(columns) and surplus in {column.name for column in columns[count:]}:
            raise ValidationFailed(f"key column {surplus} needs {columns[count].name} before it")
        raise ValidationFailed(f"column {surplus} is not part of the key")
    if 0 < count < group:
        raise ValidationFailed(f"a hashed group needs all its columns: {columns[count].name}")
    return encode_key(columns[:count], group if count else 0, values), count == len(columns)


def _after(prefix: bytes, whole: bool) -> bytes:
    """The least bytes above every key that begins with ``prefix``; empty: there are none."""
    if whole:
        return prefix + b"\x00"
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else b""
