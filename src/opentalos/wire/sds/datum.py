"""Typed values of structured tables on the wire: the struct Datum and its one-branch union.

Source: docs/protocol/sds.md#data-model.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from opentalos.model.datum import Columns, DataType, Datum, Scalar
from opentalos.model.errors import ValidationFailed
from opentalos.wire._generated import sds

_SET_ITEMS: Final = 512  # of a set, checked between two pauses
_SET_FIRST: Final = DataType.BOOL_SET  # this and all after it are sets
_single: Final = struct.Struct(">f")

_BRANCH_NAMES: Final = tuple(field.name for field in sds.Value.SPEC.fields)
_branches: Final = attrgetter(*_BRANCH_NAMES)
_UNSET: Final = len(_BRANCH_NAMES) - 1  # branches that are None in a good value


def _any(value: Any) -> Any:
    return value


def _within(name: str, bits: int) -> Callable[[Any], Any]:
    limit = 1 << (bits - 1)

    def check(value: int) -> int:
        if not -limit <= value < limit:
            raise ValidationFailed(f"{value} does not fit {name}")
        return value

    return check


def to_single(value: float) -> float:
    """What a FLOAT keeps of a double. Raises: ValidationFailed: it is too large."""
    try:
        kept: float = _single.unpack(_single.pack(value))[0]
    except OverflowError:
        raise ValidationFailed(f"{value} does not fit FLOAT") from None
    return kept


def _no_pause() -> None:
    """No pause."""


def _checked_set(
    item: Callable[[Any], Any], values: Sequence[Any], pause: Callable[[], None]
) -> tuple[Scalar, ...]:
    kept: set[Any] = set()
    for start in range(0, len(values), _SET_ITEMS):
        part = {item(value) for value in values[start : start + _SET_ITEMS]}
        if [value for value in part if value != value]:  # as only NaN does
            raise ValidationFailed("NaN cannot be in a set")
        kept |= part
        pause()
    return tuple(sorted(kept))


class _Branch(NamedTuple):
    """Where a type's value travels. ``check`` takes what is there and gives the model's value; of
    a set, an item of it."""

    type: DataType
    name: str
    place: int  # in _BRANCH_NAMES
    check: Callable[[Any], Any]
    is_set: bool


_SCALARS: Final[Mapping[DataType, tuple[str, Callable[[Any], Any]]]] = {
    DataType.BOOL: ("bool", _any),
    DataType.INT8: ("int8", _within("INT8", 8)),
    DataType.INT16: ("int16", _within("INT16", 16)),
    DataType.INT32: ("int32", _within("INT32", 32)),
    DataType.INT64: ("int64", _within("INT64", 64)),
    DataType.FLOAT: ("double", to_single),
    DataType.DOUBLE: ("double", _any),
    DataType.STRING: ("string", _any),
    DataType.BINARY: ("binary", _any),
    DataType.RAWBINARY: ("binary", _any),
}


def _table() -> dict[int, _Branch]:
    table = {}
    for type_ in DataType:
        is_set = type_ >= _SET_FIRST
        # The set of each of the types 1 to 9 is 100 to 108.
        stem, check = _SCALARS[DataType(type_ - _SET_FIRST + 1) if is_set else type_]
        name = f"{stem}SetValue" if is_set else f"{stem}Value"
        place = _BRANCH_NAMES.index(name)
        table[int(type_)] = _Branch(type_, name, place, check, is_set)
    return table


_BY_TYPE: Final = _table()
_WIRE_TYPE: Final = {type_: sds.DataType(type_.value) for type_ in DataType}


def branch_of(type_: DataType) -> str:
    """Name of the union's branch where values of a type travel."""
    return _BY_TYPE[type_].name


class Faulty(NamedTuple):
    """In the place of values whose check has failed: where they are used, it fails the same."""

    error: ValidationFailed


def from_struct(datum: sds.Datum | Datum | Faulty, pause: Callable[[], None] = _no_pause) -> Datum:
    """The value of a struct. A FLOAT is rounded to single precision, a set is put in order.

    Args:   pause: called after each piece of a set.
    Raises: ValidationFailed: no or an unknown type, not exactly one branch, a branch of another
            type, a number out of the type's range, NaN in a set.
    """
    if isinstance(datum, Datum):
        return datum  # it was checked before
    if isinstance(datum, Faulty):
        raise datum.error
    branch = _BY_TYPE.get(datum.type) if datum.type is not None else None
    if branch is None:
        raise ValidationFailed(f"a value has no known type: {datum.type}")
    found = _branches(datum.value) if datum.value is not None else ()
    if found.count(None) != _UNSET:
        raise ValidationFailed("a value must have exactly one branch of its union")
    value = found[branch.place]
    if value is None:
        if datum.value.nullValue is None:  # type: ignore[union-attr]  # found has a branch
            raise ValidationFailed(f"a value of type {branch.type.name} is not in {branch.name}")
        return Datum(branch.type, None)
    if branch.is_set:
        return Datum(branch.type, _checked_set(branch.check, value, pause))
    return Datum(branch.type, branch.check(value))


def to_struct(datum: Datum) -> sds.Datum:
    """The struct of a value."""
    if datum.value is None:
        value = sds.Value(nullValue=True)
    else:
        value = sds.Value()
        plain = list(datum.value) if isinstance(datum.value, tuple) else datum.value
        setattr(value, _BY_TYPE[datum.type].name, plain)
    return sds.Datum(type=_WIRE_TYPE[datum.type], value=value)


class CheckedColumns(dict[str, Datum]):
    """Columns that were checked when they were read, in the place of a map of structs."""


def columns_from(
    structs: Mapping[str, sds.Datum] | CheckedColumns | Faulty | None,
    pause: Callable[[], None] = _no_pause,
) -> Columns:
    """The columns of a map; of None, no columns. Raises: ValidationFailed, naming the column."""
    if isinstance(structs, CheckedColumns):
        return structs
    if isinstance(structs, Faulty):
        raise structs.error
    columns = {}
    for name, datum in (structs or {}).items():
        try:
            columns[name] = from_struct(datum, pause)
        except ValidationFailed as error:
            raise ValidationFailed(f"column {name!r}: {error}") from None
    return columns


def columns_to(columns: Columns) -> dict[str, sds.Datum]:
    """The map of some columns."""
    return {name: to_struct(datum) for name, datum in columns.items()}
