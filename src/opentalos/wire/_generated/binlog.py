"""Generated from idl/binlog.thrift by scripts/generate_thrift.py; do not edit."""

from __future__ import annotations

from enum import IntEnum

from opentalos.wire.thrift.spec import (
    BOOL,
    DOUBLE,
    I32,
    I64,
    STRING,
    Field,
    ThriftStruct,
    enum_of,
    list_of,
    struct_of,
    struct_spec,
)


class ColumnType(IntEnum):
    """binlog.thrift: enum ColumnType."""

    BOOLEAN = 0
    TINYINT = 1
    SMALLINT = 2
    MEDIUMINT = 3
    INT = 4
    BIGINT = 5
    REAL = 6
    DOUBLE = 7
    FLOAT = 8
    DECIMAL = 9
    NUMERIC = 10
    CHAR = 11
    VARCHAR = 12
    TIMESTAMP = 13
    UNSIGNEDINT = 14
    ENUM = 15
    UNSIGNEDTINYINT = 16
    UNSIGNEDSMALLINT = 17
    UNSIGNEDMEDIUMINT = 18
    UNSIGNEDBIGINT = 19
    DATE = 20
    DATETIME = 21
    TIME = 22
    JSON = 23
    YEAR = 24
    SET = 25


class Operation(IntEnum):
    """binlog.thrift: enum Operation."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    DUMP = 3
    ADD_COLUMNS = 4
    DROP_COLUMNS = 5


class Column(ThriftStruct, kw_only=True):
    """binlog.thrift: Column."""

    boolValue: bool | None = None
    i32Value: int | None = None
    i64Value: int | None = None
    doubleValue: float | None = None
    stringValue: str | None = None


class ColumnSchema(ThriftStruct, kw_only=True):
    """binlog.thrift: ColumnSchema."""

    name: str
    type: ColumnType | int | None = None
    defaultValue: Column | None = None


class Row(ThriftStruct, kw_only=True):
    """binlog.thrift: Row."""

    row: list[Column]


class Binlog(ThriftStruct, kw_only=True):
    """binlog.thrift: Binlog."""

    timestamp: int
    operationType: Operation | int
    schema: list[ColumnSchema]
    rows: list[Row] | None = None
    database: str | None = None
    table: str | None = None
    primaryKey: list[str] | None = None
    oldRows: list[Row] | None = None


Column.SPEC = struct_spec(
    Column,
    Field(1, "boolValue", BOOL),
    Field(2, "i32Value", I32),
    Field(3, "i64Value", I64),
    Field(4, "doubleValue", DOUBLE),
    Field(5, "stringValue", STRING),
)
ColumnSchema.SPEC = struct_spec(
    ColumnSchema,
    Field(1, "name", STRING, required=True),
    Field(2, "type", enum_of(ColumnType)),
    Field(3, "defaultValue", struct_of(Column)),
)
Row.SPEC = struct_spec(
    Row,
    Field(1, "row", list_of(struct_of(Column)), required=True),
)
Binlog.SPEC = struct_spec(
    Binlog,
    Field(1, "timestamp", I64, required=True),
    Field(2, "operationType", enum_of(Operation), required=True),
    Field(3, "schema", list_of(struct_of(ColumnSchema)), required=True),
    Field(4, "rows", list_of(struct_of(Row))),
    Field(5, "database", STRING),
    Field(6, "table", STRING),
    Field(7, "primaryKey", list_of(STRING)),
    Field(8, "oldRows", list_of(struct_of(Row))),
)
