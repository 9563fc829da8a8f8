"""Quota records in the MetaStore: of users, of organisations, and requests that wait."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import unquote

from opentalos.catalog.quotas import PartitionQuota, UserQuota
from opentalos.catalog.record_index import Codec, RecordIndex, record_path
from opentalos.catalog.topic import decode_quota, encode_quota
from opentalos.model.errors import (
    AlreadyExists,
    CorruptLog,
    NewerFormat,
    NotFound,
    QuotaExceeded,
    QuotaNotExist,
)
from opentalos.ports.meta_store import MetaStore

PREFIX = "quotas"
FORMAT_VERSION = 1
PENDING_MAX = 10_000  # requests that wait, whole service
_Value = UserQuota | PartitionQuota


class QuotaCatalog:
    """All quota records in memory; ``changed`` hears of every change."""

    def __init__(self, meta: MetaStore, changed: Callable[[], None] = lambda: None) -> None:
        self._changed = changed
        codec: Codec[_Value] = Codec(encode_quota_record, decode_quota_record)
        self._records = RecordIndex(meta, PREFIX, codec, self._record_changed)
        self._users: dict[str, UserQuota] = {}
        self._pending: dict[str, PartitionQuota] = {}
        self._approved: dict[str, PartitionQuota] = {}

    async def start(self) -> None:
        """Load all quotas."""
        await self._records.start()

    async def close(self) -> None:
        """Stop following changes of other servers."""
        await self._records.close()

    def user(self, user: str) -> UserQuota | None:
        """What was set for a user; sync."""
        return self._users.get(user)

    def users(self) -> Mapping[str, UserQuota]:
        """Every user quota that was set."""
        return self._users

    def approved(self) -> Mapping[str, PartitionQuota]:
        """What was approved, by organisation."""
        return self._approved

    def pending(self) -> Mapping[str, PartitionQuota]:
        """Requests that wait, by organisation."""
        return self._pending

    async def set_user(self, user: str, quota: UserQuota) -> None:
        """Set or overwrite a user's quota."""
        await self._put(record_path(PREFIX, "user", user), quota)

    async def delete_user(self, user: str) -> None:
        """Back to the defaults. Raises: QuotaNotExist."""
        quota = self._users.get(user)
        if quota is None:
            raise QuotaNotExist(f"no quota was set for user {user[:80]}")
        await self._records.remove(record_path(PREFIX, "user", user), quota)

    async def set_pending(self, wanted: PartitionQuota) -> None:
        """Store a request; it replaces one that still waits."""
        if wanted.organisation not in self._pending and len(self._pending) >= PENDING_MAX:
            raise QuotaExceeded(
                f"pending quota requests: limit {PENDING_MAX}, measured {len(self._pending)}"
            )
        await self._put(record_path(PREFIX, "pending", wanted.organisation), wanted)

    async def approve(self, quota: PartitionQuota) -> None:
        """Grant partitions; the request, if one waits, is answered by it."""
        await self._put(record_path(PREFIX, "org", quota.organisation), quota)
        await self.drop_pending(quota.organisation)

    async def revoke(self, organisation: str) -> None:
        """Take an approval back: the default holds again. Raises: QuotaNotExist."""
        approved = self._approved.get(organisation)
        if approved is None:
            raise QuotaNotExist(f"no quota was approved for organisation {organisation[:80]}")
        await self._records.remove(record_path(PREFIX, "org", organisation), approved)

    async def drop_pending(self, organisation: str) -> None:
        """Remove a request, if one waits."""
        wanted = self._pending.get(organisation)
        if wanted is not None:
            await self._records.remove(record_path(PREFIX, "pending", organisation), wanted)

    async def _put(self, path: str, value: _Value) -> None:
        try:
            await self._records.change(path, lambda stored: value)
        except NotFound:
            try:
                await self._records.create(path, value)
            except AlreadyExists:  # another server was quicker; the last one to write wins
                await self._records.change(path, lambda stored: value)

    def _record_changed(self, path: str, old: _Value | None, new: _Value | None) -> None:
        kind, key = path.split("/")[1], path
        if old is not None:
            self._forget(kind, key, old)
        if isinstance(new, UserQuota):
            self._users[user_of(key)] = new
        elif isinstance(new, PartitionQuota):
            index = self._approved if kind == "org" else self._pending
            index[new.organisation] = new
        self._changed()

    def _forget(self, kind: str, path: str, old: _Value) -> None:
        if isinstance(old, UserQuota):
            self._users.pop(user_of(path), None)
        else:
            index = self._approved if kind == "org" else self._pending
            index.pop(old.organisation, None)


def user_of(path: str) -> str:
    """The user id in a record's path."""
    return unquote(path.rpartition("/")[2])


def encode_quota_record(value: _Value) -> bytes:
    """The record's value."""
    record: dict[str, Any] = {"version": FORMAT_VERSION}
    if isinstance(value, UserQuota):
        record["user"] = {"rates": encode_quota(value.rates), "topics": value.topics}
    else:
        record["partitions"] = asdict(value)
    return json.dumps(record, separators=(",", ":")).encode()


def decode_quota_record(value: bytes) -> _Value:
    """Read a record. Raises: NewerFormat; CorruptLog for anything that is no such record."""
    try:
        record = json.loads(value)
        if record["version"] != FORMAT_VERSION:
            raise NewerFormat(f"quota record of format {record['version']}")
        if "user" in record:
            rates = decode_quota(record["user"]["rates"])
            if rates is None:
                raise CorruptLog("a user quota without rates")
            return UserQuota(rates=rates, topics=record["user"]["topics"])
        return PartitionQuota(**record["partitions"])
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptLog(f"unreadable quota record: {error!r}") from error
