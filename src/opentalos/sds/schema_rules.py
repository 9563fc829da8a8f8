"""Which schemas a table may have, and which changes of a schema are allowed.

Columns may be added at any time. A column may be dropped or change its type if no key, no index and
no enabled stream has it (a stream without a list has all). Its stored values are not removed, but
neither read nor published any more; they are visible again if the column returns with its former
type.
Source: docs/protocol/sds.md#data-model.
"""

import re
from collections.abc import Collection
from typing import Final

from opentalos.model.errors import NotSupported, SizeExceeded, ValidationFailed
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import NEVER, KeyPart, LocalIndex, TableSchema
from opentalos.sds.value_rules import KEY_TYPES

NAME_BYTES_MAX: Final = 128  # of a column
INDEX_COLUMNS_MAX: Final = 8
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f`]")  # a condition quotes a name with `
_INDEX_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}", re.ASCII)


def check_schema(schema: TableSchema, limits: SdsLimits) -> None:
    """Refuse a schema that no table can have.

    Raises: ValidationFailed, SizeExceeded (too many of something), NotSupported (unique indexes).
    """
    _check_counts(schema, limits)
    for name in schema.attributes:
        _check_name(name)
    _check_key(schema)
    if schema.ttl_s != NEVER and schema.ttl_s < 1:
        raise ValidationFailed(
            f"ttl of {schema.ttl_s} s: need 1 or more, or {NEVER} to keep records forever"
        )
    for name, index in schema.indexes.items():
        _check_index(schema, name, index)
    for topic, stream in schema.streams.items():
        if not topic:
            raise ValidationFailed("a stream needs the name of a topic")
        _known(schema, stream.attributes, f"the stream to {topic}")


def _check_counts(schema: TableSchema, limits: SdsLimits) -> None:
    counts = (
        ("columns", len(schema.attributes), limits.attributes_max),
        ("indexes", len(schema.indexes), limits.indexes_max),
        ("streams", len(schema.streams), limits.streams_max),
        ("shards", schema.shards, limits.shards_max),
    )
    for what, count, most in counts:
        if count > most:
            raise SizeExceeded(f"{count} {what} in the schema, at most {most}")


def _check_name(name: str) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= NAME_BYTES_MAX or _CONTROL.search(name):
        raise ValidationFailed(
            f"column name {name!r}: need 1 to {NAME_BYTES_MAX} bytes of UTF-8 without control"
            " characters and `"
        )


def _check_key(schema: TableSchema) -> None:
    if not schema.primary:
        raise ValidationFailed("the schema needs a primary key")
    _check_parts(schema, (*schema.group, *schema.primary), "the key")
    if schema.hashed and not schema.group:
        raise ValidationFailed("only an entity group can be hashed, and the schema has none")
    if schema.shards < 1:
        raise ValidationFailed(f"{schema.shards} shards: need 1 or more")
    if schema.shards > 1 and not schema.hashed:
        raise ValidationFailed(
            f"{schema.shards} shards: only hashed entity groups can be pre-split"
        )


def _check_parts(schema: TableSchema, parts: Collection[KeyPart], what: str) -> None:
    names = [part.attribute for part in parts]
    _known(schema, names, what)
    for name in names:
        if schema.attributes[name] not in KEY_TYPES:
            raise ValidationFailed(
                f"{what}: column {name} is of type {schema.attributes[name].name}, need one of"
                f" {', '.join(type_.name for type_ in sorted(KEY_TYPES))}"
            )


def _known(schema: TableSchema, names: Collection[str], what: str) -> None:
    seen = set()
    for name in names:
        if name not in schema.attributes:
            raise ValidationFailed(f"{what}: the schema has no column {name}")
        if name in seen:
            raise ValidationFailed(f"{what}: column {name} is named twice")
        seen.add(name)


def _check_index(schema: TableSchema, name: str, index: LocalIndex) -> None:
    what = f"the index {name}"
    if not _INDEX_NAME.fullmatch(name):
        raise ValidationFailed(f"index name {name!r}: need 1 to 64 letters, digits, _ and -")
    if index.unique:
        raise NotSupported(f"{what}: unique indexes are not supported")
    if not schema.group:
        raise ValidationFailed(f"{what}: local indexes need an entity group")
    if not 0 < len(index.columns) <= INDEX_COLUMNS_MAX:
        count = len(index.columns)
        raise ValidationFailed(f"{what} has {count} columns, need 1 to {INDEX_COLUMNS_MAX}")
    _check_parts(schema, index.columns, what)
    group = {part.attribute for part in schema.group}
    for part in index.columns:
        if part.attribute in group:
            raise ValidationFailed(f"{what}: column {part.attribute} is in the entity group")
    if index.columns == schema.primary[: len(index.columns)]:
        raise ValidationFailed(f"{what} is the beginning of the primary key")
    _known(schema, index.projections, what)


def check_change(old: TableSchema, new: TableSchema) -> None:
    """Refuse a schema that kept `check_schema` but cannot follow ``old`` on a table with records.

    Indexes can be dropped, not added or changed: nothing would build the entries of the records
    that are there. Raises: ValidationFailed, NotSupported (indexes).
    """
    fixed = (
        ("primary key", old.primary, new.primary),
        ("entity group", old.group, new.group),
        ("hash of the entity group", old.hashed, new.hashed),
        ("number of shards", old.shards, new.shards),
    )
    for what, before, after in fixed:
        if before != after:
            raise ValidationFailed(f"the {what} of a table cannot change")
    for name, index in new.indexes.items():
        if old.indexes.get(name) != index:
            raise NotSupported(f"the index {name}: a table's indexes cannot be added or changed")
    for topic, stream in new.streams.items():
        former = old.streams.get(topic)
        if former and former.enabled and stream.enabled and former.view is not stream.view:
            raise ValidationFailed(f"the stream to {topic} cannot change its view while enabled")
    for name, type_ in old.attributes.items():
        if new.attributes.get(name) is not type_:
            _check_free(old, new, name)


def _check_free(old: TableSchema, new: TableSchema, name: str) -> None:
    """A column may go or change its type if no key, index or enabled stream has it."""
    what = "removed" if name not in new.attributes else "of another type"
    users = [("key", name in new.key_columns)]
    users += [
        (f"index {index_name}", name in _index_names(index))
        for index_name, index in new.indexes.items()
    ]
    users += [
        (f"stream to {topic}", not stream.attributes or name in stream.attributes)
        for topic, stream in new.streams.items()
        if stream.enabled and topic in old.streams and old.streams[topic].enabled
    ]
    for user, names_it in users:
        if names_it:
            raise ValidationFailed(f"column {name} cannot be {what}: the {user} has it")


def _index_names(index: LocalIndex) -> set[str]:
    return {part.attribute for part in index.columns} | set(index.projections)
