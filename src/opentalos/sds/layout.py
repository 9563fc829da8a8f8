"""What the formats need to know of a schema, worked out once for each schema object."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from opentalos.model.datum import DataType
from opentalos.model.table import IndexMode, KeyPart, LocalIndex, TableSchema

LAYOUTS_MAX: Final = 4_096  # kept at once; schemas beyond are worked out again
COLUMN_PREFIX: Final = b"="  # of the cell of a column; the column's name follows


class KeyColumn(NamedTuple):
    """One part of a key as it is stored."""

    name: str
    type: DataType
    ascending: bool


class Layout:
    """A schema that kept the rules (`sds/schema_rules.py`), in the form that each row needs it."""

    __slots__ = (
        "cells",
        "group",
        "immutable",
        "index_keys",
        "indexed",
        "key",
        "key_names",
        "schema",
        "types",
    )

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.group = len(schema.group)  # so many leading columns of the key are hashed
        self.key = _columns(schema, (*schema.group, *schema.primary))
        self.key_names = names = frozenset(column.name for column in self.key)
        self.types = {name: type_ for name, type_ in schema.attributes.items() if name not in names}
        self.cells = {name: COLUMN_PREFIX + name.encode() for name in self.types}
        self.index_keys = {
            name: _columns(schema, index_parts(schema, index))
            for name, index in schema.indexes.items()
        }
        self.indexed = _in_indexes(schema.indexes.values())
        self.immutable = _in_indexes(
            index for index in schema.indexes.values() if index.mode is IndexMode.IMMUTABLE
        )


def index_parts(schema: TableSchema, index: LocalIndex) -> tuple[KeyPart, ...]:
    """Key of an index entry: the group, the indexed columns, what remains of the primary key."""
    indexed = {part.attribute for part in index.columns}
    rest = (part for part in schema.primary if part.attribute not in indexed)
    return (*schema.group, *index.columns, *rest)


def _columns(schema: TableSchema, parts: Sequence[KeyPart]) -> tuple[KeyColumn, ...]:
    return tuple(
        KeyColumn(part.attribute, schema.attributes[part.attribute], part.ascending)
        for part in parts
    )


def _in_indexes(indexes: Iterable[LocalIndex]) -> frozenset[str]:
    return frozenset(part.attribute for index in indexes for part in index.columns)


_layouts: dict[int, Layout] = {}  # by identity: a layout keeps its schema, so no id is used twice


def layout_of(schema: TableSchema) -> Layout:
    """The layout of a schema that kept the rules; fast if the same object is asked for again."""
    layout = _layouts.get(id(schema))
    if layout is None:
        if len(_layouts) >= LAYOUTS_MAX:
            _layouts.clear()
        layout = _layouts[id(schema)] = Layout(schema)
    return layout
