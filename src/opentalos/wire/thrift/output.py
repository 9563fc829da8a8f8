"""Output: what an encoder writes to, which counts values so that large messages are made in pieces.

Containers count their items; plain buffers, for short messages, are not counted.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from opentalos.wire.thrift.spec import ThriftType, TType

PIECE_VALUES: Final = 1 << 10  # between two pauses: 0.2 to 1 ms
APART_BYTES: Final = 64 << 10  # of a value, and more: a copy costs more than a part of a message
_VALUES_MAX: Final = 64  # that one item counts for; deeper ones count by themselves


class Output(bytearray):
    """The bytes of a message, or of its last part: ``set_apart`` ends one.

    Args: pause: called before values after the first ``at_once``, and after each piece of them; it
        may raise to stop; in_parts: values of ``APART_BYTES`` are set apart.
    """

    __slots__ = ("_left", "_parts", "_pause", "in_parts")

    def __init__(
        self, pause: Callable[[], None], at_once: int = PIECE_VALUES, *, in_parts: bool = False
    ) -> None:
        super().__init__()
        self._pause, self._left = pause, at_once
        self.in_parts = in_parts
        self._parts: list[bytes] = []

    def set_apart(self, value: bytes) -> None:
        """Append a large value, which is copied once, by ``whole``."""
        self._parts += (bytes(self), value)
        self.clear()

    def whole(self) -> bytes:
        """All parts."""
        return b"".join((*self._parts, self)) if self._parts else bytes(self)

    def spend(self, values: int) -> None:
        """Count values that are written next."""
        self._left -= values
        if self._left < 0:
            self._pause()
            self._left = PIECE_VALUES

    def in_pieces(self, items: Any, values: int) -> Iterator[Any]:
        """The items, each of so many values."""
        for item in items:
            self.spend(values)
            yield item


def counted(out: bytearray, items: Any, values: int) -> Any:
    """The items of a container to write, each of so many values, with the pauses they need."""
    if type(out) is not Output:
        return items
    total = len(items) * values
    if total > PIECE_VALUES:
        return out.in_pieces(items, values)
    out.spend(total)
    return items


@cache  # of the types of the schema
def values_of(*types: ThriftType) -> int:
    """How many values an item of these types has at least, without those of its containers."""
    return min(sum(_values(type_, ()) for type_ in types), _VALUES_MAX)


def _values(type_: ThriftType, inside: tuple[type, ...]) -> int:
    if type_.ttype != TType.STRUCT or type_.struct is None or type_.struct in inside:
        return 1
    inner = (*inside, type_.struct)
    return 1 + sum(_values(field.type, inner) for field in type_.struct.SPEC.fields)
