"""The record of a shard in the MetaStore: its epoch, its owner, and the last mark it issued."""

import json
from typing import NamedTuple

from opentalos.catalog.records.record_index import record_path
from opentalos.model.errors import (
    AlreadyExists,
    CorruptLog,
    NewerFormat,
    NotFound,
    OutcomeUnknown,
    StoreUnavailable,
    VersionConflict,
)
from opentalos.ports.meta_store import MetaStore

SHARD_RECORDS = "slices"  # folder of the records: a stored name, older than the word shard
FORMAT_VERSION = 1
ATTEMPTS_MAX = 8  # of a change that others overtake


class ShardRecord(NamedTuple):
    """``epoch`` grows with each claim. ``owner``: empty once it was released, with no write under
    way. ``mark_ms``: every change to come is later."""

    epoch: int
    owner: str
    mark_ms: int = 0


class HeldRecord(NamedTuple):
    """A record as this server wrote it."""

    record: ShardRecord
    version: int


def shard_path(table_uuid: str, number: int) -> str:
    """Where a shard's record lies."""
    return record_path(SHARD_RECORDS, table_uuid, str(number))


async def claim(meta: MetaStore, path: str, owner: str) -> tuple[HeldRecord, ShardRecord | None]:
    """Raise the epoch and name the owner; with what the record said before.

    Raises: StoreUnavailable and other Unavailable: not done; OutcomeUnknown: claim again.
    """
    for _ in range(ATTEMPTS_MAX):
        found = await meta.get(path)
        former = None if found is None else _decode(found.value)
        epoch, mark_ms = (former.epoch, former.mark_ms) if former else (0, 0)
        record = ShardRecord(epoch + 1, owner, mark_ms)
        try:
            if found is None:
                version = await meta.create(path, _encode(record))
            else:
                version = await meta.replace(path, _encode(record), found.version)
        except (AlreadyExists, VersionConflict, OutcomeUnknown):
            continue  # whatever is stored now, the next epoch belongs to this server alone
        return HeldRecord(record, version), former
    raise StoreUnavailable(f"{path}: other servers keep claiming this shard; retry")


async def change(meta: MetaStore, path: str, held: HeldRecord, record: ShardRecord) -> HeldRecord:
    """Replace what this server wrote.

    Raises: VersionConflict: another server has claimed the shard. OutcomeUnknown: it may have.
    """
    try:
        return HeldRecord(record, await meta.replace(path, _encode(record), held.version))
    except OutcomeUnknown:
        found = await meta.get(path)
        if found is None or _decode(found.value) not in (record, held.record):
            raise VersionConflict(f"{path}: claimed by another server") from None
        return HeldRecord(_decode(found.value), found.version)


async def remove_records(meta: MetaStore, table_uuid: str) -> None:
    """A dropped table's shards are gone. Raises: Unavailable, OutcomeUnknown: call again."""
    prefix = record_path(SHARD_RECORDS, table_uuid)
    for number in await meta.children(prefix):
        path = shard_path(table_uuid, int(number))
        found = await meta.get(path)
        if found is None:
            continue
        try:
            await meta.delete(path, found.version)
        except (NotFound, VersionConflict) as error:
            raise StoreUnavailable(f"{path} changes while it is removed") from error


def _encode(record: ShardRecord) -> bytes:
    document = {"version": FORMAT_VERSION, **record._asdict()}
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _decode(value: bytes) -> ShardRecord:
    try:
        document = json.loads(value)
        version = document.pop("version")
        if version != FORMAT_VERSION:
            raise NewerFormat(f"shard record of format {version}, this version reads up to 1")
        return ShardRecord(**document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptLog(f"unreadable shard record: {error!r}") from error
