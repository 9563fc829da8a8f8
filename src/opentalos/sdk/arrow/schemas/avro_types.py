"""Arrow types of Avro schemas.

A union of null and one type is that type, nullable; of int and long it is long, of float and double
double. Refused are what a column cannot be: other unions, types that contain themselves, and arrays
whose items take no bytes, since a few bytes could claim to be billions of them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from opentalos.model.errors import ConfigError

Convert = Callable[[Any], Any]
# fastavro decodes these logical types; the values of others are those of the type below.
LOGICAL_TYPES: Final = frozenset(
    (
        *("date", "decimal", "timestamp-millis", "timestamp-micros"),
        *("local-timestamp-millis", "local-timestamp-micros"),
    )
)
_PRIMITIVES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Final = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_BYTES: Final = {"boolean": 1, "float": 4, "double": 8}  # else at least one
_WIDER: Final = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}
_DIGITS_MAX: Final = 38  # of Arrow's and Spark's decimals


class AvroType(NamedTuple):
    """``convert`` prepares a value that fastavro decoded for pyarrow; None: nothing to do."""

    arrow: Any
    convert: Convert | None
    bytes_min: int  # of an encoded value
    nullable: bool = False


class AvroTypes:
    """Types of one schema, which ``fastavro.parse_schema`` returned: its names are full."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}
        self._open: set[str] = set()  # being translated: a reference to one is a recursion

    def of(self, schema: Any) -> AvroType:
        """The type of a schema. Raises: ConfigError: it has none."""
        if isinstance(schema, str):
            return self._of_name(schema)
        if isinstance(schema, list):
            return self._of_union(schema)
        kind = schema["type"]
        if isinstance(kind, list | dict):
            return self.of(kind)
        if kind == "array":
            return self._of_array(schema)
        if kind == "map":
            return self._of_map(schema)
        if kind in ("record", "error", "enum", "fixed"):
            return self._of_definition(schema)
        return self._of_logical(schema) or self._of_name(kind)

    def _of_name(self, name: str) -> AvroType:
        if name in _PRIMITIVES:
            return AvroType(_PRIMITIVES[name], None, _BYTES.get(name, 1))
        if name in self._open:
            raise ConfigError(f"the type {name} contains itself: a column has no such type")
        if name not in self._named:
            raise ConfigError(f"the type {name} alone is not supported")
        return self._named[name]

    def _of_union(self, branches: list[Any]) -> AvroType:
        others = [branch for branch in branches if branch != "null"]
        if all(isinstance(branch, str) for branch in others):
            wider = _WIDER.get(frozenset(others))
            others = [wider] if wider else others
        if len(others) != 1:
            raise ConfigError(
                f"a union of {len(others)} types is not supported; use null and one type"
            )
        found = self.of(others[0])
        if "null" not in branches:
            return found
        return found._replace(
            convert=found.convert and _unless_null(found.convert), nullable=True, bytes_min=1
        )

    def _of_array(self, schema: Mapping[str, Any]) -> AvroType:
        items = self.of(schema["items"])
        if not items.bytes_min:
            raise ConfigError("an array of items that take no bytes is not supported")
        field = pa.field("element", items.arrow, items.nullable)
        return AvroType(pa.list_(field), items.convert and _for_each(items.convert), 1)

    def _of_map(self, schema: Mapping[str, Any]) -> AvroType:
        values = self.of(schema["values"])
        field = pa.field("value", values.arrow, values.nullable)
        return AvroType(pa.map_(pa.string(), field), _pairs(values.convert), 1)

    def _of_definition(self, schema: Mapping[str, Any]) -> AvroType:
        """A type with a name, which others can refer to."""
        name = schema["name"]
        self._open.add(name)
        if schema["type"] == "enum":
            found = AvroType(pa.string(), None, 1)
        elif schema["type"] == "fixed":
            found = self._of_logical(schema) or AvroType(pa.binary(), None, schema["size"])
        else:
            found = self._of_record(schema)
        self._open.remove(name)
        self._named[name] = found
        return found

    def _of_record(self, schema: Mapping[str, Any]) -> AvroType:
        fields = {field["name"]: self.of(field["type"]) for field in schema["fields"]}
        arrow = pa.struct([pa.field(name, it.arrow, it.nullable) for name, it in fields.items()])
        converts = {name: it.convert for name, it in fields.items() if it.convert is not None}
        size = sum(it.bytes_min for it in fields.values())
        return AvroType(arrow, _fields(converts) if converts else None, size)

    def _of_logical(self, schema: Mapping[str, Any]) -> AvroType | None:
        logical = schema.get("logicalType")
        if logical == "decimal":
            digits, scale = schema.get("precision"), schema.get("scale", 0)
            if type(digits) is not int or not 0 < digits <= _DIGITS_MAX:
                raise ConfigError(f"a decimal has the precision {digits}: use 1 to {_DIGITS_MAX}")
            return AvroType(pa.decimal128(digits, scale), None, 1)
        return AvroType(_LOGICAL[logical], None, 1) if logical in _LOGICAL else None


def _unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _for_each(convert: Convert) -> Convert:
    return lambda values: [convert(value) for value in values]


def _pairs(convert: Convert | None) -> Convert:
    """pyarrow wants the pairs of a map."""
    if convert is None:
        return lambda value: list(value.items())
    return lambda value: [(key, convert(item)) for key, item in value.items()]


def _fields(converts: Mapping[str, Convert]) -> Convert:
    def convert(value: dict[str, Any]) -> dict[str, Any]:
        for name, field in converts.items():
            value[name] = field(value[name])
        return value

    return convert
