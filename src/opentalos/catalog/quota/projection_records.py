"""Projections of tenants' traffic in the MetaStore, many to a record: they change all at once."""

import json
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

from opentalos.catalog.quota.projection import (
    DAY_MS,
    Projection,
    check_projection,
    projection_fields,
    projection_of,
)
from opentalos.catalog.records.record_index import Codec, RecordIndex, record_path
from opentalos.model.errors import (
    BadRequest,
    CorruptLog,
    NewerFormat,
    QuotaExceeded,
)
from opentalos.ports.meta_store import MetaStore
from opentalos.wire.record_crc import checked, with_crc

PREFIX = "quota-projections"
FORMAT_VERSION = 1
SHARDS = 64  # records; a tenant's is the CRC of its name
SHARD_PROJECTIONS_MAX = 600  # of a record, so that the largest ones fit into its bytes
KEPT_MS = 90 * DAY_MS  # a projection that was not made again for so long is dropped
_Shard = Mapping[str, Projection]


class ProjectionCatalog:
    """All projections in memory, by tenant."""

    def __init__(self, meta: MetaStore) -> None:
        codec: Codec[_Shard] = Codec(encode_shard, decode_shard)
        self._records = RecordIndex(meta, PREFIX, codec, self._shard_changed)
        self._projections: dict[str, Projection] = {}

    async def start(self) -> None:
        """Load all projections."""
        await self._records.start()

    async def close(self) -> None:
        """Stop following changes of other servers."""
        await self._records.close()

    def all(self) -> Mapping[str, Projection]:
        """Every projection by tenant; a live view, not to be kept over an await."""
        return self._projections

    async def put(self, projections: Sequence[Projection]) -> None:
        """Store projections; one that was made earlier than what is stored changes nothing.

        Raises: QuotaExceeded: too many tenants; those of other records may be stored by then.
        """
        shards: dict[str, list[Projection]] = defaultdict(list)
        for projection in projections:
            check_projection(projection)
            shards[_shard_of(projection.tenant)].append(projection)
        for path, added in shards.items():
            await self._put(path, added)

    async def _put(self, path: str, added: Sequence[Projection]) -> None:
        await self._records.put(path, {}, lambda stored: merged(stored, added))

    def _shard_changed(self, path: str, old: _Shard | None, new: _Shard | None) -> None:
        for tenant in old or ():
            self._projections.pop(tenant, None)
        self._projections |= new or {}


def merged(stored: _Shard, added: Sequence[Projection]) -> _Shard:
    """A shard with the added projections; the latest of each tenant wins. Raises: QuotaExceeded."""
    shard = dict(stored)
    for new in added:
        if new.tenant not in shard or shard[new.tenant].made_ms <= new.made_ms:
            shard[new.tenant] = new
    newest_ms = max(projection.made_ms for projection in shard.values())
    kept = {
        tenant: projection
        for tenant, projection in shard.items()
        if projection.made_ms > newest_ms - KEPT_MS
    }
    if len(kept) > SHARD_PROJECTIONS_MAX:
        raise QuotaExceeded(
            f"projections of a record: limit {SHARD_PROJECTIONS_MAX}, measured {len(kept)}"
        )
    return kept


def encode_shard(shard: _Shard) -> bytes:
    """The record's value."""
    projections = list(map(projection_fields, shard.values()))
    record = {"version": FORMAT_VERSION, "projections": projections}
    return with_crc(json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode())


def decode_shard(value: bytes) -> _Shard:
    """Decode a record. Raises: NewerFormat; CorruptLog: not such a record."""
    try:
        record = json.loads(checked(value))
        if record["version"] != FORMAT_VERSION:
            raise NewerFormat(f"projection record has format {record['version']}, supported is 1")
        found = [projection_of(fields) for fields in record["projections"]]
    except (KeyError, TypeError, ValueError, BadRequest) as error:
        raise CorruptLog(f"invalid projection record: {error}") from error
    return {projection.tenant: projection for projection in found}


def _shard_of(tenant: str) -> str:
    return record_path(PREFIX, f"{zlib.crc32(tenant.encode()) % SHARDS:02d}")
