"""What a structured table is, as its structs on the wire and as the model's values.

Parts of the protocol that tables do not have (global indexes, transactions) are ignored here.
Source: docs/protocol/sds.md#data-model.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from opentalos.model.change import StreamView
from opentalos.model.datum import DataType
from opentalos.model.errors import ValidationFailed
from opentalos.model.table import (
    AppRight,
    IndexMode,
    KeyPart,
    LocalIndex,
    StreamSpec,
    TableSchema,
    TableSpec,
    TeamRight,
)
from opentalos.wire._generated import sds

K = TypeVar("K")
S = TypeVar("S")
T = TypeVar("T")
Pause = Callable[[], None]

_PIECE_PARTS: Final = 128  # between two pauses
_DEFAULT_VIEW: Final = StreamView.MUTATE_LOG


def _no_pause() -> None:
    """No pause."""


def spec_to(spec: TableSpec) -> sds.TableSpec:
    """The struct of a table's schema and of what its owner decides about it."""
    throughput = None
    if spec.read_capacity is not None or spec.write_capacity is not None:
        throughput = sds.ProvisionThroughput(
            readCapacity=spec.read_capacity, writeCapacity=spec.write_capacity
        )
    metadata = sds.TableMetadata(
        description=spec.description or None,
        throughput=throughput,
        quota=None if spec.quota_bytes is None else sds.TableQuota(size=spec.quota_bytes),
        appAcl={who: [sds.CannedAcl(right) for right in may] for who, may in spec.app_acl.items()},
        acl={who: [sds.Permission(right) for right in may] for who, may in spec.team_acl.items()},
    )
    return sds.TableSpec(schema=schema_to(spec.schema), metadata=metadata)


def parts_of(struct: sds.TableSpec) -> int:
    """How many columns, parts of keys, indexes, streams and rights it lists."""
    schema, metadata = struct.schema or sds.TableSchema(), struct.metadata or sds.TableMetadata()
    group = schema.entityGroup or sds.EntityGroupSpec()
    listed: list[Any] = [group.attributes, schema.primaryIndex, schema.attributes, schema.streams]
    listed += [index.indexSchema for index in (schema.secondaryIndexes or {}).values()]
    for rights in (metadata.appAcl, metadata.acl):
        listed += (rights or {}).values()
    return sum([len(part or ()) + 1 for part in listed])


def spec_from(struct: sds.TableSpec, pause: Pause = _no_pause) -> TableSpec:
    """What a struct says of a table.

    Args:   pause: called after each piece of a large one.
    Raises: ValidationFailed: a part is missing or unknown.
    """
    if struct.schema is None:
        raise ValidationFailed("a table needs a schema")
    metadata = struct.metadata or sds.TableMetadata()
    throughput = metadata.throughput or sds.ProvisionThroughput()
    return TableSpec(
        schema=schema_from(struct.schema, pause),
        description=metadata.description or "",
        read_capacity=throughput.readCapacity,
        write_capacity=throughput.writeCapacity,
        app_acl=_rights(AppRight, metadata.appAcl, pause),
        team_acl=_rights(TeamRight, metadata.acl, pause),
        quota_bytes=None if metadata.quota is None else metadata.quota.size,
    )


def schema_to(schema: TableSchema) -> sds.TableSchema:
    """The struct of a schema."""
    group = None
    if schema.group:
        group = sds.EntityGroupSpec(attributes=_parts_to(schema.group), enableHash=schema.hashed)
    return sds.TableSchema(
        version=schema.version,
        entityGroup=group,
        primaryIndex=_parts_to(schema.primary),
        secondaryIndexes={name: _index_to(index) for name, index in schema.indexes.items()},
        attributes={name: sds.DataType(kind) for name, kind in schema.attributes.items()},
        ttl=schema.ttl_s,
        preSplits=schema.shards,
        streams={topic: _stream_to(spec) for topic, spec in schema.streams.items()},
    )


def schema_from(struct: sds.TableSchema, pause: Pause = _no_pause) -> TableSchema:
    """The schema of a struct. Raises: ValidationFailed: a part is missing or unknown."""
    group = struct.entityGroup
    attributes = _in_pieces(struct.attributes, partial(_one_of, DataType), pause)
    return TableSchema(
        primary=_parts_from(struct.primaryIndex, pause),
        group=() if group is None else _parts_from(group.attributes, pause),
        hashed=group is not None and group.enableHash,
        attributes=attributes,
        indexes=_in_pieces(struct.secondaryIndexes, lambda index: _index_from(index, pause), pause),
        streams=_in_pieces(struct.streams, _stream_from, pause),
        ttl_s=struct.ttl,
        shards=struct.preSplits,
        version=struct.version or 0,
    )


def _in_pieces(given: Mapping[K, T] | None, convert: Callable[[T], S], pause: Pause) -> dict[K, S]:
    found: dict[K, S] = {}
    for count, (name, value) in enumerate((given or {}).items(), 1):
        found[name] = convert(value)
        if count % _PIECE_PARTS == 0:
            pause()
    return found


def _parts_to(parts: Sequence[KeyPart]) -> list[sds.KeySpec]:
    return [sds.KeySpec(attribute=part.attribute, asc=part.ascending) for part in parts]


def _parts_from(parts: Sequence[sds.KeySpec] | None, pause: Pause) -> tuple[KeyPart, ...]:
    found: list[KeyPart] = []
    for count, part in enumerate(parts or (), 1):
        if count % _PIECE_PARTS == 0:
            pause()
        if not part.attribute:
            raise ValidationFailed("a part of a key names no column")
        found.append(KeyPart(part.attribute, part.asc))
    return tuple(found)


def _index_to(index: LocalIndex) -> sds.LocalSecondaryIndexSpec:
    return sds.LocalSecondaryIndexSpec(
        indexSchema=_parts_to(index.columns),
        projections=list(index.projections),
        consistencyMode=sds.SecondaryIndexConsistencyMode(index.mode),
        unique=index.unique,
    )


def _index_from(struct: sds.LocalSecondaryIndexSpec, pause: Pause) -> LocalIndex:
    return LocalIndex(
        columns=_parts_from(struct.indexSchema, pause),
        projections=tuple(struct.projections or ()),
        mode=_one_of(IndexMode, struct.consistencyMode),
        unique=struct.unique,
    )


def _stream_to(stream: StreamSpec) -> sds.StreamSpec:
    return sds.StreamSpec(
        enableStream=stream.enabled,
        viewType=sds.StreamViewType(stream.view),
        attributes=list(stream.attributes),
    )


def _stream_from(struct: sds.StreamSpec) -> StreamSpec:
    view = _DEFAULT_VIEW if struct.viewType is None else _one_of(StreamView, struct.viewType)
    attributes = tuple(struct.attributes or ())
    return StreamSpec(enabled=bool(struct.enableStream), view=view, attributes=attributes)


def _rights(
    kind: Any, given: Mapping[str, Sequence[int]] | None, pause: Pause
) -> dict[str, tuple[Any, ...]]:
    def named(may: Sequence[int]) -> tuple[Any, ...]:
        numbers = dict(enumerate(may))
        return tuple(_in_pieces(numbers, partial(_one_of, kind), pause).values())

    return _in_pieces(given, named, pause)


def _one_of(kind: Any, value: int) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise ValidationFailed(f"there is no {kind.__name__} {value}") from None
