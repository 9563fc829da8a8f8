"""A table's schema in its record: plain JSON values."""

from collections.abc import Mapping, Sequence
from typing import Any

from opentalos.model.change import StreamView
from opentalos.model.datum import DataType
from opentalos.model.table import (
    IndexMode,
    KeyPart,
    LocalIndex,
    StreamSpec,
    TableSchema,
)


def encode_schema(schema: TableSchema) -> dict[str, Any]:
    """The schema as JSON values."""
    return {
        "group": _encode_parts(schema.group),
        "primary": _encode_parts(schema.primary),
        "hashed": schema.hashed,
        "attributes": {name: kind.name for name, kind in schema.attributes.items()},
        "indexes": {
            name: {
                "columns": _encode_parts(index.columns),
                "projections": list(index.projections),
                "mode": index.mode.name,
                "unique": index.unique,
            }
            for name, index in schema.indexes.items()
        },
        "streams": {
            topic: {
                "enabled": spec.enabled,
                "view": spec.view.name,
                "attributes": list(spec.attributes),
            }
            for topic, spec in schema.streams.items()
        },
        "ttl_s": schema.ttl_s,
        "slices": schema.shards,
        "version": schema.version,
    }


def decode_schema(record: Mapping[str, Any]) -> TableSchema:
    """The schema of such values. Raises: KeyError, TypeError, ValueError: it is none."""
    return TableSchema(
        group=_decode_parts(record["group"]),
        primary=_decode_parts(record["primary"]),
        hashed=bool(record["hashed"]),
        attributes={name: DataType[kind] for name, kind in record["attributes"].items()},
        indexes={
            name: LocalIndex(
                columns=_decode_parts(index["columns"]),
                projections=tuple(index["projections"]),
                mode=IndexMode[index["mode"]],
                unique=bool(index["unique"]),
            )
            for name, index in record["indexes"].items()
        },
        streams={
            topic: StreamSpec(
                enabled=bool(spec["enabled"]),
                view=StreamView[spec["view"]],
                attributes=tuple(spec["attributes"]),
            )
            for topic, spec in record["streams"].items()
        },
        ttl_s=int(record["ttl_s"]),
        shards=int(record["slices"]),
        version=int(record["version"]),
    )


def _encode_parts(parts: Sequence[KeyPart]) -> list[list[str | bool]]:
    return [[part.attribute, part.ascending] for part in parts]


def _decode_parts(record: Sequence[Sequence[Any]]) -> tuple[KeyPart, ...]:
    return tuple(KeyPart(str(attribute), bool(ascending)) for attribute, ascending in record)
