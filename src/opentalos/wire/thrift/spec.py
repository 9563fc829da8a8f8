"""Schema values: types, fields, structs, methods and services as the generated code states them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

import msgspec


class TType(IntEnum):
    """Type codes of the Thrift binary protocol, which name a type's kind everywhere."""

    STOP = 0
    BOOL = 2
    BYTE = 3
    DOUBLE = 4
    I16 = 6
    I32 = 8
    I64 = 10
    STRING = 11
    STRUCT = 12
    MAP = 13
    SET = 14
    LIST = 15


class ThriftStruct(msgspec.Struct):
    """Parent of every generated struct, union and exception; a plain value.

    Of msgspec, as its classes are made six times as fast as dataclasses: there are 200.
    """

    SPEC: ClassVar["StructSpec"]


@dataclass(frozen=True, slots=True, eq=False)
class ThriftType:
    """A field's type. Only the attributes of its kind are set."""

    ttype: TType
    text: bool = False  # STRING: str when true, bytes when false
    enum: Mapping[int, IntEnum] | None = None  # I32: members by value; others stay int
    struct: type[ThriftStruct] | None = None
    key: "ThriftType | None" = None  # MAP
    item: "ThriftType | None" = None  # LIST, SET, and the value of MAP


BOOL = ThriftType(TType.BOOL)
BYTE = ThriftType(TType.BYTE)
DOUBLE = ThriftType(TType.DOUBLE)
I16 = ThriftType(TType.I16)
I32 = ThriftType(TType.I32)
I64 = ThriftType(TType.I64)
STRING = ThriftType(TType.STRING, text=True)
BINARY = ThriftType(TType.STRING)


def enum_of(enum: type[IntEnum]) -> ThriftType:
    """An enum field; a number without a member is decoded as a plain int."""
    return ThriftType(TType.I32, enum={member.value: member for member in enum})


def struct_of(struct: type[ThriftStruct]) -> ThriftType:
    """A nested struct."""
    return ThriftType(TType.STRUCT, struct=struct)


def list_of(item: ThriftType) -> ThriftType:
    """A list."""
    return ThriftType(TType.LIST, item=item)


def set_of(item: ThriftType) -> ThriftType:
    """A set; its items hash by value."""
    return ThriftType(TType.SET, item=item)


def map_of(key: ThriftType, value: ThriftType) -> ThriftType:
    """A map; its keys hash by value."""
    return ThriftType(TType.MAP, key=key, item=value)


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field: ``required`` means that decoding fails without it."""

    id: int
    name: str
    type: ThriftType
    required: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class StructSpec:
    """Fields of a struct in ascending id, and the class that holds their values.

    ``plans`` caches what each protocol derives from the fields.
    """

    name: str
    fields: tuple[Field, ...]
    make: Any  # called with one keyword per decoded field
    plans: dict[str, Any] = field(default_factory=dict)
    required: tuple[Field, ...] = field(init=False)

    def __post_init__(self) -> None:
        needed = tuple(field_ for field_ in self.fields if field_.required)
        object.__setattr__(self, "required", needed)


def struct_spec(cls: type[ThriftStruct], *fields: Field) -> StructSpec:
    """The spec of a generated class."""
    return StructSpec(cls.__name__, fields, cls)


@dataclass(frozen=True, slots=True, eq=False)
class MethodSpec:
    """One RPC: its arguments, what it returns (None: void) and the exception it declares."""

    name: str
    arguments: tuple[Field, ...]
    result: ThriftType | None
    error: type[ThriftStruct] | None
    args_spec: StructSpec = field(init=False)
    result_spec: StructSpec = field(init=False)

    def __post_init__(self) -> None:
        fields = []
        if self.result is not None:
            fields.append(Field(0, "success", self.result))
        if self.error is not None:
            fields.append(Field(1, "error", struct_of(self.error)))
        args = StructSpec(f"{self.name}_args", self.arguments, dict)
        object.__setattr__(self, "args_spec", args)
        object.__setattr__(
            self, "result_spec", StructSpec(f"{self.name}_result", tuple(fields), dict)
        )


@dataclass(frozen=True, slots=True, eq=False)
class ServiceSpec:
    """A service with the methods it inherits; ``path`` is where it is served."""

    name: str
    path: str
    methods: Mapping[str, MethodSpec]
