"""Schemas of structured tables as JSON, as sent and as shown."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from opentalos.gateway.rest.routing.schema import (
    Schema,
    boolean,
    either,
    fields,
    integer,
    items,
    nullable,
    one_of,
    table,
    text,
)
from opentalos.gateway.rest.table.row_format import NAMES
from opentalos.model.change import StreamView
from opentalos.model.datum import DataType
from opentalos.model.table import (
    NEVER,
    IndexMode,
    KeyPart,
    LocalIndex,
    StreamSpec,
    TableSchema,
)

I32_MAX = (1 << 31) - 1
COLUMNS_MAX = 1_000  # of a request; the server's own bound is lower
KEY_COLUMNS_MAX = 32
INDEXES_MAX = 32
STREAMS_MAX = 32
_T = TypeVar("_T")

_TYPES = {kind.name.lower(): kind for kind in DataType}
_VIEWS = {view.name.lower().replace("_", "-"): view for view in StreamView}
_MODES = {mode.name.lower(): mode for mode in IndexMode}
_NAME = text(chars_min=1, chars_max=256)
_TYPE = one_of(*_TYPES)
_PART = either(_NAME, fields(column=_NAME, optional={"descending": boolean("Descending order.")}))
PARTS = items(_PART, minimum=1, maximum=KEY_COLUMNS_MAX)
INDEX = fields(
    columns=PARTS,
    optional={
        "mode": one_of(*_MODES, about="Default eager."),
        "projections": {**NAMES, "description": "Columns stored with the entries."},
    },
)
STREAM = fields(
    optional={
        "enabled": boolean("Default true."),
        "view": one_of(*_VIEWS, about="Default mutate-log."),
        "columns": {**NAMES, "description": "Columns besides the key; empty: all."},
    }
)
TTL = nullable(
    integer(1, I32_MAX, about="Seconds after a row's last write until it expires; null: never.")
)
COLUMNS = table(_TYPE, _NAME, minimum=1, maximum=COLUMNS_MAX)
_INDEXES = table(INDEX, _NAME, maximum=INDEXES_MAX)
_STREAMS = table(STREAM, _NAME, maximum=STREAMS_MAX)
SCHEMA_FIELDS: Mapping[str, Schema] = {
    "group": {
        **items(_PART, maximum=KEY_COLUMNS_MAX),
        "description": "Entity group, the first part of the key.",
    },
    "hashed": boolean("Distribute rows by the hash of the group."),
    "shards": integer(
        1, 1 << 16, about="Shards, each owned by one server; more than one only if hashed."
    ),
    "slices": integer(1, 1 << 16, about="Former name of shards."),
    "indexes": _INDEXES,
    "streams": _STREAMS,
    "ttl_s": TTL,
}
CHANGE_FIELDS: Mapping[str, Schema] = {
    "columns": table(nullable(_TYPE), _NAME, maximum=COLUMNS_MAX),
    "indexes": {
        **table({"type": "null"}, _NAME, maximum=INDEXES_MAX),
        "description": "Indexes to drop.",
    },
    "ttl_s": TTL,
}
_SHOWN_PART = fields(column=text(), descending=boolean())
SHOWN_STREAM: Mapping[str, Schema] = {
    "enabled": boolean(),
    "view": one_of(*_VIEWS),
    "columns": items(text()),
}
SHOWN: Mapping[str, Schema] = {
    "group": items(_SHOWN_PART),
    "key": items(_SHOWN_PART),
    "hashed": boolean(),
    "shards": integer(1),
    "slices": integer(1, about="Former name of shards."),
    "columns": table(_TYPE),
    "indexes": table(
        fields(columns=items(_SHOWN_PART), mode=one_of(*_MODES), projections=items(text()))
    ),
    "streams": table(fields(**SHOWN_STREAM)),
    "ttl_s": nullable(integer()),
    "schema_version": integer(),
}


def schema_of(sent: Mapping[str, Any]) -> TableSchema:
    """The schema of a new table."""
    ttl_s = sent.get("ttl_s")
    return TableSchema(
        primary=_parts(sent["key"]),
        group=_parts(sent.get("group", ())),
        hashed=sent.get("hashed", False),
        attributes={name: _TYPES[kind] for name, kind in sent["columns"].items()},
        indexes={name: index_of(index) for name, index in sent.get("indexes", {}).items()},
        streams={name: stream_of(stream) for name, stream in sent.get("streams", {}).items()},
        ttl_s=NEVER if ttl_s is None else ttl_s,
        shards=sent.get("shards", sent.get("slices", 1)),
    )


def changed(schema: TableSchema, sent: Mapping[str, Any]) -> TableSchema:
    """The schema after a change; null removes a column or index."""
    attributes = {name: kind and _TYPES[kind] for name, kind in sent.get("columns", {}).items()}
    dropped: Mapping[str, None] = sent.get("indexes", {})
    ttl_s = sent.get("ttl_s", schema.ttl_s)
    return replace(
        schema,
        attributes=_merged(schema.attributes, attributes),
        indexes=_merged(schema.indexes, dropped),
        ttl_s=NEVER if ttl_s is None else ttl_s,
    )


def with_stream(schema: TableSchema, topic: str, stream: StreamSpec | None) -> TableSchema:
    """The schema with this stream, or without it."""
    return replace(schema, streams=_merged(schema.streams, {topic: stream}))


def stream_of(sent: Mapping[str, Any]) -> StreamSpec:
    """A stream that fits ``STREAM``."""
    return StreamSpec(
        enabled=sent.get("enabled", True),
        view=_VIEWS[sent.get("view", "mutate-log")],
        attributes=tuple(sent.get("columns", ())),
    )


def index_of(sent: Mapping[str, Any]) -> LocalIndex:
    """An index that fits ``INDEX``."""
    return LocalIndex(
        columns=_parts(sent["columns"]),
        projections=tuple(sent.get("projections", ())),
        mode=_MODES[sent.get("mode", "eager")],
    )


def shown(schema: TableSchema) -> dict[str, Any]:
    """A schema as JSON that fits ``SHOWN``."""
    return {
        "group": _shown_parts(schema.group),
        "key": _shown_parts(schema.primary),
        "hashed": schema.hashed,
        "shards": schema.shards,
        "slices": schema.shards,  # former name, for one version
        "columns": {name: kind.name.lower() for name, kind in schema.attributes.items()},
        "indexes": {name: _shown_index(index) for name, index in schema.indexes.items()},
        "streams": {name: shown_stream(stream) for name, stream in schema.streams.items()},
        "ttl_s": None if schema.ttl_s == NEVER else schema.ttl_s,
        "schema_version": schema.version,
    }


def shown_stream(stream: StreamSpec) -> dict[str, Any]:
    """A stream as JSON."""
    return {
        "enabled": stream.enabled,
        "view": stream.view.name.lower().replace("_", "-"),
        "columns": list(stream.attributes),
    }


def _shown_index(index: LocalIndex) -> dict[str, Any]:
    return {
        "columns": _shown_parts(index.columns),
        "mode": index.mode.name.lower(),
        "projections": list(index.projections),
    }


def _parts(sent: Sequence[Any]) -> tuple[KeyPart, ...]:
    return tuple(
        KeyPart(part) if isinstance(part, str)
        else KeyPart(part["column"], ascending=not part.get("descending", False))
        for part in sent
    )  # fmt: skip


def _shown_parts(parts: Sequence[KeyPart]) -> list[dict[str, Any]]:
    return [{"column": part.attribute, "descending": not part.ascending} for part in parts]


def _merged(before: Mapping[str, _T], change: Mapping[str, _T | None]) -> dict[str, _T]:
    both = {**before, **change}
    return {name: value for name, value in both.items() if value is not None}
