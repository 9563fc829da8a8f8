"""The largest requests that a declaration allows: one for each array in it, filled to the limits.

A request is made from what declares it, a struct of Thrift or a schema of REST, so whoever adds a
method or a field adds its requests. Names of fields decide what a value is, so that the requests
fit what ``tests/unit/gateway/crowded.py`` stores and reach the code behind the checks.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from opentalos.gateway.rest.routing.route import Route
from opentalos.gateway.rest.routing.schema import Schema, check
from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import BadRequest
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import branch_of, to_struct
from opentalos.wire.thrift import ThriftProtocol, encode_call
from opentalos.wire.thrift.spec import MethodSpec, ThriftStruct, ThriftType, TType

SLACK: Final = 0.95  # since items are not of the same size
SETS: Final = ("doubleSetValue",)  # of a value: the one that takes longest to check

Path = tuple[str, ...]
# The value of a field, by its name and the item's number; None: any, and left out if it may be.
Named = Callable[[str, int], Any]


class Sizes(NamedTuple):
    """How many items the arrays of a request have."""

    last: int  # the array that a path leads to
    outer: int = 1  # the outermost array around it; others have one


class Largest(NamedTuple):
    """A request: what its array is called, and its body."""

    array: str
    body: bytes


def _fewer(size: Sizes, sent: int, bytes_max: int) -> Sizes:
    """The number of items whose request fits, from one that was too large."""
    fewer = size._replace(last=int(size.last * SLACK * bytes_max / sent))
    assert fewer.last, "a request with one item fits"
    return fewer


# --- Thrift --------------------------------------------------------------------------------------


def arrays_of(kind: ThriftType, path: Path = (), inside: tuple[Any, ...] = ()) -> Iterator[Path]:
    """Paths of all lists, sets and maps in a type."""
    if kind.ttype is TType.STRUCT:
        struct = kind.struct
        assert struct is not None
        if struct in inside:
            return
        if struct is sds.Datum:
            yield from ((*path, "value", branch) for branch in SETS)
            return
        for field in struct.SPEC.fields:
            yield from arrays_of(field.type, (*path, field.name), (*inside, struct))
    elif kind.ttype in (TType.LIST, TType.SET, TType.MAP):
        yield path
        for part in (kind.key, kind.item):
            if part is not None:
                yield from arrays_of(part, (*path, "*"), inside)


class ThriftRequests:
    """Requests of a method. Args: named: values of texts and numbers, by the field's name."""

    def __init__(self, protocol: ThriftProtocol, named: Named, bytes_max: int) -> None:
        self._protocol, self._named, self._bytes_max = protocol, named, bytes_max

    def of(self, method: MethodSpec, sizes: tuple[Sizes, ...]) -> Iterator[Largest]:
        """The method's requests; the first one has an item in each array."""
        yield Largest("", self._encoded(method, None, Sizes(1)))
        for argument in method.arguments:
            for path in arrays_of(argument.type, (argument.name,)):
                for size in sizes:
                    if size.outer == 1 or "*" in path:
                        array = ".".join(path[1:]) or path[0]
                        body = self._fitting(method, path, size)
                        yield Largest(f"{array} {size.outer}x{size.last}", body)

    def _fitting(self, method: MethodSpec, path: Path, size: Sizes) -> bytes:
        while True:
            body = self._encoded(method, path, size)
            if len(body) <= self._bytes_max:
                return body
            size = _fewer(size, len(body), self._bytes_max)

    def _encoded(self, method: MethodSpec, path: Path | None, size: Sizes) -> bytes:
        arguments = [
            self._value(
                argument.type,
                argument.name,
                path[1:] if path is not None and path[0] == argument.name else None,
                (size, 0),
            )
            for argument in method.arguments
        ]
        return encode_call(self._protocol, method, 1, *arguments)

    def _value(self, kind: ThriftType, name: str, path: Path | None, at: tuple[Sizes, int]) -> Any:
        """A value; ``path`` leads from it to the large array, None: it is not inside."""
        size, number = at
        match kind.ttype:
            case TType.STRUCT:
                assert kind.struct is not None
                return self._struct(kind.struct, path, at)
            case TType.LIST | TType.SET | TType.MAP:
                count = 1 if path is None else size.outer if path else size.last
                inner = path[1:] if path else None
                numbers = range(number, number + count)
                assert kind.item is not None
                item = f"item of {name}"
                within = size._replace(outer=1)
                values = [self._value(kind.item, item, inner, (within, n)) for n in numbers]
                if kind.ttype is TType.SET:
                    return set(values)
                if kind.key is None:
                    return values
                key = f"key of {name}"
                keys = [self._value(kind.key, key, None, (size, n)) for n in numbers]
                return dict(zip(keys, values, strict=True))
            case TType.BOOL:
                return False
            case TType.DOUBLE:
                return float(number)
            case TType.STRING:
                found = self._named(name, number)
                text = f"n{number}" if found is None else str(found)
                return text if kind.text else text.encode()
        found = self._named(name, number)
        if isinstance(found, int):
            return found
        if kind.enum:
            return min(kind.enum)
        return number % 100 if kind.ttype in (TType.BYTE, TType.I16) else number

    def _struct(
        self, struct: type[ThriftStruct], path: Path | None, at: tuple[Sizes, int]
    ) -> ThriftStruct:
        if struct is sds.Datum:
            return self._datum(path, at)
        fields = {field.name: field for field in struct.SPEC.fields}
        if struct is sds.Request:  # a union: the branch that leads to the array
            branch = path[0] if path else "putRequest"
            fields = {branch: fields[branch]}
        fields = {
            name: field
            for name, field in fields.items()
            if field.required
            or (path is not None and path[:1] == (name,))
            or self._named(name, 0) is not None
        }
        values = {
            name: self._value(field.type, name, path[1:] if path and path[0] == name else None, at)
            for name, field in fields.items()
        }
        if struct is sds.BatchRequestItem:
            branch = path[1] if path else "putRequest"
            values["action"] = sds.BatchOp[branch.removesuffix("Request").upper()]
        if struct is sds.ScanAction:
            branch = path[1] if path else "putRequest"
            actions = {"removeRequest": sds.ScanOp.DELETE, "putRequest": sds.ScanOp.UPDATE}
            values["action"] = actions.get(branch, sds.ScanOp.UPDATE)
        return struct(**values)

    @staticmethod
    def _datum(path: Path | None, at: tuple[Sizes, int]) -> sds.Datum:
        size, number = at
        if not path:
            return to_struct(Datum(DataType.INT64, number))
        branch = path[1]
        kind = next(type_ for type_ in DataType if branch_of(type_) == branch)
        value = sds.Value()
        setattr(value, branch, list(map(float, range(size.last))))
        return sds.Datum(type=sds.DataType(kind.value), value=value)


