"""Structs to bytes and back, by version; sans-io.

What was received is never believed: each length is compared with the bytes that are left before
anything is made of it, and a message has at most ``ITEMS_MAX`` items in its arrays. Many items take
long, so a ``Pace`` counts what is in them, and may pause or give up. Readers and writers are made
once per struct and version, and kept in ``StructSpec.plans``.

Source: Apache Kafka 4.3, protocol guide (types); KIP-482 (compact lengths and tagged fields).
"""

import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from opentalos.wire.kafka.pace import PIECE_VALUES, WRITTEN_BYTES_MAX, MessageTooLarge, Pace, Paced
from opentalos.wire.kafka.spec import KafkaStruct, KafkaType, StructSpec, includes

ITEMS_MAX: Final = 50_000  # an item costs up to some hundred bytes of memory, and one on the wire
_VALUE_BYTES: Final = 4 << 10  # which to copy takes as long as a value
_STRING_BYTES_MAX: Final = 32_767  # with a length of 16 bits
_VARINT_BITS_MAX: Final = 35
_UUID_BYTES: Final = 16
_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))

T = TypeVar("T", bound=KafkaStruct)
Read = Callable[["Cursor"], Any]
Write = Callable[[bytearray, Any], None]


class KafkaFormatError(Exception):
    """Received bytes are no message of the version they claim."""


class Cursor:
    """A position in received bytes, and how many more array items they may have."""

    __slots__ = ("data", "items_left", "pace", "position")

    def __init__(
        self,
        data: bytes | bytearray | memoryview,
        position: int = 0,
        pace: Pace | None = None,
        items_max: int = ITEMS_MAX,
    ) -> None:
        self.data, self.position, self.pace = memoryview(data), position, pace
        self.items_left = items_max

    def take(self, count: int) -> memoryview:
        """The next bytes. Raises: KafkaFormatError: there are not so many."""
        position = self.position
        if not 0 <= count <= len(self.data) - position:
            raise KafkaFormatError(
                f"a length of {count} at position {position}, where "
                f"{len(self.data) - position} bytes are left"
            )
        self.position = position + count
        return self.data[position : position + count]

    def items(self, count: int) -> int:
        """A number of array items that may follow. Raises: KafkaFormatError."""
        left = len(self.data) - self.position
        if not 0 <= count <= min(left, self.items_left):
            raise KafkaFormatError(
                f"an array of {count} items at position {self.position}, where {left} bytes are "
                f"left and {self.items_left} items are allowed"
            )
        self.items_left -= count
        return count

    def pieces(self, count: int, values: int = 1) -> Iterator[range]:
        """The numbers of so many items, each of so many values, a piece at a time.

        Raises: also what the pace raises.
        """
        whole, pace = range(self.items(count)), self.pace
        if pace is None:
            yield whole
            return
        size = max(1, PIECE_VALUES // values)
        for start in range(0, count, size):
            piece = whole[start : start + size]
            pace.step(len(piece) * values)
            yield piece


class EncodedItems(NamedTuple):
    """Takes the place of an array whose items were encoded before, in the same version: many items
    take long, so who has them encodes them in pieces."""

    items: int
    data: bytes | bytearray


# --- reading ----------------------------------------------------------------------------------


def read_unsigned(cursor: Cursor) -> int:
    """An unsigned varint of at most 32 bits. Raises: KafkaFormatError."""
    data, position = cursor.data, cursor.position
    value = shift = 0
    while True:
        if position >= len(data):
            raise KafkaFormatError(f"the number at position {cursor.position} does not end")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= _VARINT_BITS_MAX:
            break
    if byte >= 0x80 or value >> 32:
        raise KafkaFormatError(f"the number at position {cursor.position} exceeds 32 bits")
    cursor.position = position
    return value


def _number_reader(code: str) -> Read:
    unpack, size = struct.Struct(f">{code}").unpack_from, struct.calcsize(f">{code}")

    def read(cursor: Cursor) -> Any:
        position = cursor.position
        if position + size > len(cursor.data):
            raise KafkaFormatError(f"{size} bytes are missing at position {position}")
        cursor.position = position + size
        return unpack(cursor.data, position)[0]

    return read


_CODES: Final = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "bool": "?",
}
_NUMBER_READERS: Final = {name: _number_reader(code) for name, code in _CODES.items()}
_read_int16, _read_int32 = _NUMBER_READERS["int16"], _NUMBER_READERS["int32"]
_read_int8 = _NUMBER_READERS["int8"]


def _length(cursor: Cursor) -> int:
    """A compact length; -1: null."""
    return read_unsigned(cursor) - 1


