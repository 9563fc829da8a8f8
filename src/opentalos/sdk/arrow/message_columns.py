"""Reads the columns of many messages at once: numpy steps through them, Arrow gathers the bytes.

No length is trusted. Positions only grow, and the last position of each message must be its end,
so every field lies within its message. Damaged or unusual messages raise ``NotPlain``; the plain
decoder then reads them or reports what is wrong.
Source: docs/internals/spark-source.md#decoding: five million messages of 100 B per second and core,
against 0.7 million with a loop.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Places = NDArray[np.int64]
Bits = NDArray[np.bool_]

_MARK: Final = b"V\0\3\0"
_PREFIX_BYTES: Final = 8  # mark and length
_BYTES, _I32, _I64 = 8, 5, 6  # types of the compact protocol
_SIZE_MAX: Final = (1 << 31) - 1
_LENGTH: Final = struct.Struct(">I")
_TIME: Final = pa.timestamp("us", "UTC")
_US_PER_MS: Final = 1000
_TIME_MS_MAX: Final = ((1 << 63) - 1) // _US_PER_MS
_VARINT_SHIFT_MAX: Final = 63


class NotPlain(Exception):
    """The bytes are damaged or have another format; never raised to callers of the SDK."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """The ranges of a field in the buffer, empty where absent; ``present`` None: always."""

    starts: Places
    ends: Places
    present: Bits | None


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """The zigzag values of a field, 0 where absent; ``present`` None: always."""

    values: NDArray[np.uint64]
    present: Bits | None


def message_places(data: bytes | memoryview, count: int) -> list[int]:
    """Where each of ``count`` messages starts. Raises: NotPlain: they do not fill ``data``."""
    found: list[int] = []
    add, length, position = found.append, _LENGTH.unpack_from, 0
    try:
        for _ in range(count):
            add(position)
            position += length(data, position + 4)[0] + _PREFIX_BYTES
    except struct.error:
        raise NotPlain from None
    if position != len(data):
        raise NotPlain
    return found


def message_columns(data: bytes | memoryview, starts: Places, ends: Places) -> list[Any]:
    """Arrays of data, key, sequence number, create time, type, fingerprint and tag.

    Args:    starts and ends of the messages in ``data``, at least one; each end the next start.
    Raises:  NotPlain.
    """
    try:
        return _Step(data, starts).columns(ends)
    except (IndexError, pa.ArrowInvalid):  # a position beyond the buffer; invalid UTF-8
        raise NotPlain from None


class _Step:
    """One position in each message, all advanced together."""

    def __init__(self, data: bytes | memoryview, starts: Places) -> None:
        self._data = data
        self._bytes: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        for index, byte in enumerate(_MARK):
            if (self._bytes[starts + index] != byte).any():
                raise NotPlain
        self._at = starts + _PREFIX_BYTES
        self._field: int | NDArray[np.int64] = 0  # id of the last one read

    def columns(self, ends: Places) -> list[Any]:
        key = self._content(1)
        number = self._content(2)
        content = self._content(3)
        if content is None or content.present is not None:
            raise NotPlain
        created = self._numbers(4, _I64)
        kind = self._numbers(6, _I32)
        fingerprint, tag = self._content(7), self._content(8)
        if self._bytes[self._at].any() or (self._at + 1 != ends).any():
            raise NotPlain  # no stop field, or not at the end of the message
        fields = [key, number, content, fingerprint, tag]
        key_, number_, content_, fingerprint_, tag_ = _gathered(self._data, fields)
        texts = [_text(text, len(ends)) for text in (key_, number_, fingerprint_, tag_)]
        times, kinds = _times(created, len(ends)), _kinds(kind, len(ends))
        return [content_, texts[0], texts[1], times, kinds, texts[2], texts[3]]

    def _head(self, field: int, kind: int) -> tuple[bool, Bits | None]:
        """Whether this field is next in any message, and in which; skips its header."""
        hit: Bits = self._bytes[self._at] == ((field - self._field) << 4 | kind)
        if hit.all():
            self._at = self._at + 1
            self._field = field
            return True, None
        if not hit.any():
            return False, None
        self._at = self._at + hit
        self._field = np.where(hit, field, self._field)
        return True, hit

    def _content(self, field: int) -> Column | None:
        found, present = self._head(field, _BYTES)
        if not found:
            return None
        sizes = self._varints(present)
        if (sizes > _SIZE_MAX).any():
            raise NotPlain
        starts = self._at
        self._at = starts + sizes.astype(np.int64)
        return Column(starts, self._at, present)

    def _numbers(self, field: int, kind: int) -> Numbers | None:
        found, present = self._head(field, kind)
        if not found:
            return None
        values = self._varints(present)
        if kind == _I32 and (values >> np.uint64(32)).any():
            raise NotPlain
        return Numbers(values, present)

    def _varints(self, present: Bits | None) -> NDArray[np.uint64]:
        """The unsigned value in each message, 0 where absent."""
        at = self._at.copy()
        values = np.zeros(len(at), np.uint64)
        rows: slice | Places = slice(None) if present is None else np.nonzero(present)[0]
        for shift in range(0, _VARINT_SHIFT_MAX + 1, 7):
            read = self._bytes[at[rows]]
            if shift == _VARINT_SHIFT_MAX and (read > 1).any():
                break
            values[rows] |= (read & np.uint8(0x7F)).astype(np.uint64) << np.uint64(shift)
            at[rows] += 1
            more = read > 0x7F
            if not more.any():
                self._at = at
                return values
            if not more.all():
                rows = np.nonzero(more)[0] if isinstance(rows, slice) else rows[more]
        raise NotPlain


def _gathered(data: bytes | memoryview, fields: Sequence[Column | None]) -> list[Any]:
    """A binary array per field, without an object per value: one array spans wanted and unwanted
    bytes alternately, and the wanted ones are taken from it."""
    there = [field for field in fields if field is not None]
    rows, width = len(there[0].starts), 2 * len(there)
    offsets = np.empty(rows * width + 1, np.int32)
    grid = offsets[:-1].reshape(rows, width)
    for index, field in enumerate(there):
        grid[:, 2 * index] = field.starts
        grid[:, 2 * index + 1] = field.ends
    offsets[-1] = len(data)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    view = pa.Array.from_buffers(pa.binary(), rows * width, buffers)
    view.validate(full=True)
    return [None if field is None else _taken(view, there.index(field), field) for field in fields]


def _taken(view: Any, index: int, field: Column) -> Any:
    width = len(view) // len(field.starts)
    wanted = np.arange(2 * index, len(view), width, dtype=np.int32)
    return view.take(pa.array(wanted, mask=None if field.present is None else ~field.present))


def _text(values: Any, rows: int) -> Any:
    """Strings; the cast checks that they are UTF-8."""
    return pa.nulls(rows, pa.string()) if values is None else values.cast(pa.string())


def _zigzag(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    bit = np.uint64(1)
    return ((values >> bit) ^ (np.uint64(0) - (values & bit))).view(np.int64)


def _times(numbers: Numbers | None, rows: int) -> Any:
    """Times in us; null where absent or out of range."""
    if numbers is None:
        return pa.nulls(rows, _TIME)
    times_ms = _zigzag(numbers.values)
    absent = (times_ms > _TIME_MS_MAX) | (times_ms < -_TIME_MS_MAX)
    if numbers.present is not None:
        absent |= ~numbers.present
    mask = absent if absent.any() else None
    return pa.array(times_ms * _US_PER_MS, mask=mask).view(_TIME)


def _kinds(numbers: Numbers | None, rows: int) -> Any:
    if numbers is None:
        return pa.nulls(rows, pa.int32())
    mask = None if numbers.present is None else ~numbers.present
    return pa.array(_zigzag(numbers.values).astype(np.int32), mask=mask)
