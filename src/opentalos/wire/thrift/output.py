"""Output: what an encoder writes to, which counts values so that large messages are made in pieces.

Containers count their items; plain buffers, for short messages, are not counted.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from opentalos.wire.thrift.spec import ThriftType, TType

PIECE_VALUES: Final = 1 << 11  # between two pauses: 0.3 to 1 ms
_VALUES_MAX: Final = 64  # that one item counts for; deeper ones count by themselves


class Output(bytearray):
    """The bytes of a message.

    Args: pause: called before values after the first ``at_once``, and after each piece of them; it
        may raise to stop.
    """

    __slots__ = ("_left", "_pause")

    def __init__(self, pause: Callable[[], None], at_once: int = PIECE_VALUES) -> None:
        super().__init__()
        self._pause, self._left = pause, at_once

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
