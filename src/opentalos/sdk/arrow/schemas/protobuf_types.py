"""Arrow types of Protobuf messages, and how their fields are read.

A field that can be absent and is, is null; the others have their default value. An enum is its
name, a number without name is that number as text. Unsigned numbers have the next larger type,
since Spark has no unsigned ones. ``google.protobuf.Timestamp`` is a timestamp. Messages that
contain themselves are refused: a column has no such type.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from opentalos.model.errors import ConfigError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

Read = Callable[[Any], Any]  # of the value that the library returns
TIMESTAMP: Final = "google.protobuf.Timestamp"
_TIME: Final = pa.timestamp("us", "UTC")
_US: Final = 1_000_000
_NS_PER_US: Final = 1_000
_UNSIGNED_DIGITS: Final = 20  # of 64 bits
# By the number of the type in descriptor.proto.
_SCALARS: Final = {
    1: pa.float64(),
    2: pa.float32(),
    3: pa.int64(),  # int64
    5: pa.int32(),  # int32
    7: pa.int64(),  # fixed32
    8: pa.bool_(),
    9: pa.string(),
    12: pa.binary(),
    13: pa.int64(),  # uint32
    15: pa.int32(),  # sfixed32
    16: pa.int64(),  # sfixed64
    17: pa.int32(),  # sint32
    18: pa.int64(),  # sint64
}
_UNSIGNED_64: Final = (4, 6)  # uint64, fixed64


class ProtobufType(NamedTuple):
    """``read`` makes of a field's value one for pyarrow; None: it is one."""

    arrow: Any
    read: Read | None


def message_type(descriptor: "Descriptor", within: tuple[str, ...] = ()) -> ProtobufType:
    """The type of a message. Raises: ConfigError: it contains itself.

    Args: within: the full names of the messages around it.
    """
    name = descriptor.full_name
    if name == TIMESTAMP:
        return ProtobufType(_TIME, _microseconds)
    if name in within:
        raise ConfigError(f"the message {name} contains itself: a column has no such type")
    fields = [_Field(field, (*within, name)) for field in descriptor.fields]
    arrow = pa.struct([pa.field(field.name, field.arrow) for field in fields])
    return ProtobufType(arrow, lambda message: {field.name: field.of(message) for field in fields})


class _Field:
    """One field of a message."""

    def __init__(self, field: "FieldDescriptor", within: tuple[str, ...]) -> None:
        self.name = field.name
        self._presence = bool(field.has_presence)
        value = field.message_type
        if value is not None and value.GetOptions().map_entry:
            kind = _map_type(value, within)
        elif _repeated(field):
            kind = _list_type(_single_type(field, within))
        else:
            kind = _single_type(field, within)
        self.arrow, self._read = kind

    def of(self, message: Any) -> Any:
        """The value in a message, for pyarrow."""
        if self._presence and not message.HasField(self.name):
            return None
        value = getattr(message, self.name)
        return value if self._read is None else self._read(value)


def _repeated(field: "FieldDescriptor") -> bool:
    """Whether there is a list of values."""
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    label: int = field.label  # type: ignore[attr-defined]  # before version 6.31 of the library
    return label == field.LABEL_REPEATED


def _single_type(field: "FieldDescriptor", within: tuple[str, ...]) -> ProtobufType:
    if field.message_type is not None:
        return message_type(field.message_type, within)
    if field.enum_type is not None:
        names = {value.number: value.name for value in field.enum_type.values}
        return ProtobufType(pa.string(), lambda number: names.get(number, str(number)))
    if field.type in _UNSIGNED_64:
        return ProtobufType(pa.decimal128(_UNSIGNED_DIGITS), Decimal)
    return ProtobufType(_SCALARS[field.type], None)


def _list_type(items: ProtobufType) -> ProtobufType:
    arrow, read = pa.list_(items.arrow), items.read
    if read is None:
        return ProtobufType(arrow, list)
    return ProtobufType(arrow, lambda values: [read(value) for value in values])


def _map_type(entry: "Descriptor", within: tuple[str, ...]) -> ProtobufType:
    keys = _single_type(entry.fields_by_name["key"], within)
    values = _single_type(entry.fields_by_name["value"], within)
    read_key, read_value = keys.read or _same, values.read or _same
    return ProtobufType(
        pa.map_(keys.arrow, values.arrow),
        lambda found: [(read_key(key), read_value(found[key])) for key in found],
    )


def _same(value: Any) -> Any:
    return value


def _microseconds(time: Any) -> int:
    return int(time.seconds) * _US + int(time.nanos) // _NS_PER_US
