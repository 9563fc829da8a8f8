"""What the decoders share: a bounded cursor over one message, and its bounds."""

from typing import Any, Final

from opentalos.wire.thrift.error import ThriftError
from opentalos.wire.thrift.spec import StructSpec, ThriftType

DEPTH_MAX: Final = 32  # nested structs and containers; the Talos schema needs 8
# Fields and items of one message. A call's largest part is one create time per message of a
# block (100,000 by default), a reply's a list of all topics with their partitions.
CALL_VALUES_MAX: Final = 1 << 17
REPLY_VALUES_MAX: Final = 1 << 24
_SHOWN_CHARS_MAX: Final = 40


class Cursor:
    """A position in one message, with what it may still nest and hold."""

    __slots__ = ("data", "depth", "position", "values")

    def __init__(self, data: bytes, values_max: int) -> None:
        self.data, self.position = data, 0
        self.depth, self.values = DEPTH_MAX, values_max

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
        if self.values < 0:
            raise ThriftError("too many values in one message")

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
            raise ThriftError(f"required field {field.name} ({field.id}) of {spec.name} is missing")
    return spec.make(**values)


def mismatch(spec: StructSpec, name: str, got: object) -> ThriftError:
    """The error for a field of another type than the schema's."""
    return ThriftError(f"field {name} of {spec.name} has the wrong type {got}")


def shown(text: str) -> str:
    """A name from the message, cut so that it fits an error's text."""
    return repr(text[:_SHOWN_CHARS_MAX])
