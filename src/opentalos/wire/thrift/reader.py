"""What the decoders share: a bounded cursor over one message, and its bounds.

A decoder of a large message calls ``Cursor.pause`` after each piece of about 1 ms, so that it can
run beside an event loop that needs the interpreter.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from opentalos.wire.thrift.error import SchemaMismatch, ThriftError, TooManyValues
from opentalos.wire.thrift.spec import StructSpec, ThriftType

DEPTH_MAX: Final = 32  # nested structs and containers; the Talos schema needs 8
# Fields and items of one message. A call's largest part is one create time per message of a
# block (100,000 by default), a reply's a list of all topics with their partitions.
CALL_VALUES_MAX: Final = 1 << 17
REPLY_VALUES_MAX: Final = 1 << 24
PIECE_VALUES: Final = 1 << 9  # between two pauses: 0.1 to 1 ms; fewer of JSON
PIECE_BYTES: Final = 64 << 10  # of a long string in the JSON protocol
# A longer text of a call is refused, since decoding it cannot be interrupted. The longest text
# that a call needs is a value of a table, and such a call has 512 KiB.
CALL_TEXT_BYTES_MAX: Final = 1 << 20
VIEW_BYTES_MIN: Final = 4 << 10  # of a binary field that is not copied if views are wanted
_UNBOUNDED: Final = 1 << 62
_SHOWN_CHARS_MAX: Final = 40


class Cursor:
    """A position in one message, with what it may still nest and hold.

    Args: pause: called after each piece; None: the message is read at once. text_bytes_max: of one
        text field. views: long binary fields of the compact protocol are read-only views of the
        data, and keep them alive.
    """

    __slots__ = (
        "_piece_end",
        "_piece_values",
        "_text_bytes_max",
        "data",
        "depth",
        "pause",
        "position",
        "values",
        "views",
    )

    def __init__(
        self,
        data: bytes,
        values_max: int,
        pause: Callable[[], None] | None = None,
        text_bytes_max: int = _UNBOUNDED,
        piece_values: int = PIECE_VALUES,
        *,
        views: bool = False,
    ) -> None:
        self.views = views
        self.data, self.position = data, 0
        self.depth, self.values = DEPTH_MAX, values_max
        self.pause, self._text_bytes_max = pause, text_bytes_max
        self._piece_values = piece_values
        # Values that are left when the piece ends; one comparison for that and for the bound.
        self._piece_end = 0 if pause is None else max(values_max - piece_values, 0)

    def take(self, length: int) -> bytes:
        """The next ``length`` bytes."""
        start = self.position
        end = start + length
        if length < 0 or end > len(self.data):
            raise ThriftError(
                f"a string of {length} bytes at position {start}, but the message has "
                f"{len(self.data) - start} left"
            )
        self.position = end
        return self.data[start:end]

    def take_binary(self, length: int) -> bytes | memoryview:
        """The same, of a binary field."""
        if not self.views or length < VIEW_BYTES_MIN or length > len(self.data) - self.position:
            return self.take(length)
        start = self.position
        self.position = start + length
        return memoryview(self.data)[start : self.position]

    def count(self, size: int, bytes_min: int) -> int:
        """Check a container's size against what is left, before anything is allocated."""
        left = len(self.data) - self.position
        if size < 0 or size * bytes_min > left:
            raise ThriftError(
                f"a container of {size} items at position {self.position}, but the message "
                f"has {left} bytes left"
            )
        self.spend(size)
        return size

    def spend(self, values: int) -> None:
        """Count values against the message's bound."""
        self.values -= values
        if self.values < self._piece_end:
            self._end_piece()

    def _end_piece(self) -> None:
        if self.values < 0:
            raise TooManyValues("too many values in one message")
        if self.pause is not None:
            self.pause()
        self._piece_end = max(self.values - self._piece_values, 0)

    def indexes(self, size: int) -> Iterable[int]:
        """Of a container's items, which are counted; pauses between pieces of them."""
        if self.pause is None or size <= self._piece_values:
            return range(size)
        return self._in_pieces(size, self.pause)

    def _in_pieces(self, size: int, pause: Callable[[], None]) -> Iterator[int]:
        step = self._piece_values
        for start in range(0, size, step):
            pause()
            yield from range(start, min(start + step, size))

    def check_text(self, length: int) -> None:
        """Raises: ThriftError: the text field is too long."""
        if length > self._text_bytes_max:
            raise ThriftError(
                f"a text of {length} bytes before position {self.position}: "
                f"limit {self._text_bytes_max}"
            )

    def text(self, length: int) -> str:
        """The next ``length`` bytes as UTF-8."""
        self.check_text(length)
        return text_of(self.take(length))

    def enter(self) -> None:
        """Go one level deeper; ``depth += 1`` leaves it."""
        self.depth -= 1
        if self.depth < 0:
            raise ThriftError(f"nested deeper than {DEPTH_MAX} levels")


def text_of(data: bytes) -> str:
    """Decode UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ThriftError(f"a text field is not UTF-8: {error.reason}") from None


def enum_value(type_: ThriftType, value: int) -> int:
    """The member of that value, or the plain int: the layer above decides about unknown ones."""
    return value if type_.enum is None else type_.enum.get(value, value)


def built(spec: StructSpec, values: dict[str, Any]) -> Any:
    """Make the struct, or say which required field is missing."""
    for field in spec.required:
        if field.name not in values:
            raise SchemaMismatch(
                f"required field {field.name} ({field.id}) of {spec.name} is missing"
            )
    return spec.make(**values)


def mismatch(spec: StructSpec, name: str, got: object) -> SchemaMismatch:
    """The error for a field of another type than the schema's."""
    return SchemaMismatch(f"field {name} of {spec.name} has the wrong type {got}")


def shown(text: str) -> str:
    """A name from the message, cut so that it fits an error's text."""
    return repr(text[:_SHOWN_CHARS_MAX])