def _text(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise KafkaFormatError("a string is not UTF-8") from None


def _block(data: memoryview) -> bytes:
    return bytes(data)


def _view(data: memoryview) -> memoryview:
    return data


_MAKERS: Final[dict[str, Callable[[memoryview], Any]]] = {
    "string": _text,
    "bytes": _block,
    "records": _view,
}


def _uuid_reader(cursor: Cursor) -> bytes:
    return bytes(cursor.take(_UUID_BYTES))


def _sized_reader(name: str, compact: bool, nullable: bool) -> Read:
    read_length = _length if compact else _read_int16 if name == "string" else _read_int32
    make, copies = _MAKERS[name], name != "records"
    # Compact lengths have more bits, but Kafka's own servers refuse longer strings, too.
    most = _STRING_BYTES_MAX if name == "string" else sys.maxsize

    def read(cursor: Cursor) -> Any:
        position = cursor.position
        length = read_length(cursor)
        if length < 0:
            _check_null(length, nullable, position)
            return None
        if length > most:
            raise KafkaFormatError(f"a string of {length} bytes, where {most} are allowed")
        if length > _VALUE_BYTES and copies and cursor.pace is not None:
            cursor.pace.step(length // _VALUE_BYTES)
        return make(cursor.take(length))

    return read


def _check_null(length: int, nullable: bool, position: int) -> None:
    if length != -1 or not nullable:
        raise KafkaFormatError(f"a length of {length} at position {position}")


def _array_reader(item: Read, values: int, compact: bool, nullable: bool) -> Read:
    read_length = _length if compact else _read_int32

    def read(cursor: Cursor) -> list[Any] | None:
        position = cursor.position
        length = read_length(cursor)
        if length < 0:
            _check_null(length, nullable, position)
            return None
        if not length:
            return []
        return [item(cursor) for piece in cursor.pieces(length, values) for _ in piece]

    return read


def _nullable_struct_reader(item: Read) -> Read:
    def read(cursor: Cursor) -> Any:
        position = cursor.position
        present = _read_int8(cursor)
        if present < 0:
            _check_null(present, True, position)
            return None
        return item(cursor)

    return read


def _reader(kind: KafkaType, version: int, compact: bool, nullable: bool) -> Read:
    if kind.item is not None:
        item = _reader(kind.item, version, compact, False)
        return _array_reader(item, _values(kind.item, version), compact, nullable)
    if kind.struct is not None:
        spec = kind.struct.SPEC
        plan = _plan(spec, version)

        def read(cursor: Cursor) -> Any:
            return _read_struct(spec, plan, cursor)

        return _nullable_struct_reader(read) if nullable else read
    if kind.name in _MAKERS:
        return _sized_reader(kind.name, compact, nullable)
    return _uuid_reader if kind.name == "uuid" else _NUMBER_READERS[kind.name]


def _read_struct(spec: StructSpec, plan: "_Plan", cursor: Cursor) -> Any:
    values = {name: read(cursor) for name, read, _ in plan.fields}
    if plan.flexible:
        count = read_unsigned(cursor)
        if count:
            _read_tagged(plan, values, count, cursor)
    return spec.make(**values)


def _read_tagged(plan: "_Plan", values: dict[str, Any], count: int, cursor: Cursor) -> None:
    for piece in cursor.pieces(count):
        for _ in piece:
            tag, size = read_unsigned(cursor), read_unsigned(cursor)
            end = cursor.position + size
            known = plan.tagged.get(tag)
            if known is None:
                cursor.take(size)
                continue
            values[known.name] = known.read(cursor)
            if cursor.position != end:
                raise KafkaFormatError(f"the tagged field {known.name} does not have {size} bytes")


def _values(item: KafkaType, version: int) -> int:
    """How many values an item of an array is; an array in it takes as long as three."""
    if item.struct is None:
        return 1
    fields = item.struct.SPEC.fields
    known = [field for field in fields if includes(field.versions, version)]
    return 1 + len(known) + 2 * sum(field.type.item is not None for field in known)


# --- writing ----------------------------------------------------------------------------------


def write_unsigned(out: bytearray, value: int) -> None:
    """An unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _number_writer(code: str) -> Write:
    pack = struct.Struct(f">{code}").pack

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write


_NUMBER_WRITERS: Final = {name: _number_writer(code) for name, code in _CODES.items()}
_write_int16, _write_int32 = _NUMBER_WRITERS["int16"], _NUMBER_WRITERS["int32"]


def _write_length(out: bytearray, length: int) -> None:
    write_unsigned(out, length + 1)


def _uuid_writer(out: bytearray, value: bytes) -> None:
    out += value


def _sized_writer(name: str, compact: bool) -> Write:
    short = name == "string" and not compact
    write_length = _write_length if compact else _write_int16 if short else _write_int32

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            write_length(out, -1)
            return
        data = value.encode() if name == "string" else value
        if short and len(data) > _STRING_BYTES_MAX:
            data = data[:_STRING_BYTES_MAX].decode(errors="ignore").encode()
        if len(data) > _VALUE_BYTES and type(out) is Paced:
            out.pace.step(len(data) // _VALUE_BYTES)
        write_length(out, len(data))
        out += data

    return write


def _array_writer(item: Write, values: int, compact: bool) -> Write:
    write_length = _write_length if compact else _write_int32
    size = max(1, PIECE_VALUES // values)

    def write(out: bytearray, value: "list[Any] | EncodedItems | None") -> None:
        if value is None:
            write_length(out, -1)
            return
        if type(value) is EncodedItems:
            write_length(out, value.items)
            out += value.data
            return
        write_length(out, len(value))
        if type(out) is not Paced or not value:
            for each in value:
                item(out, each)
            return
        for start in range(0, len(value), size):
            piece = value[start : start + size]
            out.pace.step(len(piece) * values)
            for each in piece:
                item(out, each)
            if len(out) > WRITTEN_BYTES_MAX:
                raise MessageTooLarge(f"more than {WRITTEN_BYTES_MAX} bytes")

    return write


def _writer(kind: KafkaType, version: int, compact: bool, nullable: bool) -> Write:
    if kind.item is not None:
        item = _writer(kind.item, version, compact, False)
        return _array_writer(item, _values(kind.item, version), compact)
    if kind.struct is not None:
        plan = _plan(kind.struct.SPEC, version)

        def write(out: bytearray, value: Any) -> None:
            if nullable:
                out += b"\xff" if value is None else b"\x01"
            if value is not None:
                _write_struct(plan, out, value)

        return write
    if kind.name in _MAKERS:
        return _sized_writer(kind.name, compact)
    return _uuid_writer if kind.name == "uuid" else _NUMBER_WRITERS[kind.name]


def _write_struct(plan: "_Plan", out: bytearray, value: Any) -> None:
    for name, _, write in plan.fields:
        write(out, getattr(value, name))
    if plan.flexible:
        if not plan.tagged:
            out.append(0)
            return
        given = [
            (tag, part, getattr(value, part.name))
            for tag, part in sorted(plan.tagged.items())
            if getattr(value, part.name) != part.default
        ]
        write_unsigned(out, len(given))
        for tag, part, content in given:
            body = bytearray()
            part.write(body, content)
            write_unsigned(out, tag)
            write_unsigned(out, len(body))
            out += body


# --- plans ------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """A field of one version."""

    name: str
    read: Read
    write: Write


class _Tagged(NamedTuple):
    """A tagged field of one version, left out when it has its default."""

    name: str
    read: Read
    write: Write
    default: Any


class _Plan(NamedTuple):
    """What a struct is in one version."""

    fields: tuple[_Part, ...]
    tagged: dict[int, _Tagged]
    flexible: bool


def _plan(spec: StructSpec, version: int) -> _Plan:
    found: _Plan | None = spec.plans.get(version)
    if found is None:
        found = spec.plans[version] = _made_plan(spec, version)
    return found


def _made_plan(spec: StructSpec, version: int) -> _Plan:
    flexible = includes(spec.flexible, version)
    fields: list[_Part] = []
    tagged: dict[int, _Tagged] = {}
    blank = spec.make()
    for field in spec.fields:
        if not includes(field.versions, version):
            continue
        nullable = includes(field.nullable, version)
        read = _reader(field.type, version, flexible, nullable)
        write = _writer(field.type, version, flexible, nullable)
        if field.tag is None:
            fields.append(_Part(field.name, read, write))
        else:
            tagged[field.tag] = _Tagged(field.name, read, write, getattr(blank, field.name))
    return _Plan(tuple(fields), tagged, flexible)


def decode(kind: type[T], version: int, cursor: Cursor) -> T:
    """A struct of a version, at the cursor. Raises: KafkaFormatError."""
    value: T = _read_struct(kind.SPEC, _plan(kind.SPEC, version), cursor)
    return value


def encode(value: KafkaStruct, version: int, out: bytearray) -> None:
    """Append a struct in a version. Fields that the version lacks are left out."""
    _write_struct(_plan(value.SPEC, version), out, value)
