"""Messages of streams as the SDS client's own values and compact protocol write them.

Prints one JSON object: name to the bytes as hexadecimal digits. The client is older than some
fields and than KEYS_ONLY, so the outer structs are written field by field.
"""

import json
import sys
from typing import Any, NamedTuple

from sds.table.ttypes import DataType, Datum, MutationType, Value
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TType

TIME_MS = 1_700_000_000_123
TABLE = "accounts"


class Bytes:
    """A transport; the client's own one keeps text."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, part: str | bytes) -> None:
        """Keep what the protocol writes; a text has one byte per character."""
        self.parts.append(part.encode("latin-1") if isinstance(part, str) else part)

    def hex(self) -> str:
        """All of it as digits."""
        return b"".join(self.parts).hex()


def datum(type_name: str, branch: str, value: Any) -> Any:
    return Datum(type=getattr(DataType, type_name), value=Value(**{branch: value}))


KEY = {
    "user": datum("STRING", "stringValue", "bob"),
    "day": datum("INT32", "int32Value", -20231114),
}
ALL_TYPES = {
    "bool": datum("BOOL", "boolValue", True),
    "int8": datum("INT8", "int8Value", -128),
    "int16": datum("INT16", "int16Value", 32767),
    "int32": datum("INT32", "int32Value", -(2**31)),
    "int64": datum("INT64", "int64Value", 2**63 - 1),
    "float": datum("FLOAT", "doubleValue", 0.5),
    "double": datum("DOUBLE", "doubleValue", -0.1),
    "string": datum("STRING", "stringValue", "text"),
    "binary": datum("BINARY", "binaryValue", b"\x00\xff"),
    "bools": datum("BOOL_SET", "boolSetValue", [False, True]),
    "int8s": datum("INT8_SET", "int8SetValue", [-1, 0, 1]),
    "int16s": datum("INT16_SET", "int16SetValue", [-300, 300]),
    "int32s": datum("INT32_SET", "int32SetValue", list(range(20))),
    "int64s": datum("INT64_SET", "int64SetValue", []),
    "floats": datum("FLOAT_SET", "doubleSetValue", [0.25]),
    "doubles": datum("DOUBLE_SET", "doubleSetValue", [-1.5, 2.5]),
    "strings": datum("STRING_SET", "stringSetValue", ["a", "b"]),
    "binaries": datum("BINARY_SET", "binarySetValue", [b"", b"\xfe"]),
    "nothing": datum("INT64", "nullValue", True),
}
COUNT = {"count": datum("INT64", "int64Value", 12)}
AMOUNTS = {"count": datum("INT64", "int64Value", 5)}


class Field(NamedTuple):
    """One field of an outer struct. Source: idl/sds.thrift."""

    id: int
    ttype: int
    value: Any


def log(record: Any, kind: int, deleted: bool, amounts: Any = None) -> list[Field]:
    fields = [Field(1, TType.MAP, record), Field(2, TType.I32, kind)]
    fields += [Field(3, TType.BOOL, deleted), Field(4, TType.I64, TIME_MS)]
    if amounts is not None:
        fields.append(Field(5, TType.MAP, amounts))
    return [*fields, Field(6, TType.STRING, TABLE)]


def image(record: Any, deleted: bool) -> list[Field]:
    fields = [Field(1, TType.MAP, record), Field(2, TType.BOOL, deleted)]
    return [*fields, Field(3, TType.I64, TIME_MS), Field(4, TType.STRING, TABLE)]


ENTRIES = {
    "log_put": log({**KEY, **ALL_TYPES}, MutationType.PUT, False),
    "log_increment": log({**KEY, **COUNT}, MutationType.INCREMENT, False, AMOUNTS),
    "log_delete_row": log(KEY, MutationType.DELETE, True),
    "log_delete_columns": log({**KEY, **COUNT}, MutationType.DELETE, False),
    "image": image({**KEY, **ALL_TYPES}, False),
    "image_deleted": image(KEY, True),
    "keys_only": [
        Field(1, TType.MAP, KEY),
        Field(2, TType.I64, TIME_MS),
        Field(3, TType.STRING, TABLE),
    ],
}


def write_value(protocol: Any, field: Field) -> None:
    if field.ttype == TType.MAP:
        protocol.writeMapBegin(TType.STRING, TType.STRUCT, len(field.value))
        for name, value in field.value.items():
            protocol.writeString(name)
            value.write(protocol)
        protocol.writeMapEnd()
        return
    write = {
        TType.BOOL: protocol.writeBool,
        TType.I32: protocol.writeI32,
        TType.I64: protocol.writeI64,
        TType.STRING: protocol.writeString,
    }
    write[field.ttype](field.value)


def written(fields: list[Field]) -> str:
    out = Bytes()
    protocol = TCompactProtocol(out)
    protocol.writeStructBegin("entry")
    for field in fields:
        protocol.writeFieldBegin("", field.ttype, field.id)
        write_value(protocol, field)
        protocol.writeFieldEnd()
    protocol.writeFieldStop()
    protocol.writeStructEnd()
    return out.hex()


sys.stdout.write(json.dumps({name: written(fields) for name, fields in ENTRIES.items()}))
