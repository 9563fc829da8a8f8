"""Values of tables in a decoded call, checked in pieces: those of a call that is not short.

The gateway does it beside the event loop, right after decoding. What handlers then find in the
place of structs is checked already, or is the error that they would have found.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from opentalos.model.errors import ValidationFailed
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import CheckedColumns, Faulty, columns_from, from_struct
from opentalos.wire.thrift.message import Call, Pause
from opentalos.wire.thrift.spec import Field, ThriftType, TType

STEPS: Final = 256  # structs and columns between two pauses, less than 1 ms
COLUMNS: Final = 64  # converted in one step


def check_values(call: Call, pause: Pause) -> Call:
    """The call with its values checked. Never raises: a faulty one does so where it is used."""
    left = STEPS

    def spend(steps: int) -> None:
        nonlocal left
        left -= steps
        if left < 0:
            left = STEPS
            pause()

    checker = _Checker(pause, spend)
    fields = call.method.arguments
    arguments = [
        checker.argument(field.type, value)
        for field, value in zip(fields, call.arguments, strict=True)
    ]
    return call._replace(arguments=tuple(arguments))


class _Checker:
    """Checks what is inside one call."""

    def __init__(self, pause: Pause, spend: Callable[[int], None]) -> None:
        self._pause, self._spend = pause, spend

    def argument(self, kind: ThriftType, value: Any) -> Any:
        """An argument of the call, which may hold none."""
        return self.checked(kind, value) if value is not None and _holds_values(kind) else value

    def checked(self, kind: ThriftType, value: Any) -> Any:
        """A value of a type that holds values of tables."""
        self._spend(1)
        if kind.struct is sds.Datum:
            return self._or_fault(from_struct, value)
        if kind.ttype is TType.STRUCT:
            for field in _fields_with_values(kind.struct):
                found = getattr(value, field.name)
                if found is not None:
                    setattr(value, field.name, self.checked(field.type, found))
            return value
        item = kind.item
        assert item is not None
        if kind.ttype is not TType.MAP:
            return [self.checked(item, found) for found in value]
        if item.struct is sds.Datum:
            return self._or_fault(self._columns, value)
        return {key: self.checked(item, found) for key, found in value.items()}

    def _or_fault(self, convert: Callable[[Any, Pause], Any], value: Any) -> Any:
        try:
            return convert(value, self._pause)
        except ValidationFailed as error:
            return Faulty(error)

    def _columns(self, structs: dict[str, sds.Datum], pause: Pause) -> CheckedColumns:
        columns, names = CheckedColumns(), list(structs)
        for start in range(0, len(names), COLUMNS):
            part = {name: structs[name] for name in names[start : start + COLUMNS]}
            self._spend(len(part))
            columns.update(columns_from(part, pause))
        return columns


@cache
def _fields_with_values(struct: Any) -> tuple[Field, ...]:
    return tuple(field for field in struct.SPEC.fields if _holds_values(field.type))


@cache
def _holds_values(kind: ThriftType) -> bool:
    return _search(kind, ())


def _search(kind: ThriftType, inside: tuple[Any, ...]) -> bool:
    """Whether a type has values of tables in it."""
    if kind.struct is sds.Datum:
        return True
    if kind.struct is not None:
        if kind.struct in inside:
            return False
        within = (*inside, kind.struct)
        return any(_search(field.type, within) for field in kind.struct.SPEC.fields)
    return kind.item is not None and _search(kind.item, inside)
