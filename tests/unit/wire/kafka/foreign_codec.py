"""Another codec of Kafka's messages: kio, which is generated from the same definitions by others.

``drawn`` makes a value of one of its classes, ``plain`` what ours decodes to for that value.
"""

import io
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from types import NoneType
from typing import Any, get_args, get_origin
from uuid import UUID

import msgspec
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.protocol import Entity

from opentalos.wire.kafka.spec import KafkaStruct, includes

MILLISECOND = timedelta(milliseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32}
# Beyond these its own values do not survive: seconds are floating point numbers there.
_DELTA_MS_MAX = 10**12
_TIME_S_MAX = 10**9


def encoded(value: Entity) -> bytes:
    """Its bytes of one of its values."""
    out = io.BytesIO()
    entity_writer(type(value))(out, value)
    return out.getvalue()


def decoded(kind: type[Entity], raw: bytes) -> Entity:
    """Its value of bytes, all of them."""
    value, size = entity_reader(kind)(raw, 0)
    assert size == len(raw)
    return value


def _inner(annotation: Any) -> tuple[Any, bool]:
    """A type without None, and whether it had it."""
    parts = get_args(annotation)
    if NoneType not in parts:
        return annotation, False
    (found,) = (part for part in parts if part is not NoneType)
    return found, True


def drawn(kind: type[Entity], draw: Random) -> Any:
    """A value of a class; each of its fields is drawn."""
    make: Any = kind
    return make(**{part.name: _field(part, draw) for part in fields(make)})


def _field(part: Any, draw: Random) -> Any:
    annotation, optional = _inner(part.type)
    # It writes no null for a tagged field; the default is left out.
    if optional and draw.random() < 0.3 and "tag" not in part.metadata:
        return None
    if "tag" in part.metadata and draw.random() < 0.2:
        if part.default is None or part.default == ():
            return part.default
    name = part.metadata.get("kafka_type")
    if get_origin(annotation) is tuple:
        item = get_args(annotation)[0]
        return tuple(_value(item, name, draw) for _ in range(draw.randrange(3)))
    return _value(annotation, name, draw)


def _value(kind: Any, name: str | None, draw: Random) -> Any:
    if is_dataclass(kind):
        made: Any = kind
        return drawn(made, draw)
    if name == "string":
        return "".join(draw.choice("aé€😀 ") for _ in range(draw.randrange(200)))
    if name in ("bytes", "records"):
        return draw.randbytes(draw.randrange(300))
    if name == "uuid":
        return UUID(bytes=draw.randbytes(16))
    if name == "bool":
        return draw.random() < 0.5
    if name == "float64":
        return draw.random()
    if name == "uint16":
        return draw.randrange(1 << 16)
    if name == "error_code":
        return draw.choice(list(ErrorCode))
    if name == "datetime_i64":
        return EPOCH + timedelta(seconds=draw.randrange(_TIME_S_MAX))
    if name == "timedelta_i64":
        return draw.randrange(_DELTA_MS_MAX) * MILLISECOND
    half = 1 << (_BITS[name or ""] - 1)
    number = draw.randrange(-half, half)
    return number * MILLISECOND if name == "timedelta_i32" else number


def plain(value: Any) -> Any:
    """A value of either codec as dictionaries, lists and plain values, to compare."""
    if is_dataclass(value):
        shown = {part.name: _plain_field(part, getattr(value, part.name)) for part in fields(value)}
        return {_name(name): content for name, content in shown.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, timedelta):
        return value // MILLISECOND
    if isinstance(value, datetime):
        return (value - EPOCH) // MILLISECOND
    if isinstance(value, UUID):
        return value.bytes
    return bytes(value) if isinstance(value, memoryview) else value


def _name(name: str) -> str:
    """A field's name where theirs and ours agree: a duration of theirs needs no unit."""
    return name.rstrip("_").removesuffix("_ms")


def _plain_field(part: Any, value: Any) -> Any:
    if value is None and part.metadata.get("kafka_type") == "datetime_i64":
        return -1
    if value is None and part.metadata.get("kafka_type") == "uuid":
        return bytes(16)
    return plain(value)


def ours(value: KafkaStruct | Any, version: int) -> Any:
    """A value of our codec, with the fields that a version has."""
    if isinstance(value, list):
        return [ours(item, version) for item in value]
    if not isinstance(value, msgspec.Struct):
        return plain(value)
    shown: Any = value
    return {
        _name(field.name): ours(getattr(value, field.name), version)
        for field in shown.SPEC.fields
        if includes(field.versions, version)
    }