# --- REST ----------------------------------------------------------------------------------------


def arrays_of_schema(schema: Schema, path: Path = ()) -> Iterator[Path]:
    """Paths of all arrays, and of objects whose fields are data."""
    for keyword in ("oneOf", "anyOf"):
        for index, part in enumerate(schema.get(keyword, ())):
            yield from arrays_of_schema(part, (*path, f"{keyword}{index}"))
    for name, part in schema.get("properties", {}).items():
        yield from arrays_of_schema(part, (*path, name))
    if schema.get("type") == "array":
        yield path
        yield from arrays_of_schema(schema["items"], (*path, "*"))
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping):
        yield path
        yield from arrays_of_schema(others, (*path, "*"))


class RestRequests:
    """Bodies of a route."""

    def __init__(self, named: Named) -> None:
        self._named = named

    def of(self, route: Route, sizes: tuple[Sizes, ...]) -> Iterator[Largest]:
        """The route's bodies; the first one has what is required alone. Each fits its schema."""
        assert route.body is not None
        schema, bytes_max = route.body.schema, route.body.bytes_max
        yield Largest("", self._text(schema, None, Sizes(1)))
        for path in arrays_of_schema(schema):
            for size in sizes:
                if size.outer == 1 or "*" in path:
                    while len(text := self._text(schema, path, size)) > bytes_max:
                        size = _fewer(size, len(text), bytes_max)
                    yield Largest(f"{'.'.join(path)} {size.outer}x{size.last}", text)

    def _text(self, schema: Schema, path: Path | None, size: Sizes) -> bytes:
        return json.dumps(self._value(schema, "", path, (size, 0))).encode()

    def _value(self, schema: Schema, name: str, path: Path | None, at: tuple[Sizes, int]) -> Any:
        size, number = at
        for keyword in ("oneOf", "anyOf"):
            if keyword in schema:
                index, inner = 0, None
                if path and path[0].startswith(keyword):
                    index, inner = int(path[0].removeprefix(keyword)), path[1:]
                return self._value(schema[keyword][index], name, inner, at)
        count = 1 if path is None else size.outer if path else size.last
        inner = path[1:] if path else None
        match schema.get("type"):
            case "object":
                return self._object(schema, name, path, at)
            case "array":
                count = min(max(count, schema.get("minItems", 0)), schema.get("maxItems", count))
                within = size._replace(outer=1)
                return [
                    self._value(schema["items"], f"item of {name}", inner, (within, n))
                    for n in range(number, number + count)
                ]
            case "integer":
                found = self._named(name, number)
                wanted = found if isinstance(found, int) else number
                return min(max(wanted, schema["minimum"]), schema["maximum"])
            case "number":
                return number
            case "boolean":
                return False
            case "string":
                return self._string(schema, name, number)
        return self._named(name, number)  # any JSON

    def _object(self, schema: Schema, name: str, path: Path | None, at: tuple[Sizes, int]) -> Any:
        size, number = at
        known = schema.get("properties", {})
        wanted = [*schema.get("required", ()), *(path[:1] if path else ())]
        found = {
            key: self._value(known[key], key, path[1:] if path and path[0] == key else None, at)
            for key in dict.fromkeys(wanted)
            if key in known
        }
        others = schema.get("additionalProperties")
        if isinstance(others, Mapping):
            count = 1 if path is None else size.outer if path else size.last
            count = min(count, schema.get("maxProperties", count))
            for n in range(number, number + count):
                key = str(self._named(f"key of {name}", n))
                inner = path[1:] if path else None
                within = size._replace(outer=1)
                found[key] = self._value(others, key, inner, (within, n))
        elif not found and schema.get("minProperties"):
            key = next(iter(known))
            found[key] = self._value(known[key], key, None, at)
        return found

    def _string(self, schema: Schema, name: str, number: int) -> str:
        if "enum" in schema:
            return str(schema["enum"][0])
        if "contentEncoding" in schema:
            return "eA=="
        for text in (str(self._named(name, number)), f"n{number}", f"CL{number}", f"{number}"):
            try:
                check(schema, text, name)
            except BadRequest:
                continue
            return text
        raise AssertionError(f"no text fits {schema}")
