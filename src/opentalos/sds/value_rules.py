"""Which values a column's type allows, and which types may be in keys, be counted, be ordered.

NaN is refused everywhere, since it is not even equal to itself. Values of FLOAT must be of single
precision, to which gateways round: readers of a stream round too and must get the same value.
Sets are tuples in ascending order without repetitions.
"""

import struct
from collections.abc import Callable, Mapping
from itertools import islice
from operator import lt
from typing import Any, Final

from opentalos.model.datum import DataType, Datum, Value

_SINGLE: Final = struct.Struct(">f")
SET_OFFSET: Final = 99  # the type of a set is that of its elements and so much

INTEGER_BITS: Final[Mapping[DataType, int]] = {
    DataType.INT8: 8,
    DataType.INT16: 16,
    DataType.INT32: 32,
    DataType.INT64: 64,
}
# RAWBINARY is the one plain type that is never ordered: neither in keys nor by conditions.
KEY_TYPES: Final = frozenset(DataType(number) for number in range(1, 10))


def in_range(type_: DataType, number: int) -> bool:
    """Whether an integer type holds ``number``."""
    top = 1 << (INTEGER_BITS[type_] - 1)
    return -top <= number < top


def _bool_fault(value: Any) -> str:
    return "" if type(value) is bool else "is no truth value"


def _integer_fault(bits: int) -> Callable[[Any], str]:
    top = 1 << (bits - 1)

    def fault(value: Any) -> str:
        if type(value) is not int:
            return "is no integer"
        return "" if -top <= value < top else f"does not fit {bits} bits"

    return fault


def _float_fault(value: Any) -> str:
    if type(value) is not float:
        return "is no floating point number"
    return "" if value == value else "is NaN"


def _single_fault(value: Any) -> str:
    fault = _float_fault(value)
    if fault:
        return fault
    try:
        kept = _SINGLE.unpack(_SINGLE.pack(value))[0]
    except OverflowError:
        return "does not fit single precision"
    return "" if kept == value else "is not of single precision"


def _string_fault(value: Any) -> str:
    if type(value) is not str:
        return "is no text"
    if value.isascii():
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:
        return "has characters that UTF-8 does not have"
    return ""


def _bytes_fault(value: Any) -> str:
    return "" if type(value) is bytes else "is no bytes"


def _to_check(elements: tuple[Any, ...]) -> tuple[Any, ...]:
    """Elements of which one has a fault if any has; a set may have 60,000, each check 0.1 us."""
    types = set(map(type, elements))
    if types == {int}:
        return min(elements), max(elements)
    if types == {bytes} or (types == {str} and "".join(elements).isascii()):
        return elements[:1]
    return elements


def _set_fault(element_fault: Callable[[Any], str]) -> Callable[[Any], str]:
    def fault(value: Any) -> str:
        if type(value) is not tuple:
            return "is no set"
        for element in _to_check(value):
            found = element_fault(element)
            if found:
                return f"has an element that {found}"
        ascending = all(map(lt, value, islice(value, 1, None)))
        return "" if ascending else "is not in ascending order without repetitions"

    return fault


_PLAIN: Final[Mapping[DataType, Callable[[Any], str]]] = {
    DataType.BOOL: _bool_fault,
    **{type_: _integer_fault(bits) for type_, bits in INTEGER_BITS.items()},
    DataType.FLOAT: _single_fault,
    DataType.DOUBLE: _float_fault,
    DataType.STRING: _string_fault,
    DataType.BINARY: _bytes_fault,
    DataType.RAWBINARY: _bytes_fault,
}
_FAULTS: Final[Mapping[DataType, Callable[[Any], str]]] = {
    **_PLAIN,
    **{DataType(type_ + SET_OFFSET): _set_fault(_PLAIN[type_]) for type_ in KEY_TYPES},
}


def value_fault(type_: DataType, value: Value) -> str:
    """What is wrong with a value other than null, to follow the column's name; empty: nothing."""
    return _FAULTS[type_](value)


def suits(wanted: DataType, given: DataType) -> bool:
    """Whether a column of type ``wanted`` takes values of a type.

    Besides its own: RAWBINARY takes BINARY, as which the Java client types all bytes; an integer
    takes a shorter one, which loses nothing, as clients type integers by what their language has.
    """
    if given is wanted:
        return True
    if wanted is DataType.RAWBINARY:
        return given is DataType.BINARY
    return given in INTEGER_BITS and INTEGER_BITS[given] < INTEGER_BITS.get(wanted, 0)


def column_fault(wanted: DataType, datum: Datum) -> str:
    """What is wrong with a datum for a column that is written or compared; empty: nothing.

    Its type is one that `suits`, and null is a fault too.
    """
    if datum.type is not wanted and suits(wanted, datum.type):
        datum = Datum(wanted, datum.value)
    return datum_fault(wanted, datum)


def datum_fault(wanted: DataType, datum: Datum) -> str:
    """The same of a datum that must have the type itself, as in keys."""
    if datum.type is not wanted:
        return f"is of type {wanted.name}, but {datum.type.name} was given"
    if datum.value is None:
        return f"is of type {wanted.name}, but null was given"
    fault = _FAULTS[wanted](datum.value)
    return f"is of type {wanted.name}, but the given value {fault}" if fault else ""
