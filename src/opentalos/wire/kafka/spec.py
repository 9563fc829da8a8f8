"""Schema values: types, fields and structs as the generated code states them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import msgspec

Versions = tuple[int, int]  # first and last

MAX: Final = 32_767  # a range of versions that is open above
NEVER: Final = (0, -1)


class KafkaStruct(msgspec.Struct):
    """Parent of every generated struct; a plain value. A field that a version lacks is default."""

    SPEC: ClassVar["StructSpec"]


@dataclass(frozen=True, slots=True, eq=False)
class KafkaType:
    """A field's type. ``name`` is that of Kafka's definitions, "array" or "struct"."""

    name: str
    item: "KafkaType | None" = None  # of an array
    struct: type[KafkaStruct] | None = None


BOOL = KafkaType("bool")
INT8 = KafkaType("int8")
INT16 = KafkaType("int16")
UINT16 = KafkaType("uint16")
INT32 = KafkaType("int32")
UINT32 = KafkaType("uint32")
INT64 = KafkaType("int64")
FLOAT64 = KafkaType("float64")
STRING = KafkaType("string")
UUID = KafkaType("uuid")  # 16 bytes
BYTES = KafkaType("bytes")
RECORDS = KafkaType("records")  # as bytes, decoded to a view of what was received


def array_of(item: KafkaType) -> KafkaType:
    """An array."""
    return KafkaType("array", item=item)


def struct_of(struct: type[KafkaStruct]) -> KafkaType:
    """A nested struct."""
    return KafkaType("struct", struct=struct)


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field, in the order of the wire. ``tag``: it is optional, behind all others."""

    name: str
    type: KafkaType
    versions: Versions
    nullable: Versions = NEVER
    tag: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class StructSpec:
    """Fields of a struct and the class that holds their values.

    ``plans`` caches what the codec derives for a version.
    """

    name: str
    fields: tuple[Field, ...]
    make: Callable[..., Any]  # called with one keyword per decoded field
    flexible: Versions
    plans: dict[int, Any] = field(default_factory=dict)


def struct_spec(cls: type[KafkaStruct], flexible: Versions, *fields: Field) -> StructSpec:
    """The spec of a generated class. ``flexible``: versions with compact lengths and tags."""
    return StructSpec(cls.__name__, fields, cls, flexible)


def includes(versions: Versions, version: int) -> bool:
    """Whether a range has a version."""
    return versions[0] <= version <= versions[1]
