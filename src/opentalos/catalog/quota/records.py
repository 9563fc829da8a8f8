"""Quota records in the MetaStore: of users, of organisations, and requests that wait.

Grants are counted one after the other over all servers: the record of the latest grants changes by
compare-and-set before a grant's own record is written, so two servers never give away the same
capacity (``QuotaCatalog.grant``).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import unquote

from opentalos.catalog.quota.quotas import PartitionQuota, UserQuota
from opentalos.catalog.records.record_index import Codec, RecordIndex, record_path
from opentalos.catalog.topics.topic import decode_quota, encode_quota
from opentalos.model.errors import (
    AlreadyExists,
    CorruptLog,
    NewerFormat,
    QuotaExceeded,
    QuotaNotExist,
    StoreUnavailable,
)
from opentalos.ports.meta_store import MetaStore
from opentalos.wire.record_crc import checked, with_crc

PREFIX = "quotas"
FORMAT_VERSION = 1
PENDING_MAX = 10_000  # requests that wait, whole service
LATEST_MAX = 64  # grants that a server may have to look up to know all of them
GRANT_ATTEMPTS_MAX = 16  # a grant that others keep overtaking is not done
WRITTEN_MS = 60_000  # a grant is written so long after it was counted, or never


@dataclass(frozen=True, slots=True)
class LatestGrants:
    """The latest grants of the whole cluster, the last one last; ``serial`` counts all ever."""

    serial: int = 0
    grants: tuple[PartitionQuota, ...] = ()

    def with_grant(self, grant: PartitionQuota) -> "LatestGrants":
        """One more."""
        return LatestGrants(self.serial + 1, (*self.grants, grant)[-LATEST_MAX:])


_Value = UserQuota | PartitionQuota | LatestGrants
Granted = Mapping[str, PartitionQuota]  # by organisation


class _Overtaken(Exception):
    """Another grant was counted meanwhile."""


class QuotaCatalog:
    """All quota records in memory; ``changed`` hears of every change."""

    def __init__(self, meta: MetaStore, changed: Callable[[], None] = lambda: None) -> None:
        self._changed = changed
        codec: Codec[_Value] = Codec(encode_quota_record, decode_quota_record)
        self._records = RecordIndex(meta, PREFIX, codec, self._record_changed)
        self._users: dict[str, UserQuota] = {}
        self._pending: dict[str, PartitionQuota] = {}
        self._approved: dict[str, PartitionQuota] = {}
        self._serial = 0  # of the latest grant that is certainly in memory

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
            raise QuotaNotExist(f"user {user[:80]} has no quota of their own")
        await self._records.remove(record_path(PREFIX, "user", user), quota)

    async def set_pending(self, wanted: PartitionQuota) -> None:
        """Store a request; it replaces one that still waits."""
        if wanted.organisation not in self._pending and len(self._pending) >= PENDING_MAX:
            raise QuotaExceeded(
                f"pending quota requests: limit {PENDING_MAX}, measured {len(self._pending)}"
            )
        await self._put(record_path(PREFIX, "pending", wanted.organisation), wanted)

    async def grant(
        self, judge: Callable[[Granted], PartitionQuota | None], now_ms: int
    ) -> PartitionQuota | None:
        """Grant what ``judge`` makes of everything granted so far by any server, or nothing.

        The organisation's request, if one waits, is answered by it.


        Args: judge: may be asked several times; only its last answer holds.
        Raises: StoreUnavailable: others keep overtaking it: not done.
        """
        for _ in range(GRANT_ATTEMPTS_MAX):
            latest = await self._look()
            quota = judge(self._with(latest, now_ms))
            if quota is None:
                return None
            try:
                await self._count(latest, quota)
            except _Overtaken:
                continue
            await self._put(_org_path(quota), quota)
            await self.drop_pending(quota.organisation)
            return quota
        raise StoreUnavailable("too many concurrent grants; retry")

    async def revoke(self, organisation: str) -> None:
        """Take an approval back: the default holds again. Raises: QuotaNotExist."""
        approved = self._approved.get(organisation)
        if approved is None:
            raise QuotaNotExist(f"organisation {organisation[:80]} has no approved quota")
        await self._records.remove(record_path(PREFIX, "org", organisation), approved)

    async def drop_pending(self, organisation: str) -> None:
        """Remove a request, if one waits."""
        wanted = self._pending.get(organisation)
        if wanted is not None:
            await self._records.remove(record_path(PREFIX, "pending", organisation), wanted)

    async def _look(self) -> LatestGrants:
        """The latest grants as they are now; what they name is then in memory as it is stored."""
        await self._records.refresh(_LATEST)
        found = self._records.get(_LATEST)
        latest = found if isinstance(found, LatestGrants) else LatestGrants()
        unseen = latest.serial - self._serial
        if unseen > len(latest.grants):
            await self._records.reload()
        elif unseen:
            for path in {_org_path(grant) for grant in latest.grants[-unseen:]}:
                await self._records.refresh(path)
        self._serial = latest.serial
        return latest

    def _with(self, latest: LatestGrants, now_ms: int) -> Granted:
        """What is granted, with what is counted and may still be written."""
        granted = dict(self._approved)
        for grant in latest.grants:
            known = granted.get(grant.organisation)
            written = known is not None and known.granted_ms >= grant.granted_ms
            if not written and grant.granted_ms > now_ms - WRITTEN_MS:
                granted[grant.organisation] = grant
        return granted

    async def _count(self, latest: LatestGrants, quota: PartitionQuota) -> None:
        """Raises: _Overtaken."""

        def counted(stored: _Value) -> _Value:
            if stored != latest:
                raise _Overtaken
            return latest.with_grant(quota)

        if self._records.get(_LATEST) is None:
            try:
                await self._records.create(_LATEST, latest.with_grant(quota))
            except AlreadyExists as error:
                raise _Overtaken from error
        else:
            await self._records.change(_LATEST, counted)
        self._serial = latest.serial + 1

    async def _put(self, path: str, value: _Value) -> None:
        # The last one to write wins.
        await self._records.put(path, value, lambda stored: value)

    def _record_changed(self, path: str, old: _Value | None, new: _Value | None) -> None:
        kind, key = path.split("/")[1], path
        if old is not None:
            self._forget(kind, key, old)
        if isinstance(new, LatestGrants):
            return  # read when something is granted
        if isinstance(new, UserQuota):
            self._users[user_of(key)] = new
        elif isinstance(new, PartitionQuota):
            index = self._approved if kind == "org" else self._pending
            index[new.organisation] = new
        self._changed()

    def _forget(self, kind: str, path: str, old: _Value) -> None:
        if isinstance(old, UserQuota):
            self._users.pop(user_of(path), None)
        elif isinstance(old, PartitionQuota):
            index = self._approved if kind == "org" else self._pending
            index.pop(old.organisation, None)


_LATEST = record_path(PREFIX, "latest", "grants")


def _org_path(quota: PartitionQuota) -> str:
    return record_path(PREFIX, "org", quota.organisation)


def user_of(path: str) -> str:
    """The user id in a record's path."""
    return unquote(path.rpartition("/")[2])


def encode_quota_record(value: _Value) -> bytes:
    """The record's value."""
    record: dict[str, Any] = {"version": FORMAT_VERSION}
    if isinstance(value, UserQuota):
        record["user"] = {"rates": encode_quota(value.rates), "topics": value.topics}
    elif isinstance(value, LatestGrants):
        grants = [asdict(grant) for grant in value.grants]
        record["latest"] = {"serial": value.serial, "grants": grants}
    else:
        record["partitions"] = asdict(value)
    return with_crc(json.dumps(record, separators=(",", ":")).encode())


def decode_quota_record(value: bytes) -> _Value:
    """Read a record. Raises: NewerFormat; CorruptLog for anything that is no such record."""
    try:
        record = json.loads(checked(value))
        if record["version"] != FORMAT_VERSION:
            raise NewerFormat(f"quota record has format {record['version']}, supported is 1")
        if "user" in record:
            rates = decode_quota(record["user"]["rates"])
            if rates is None:
                raise CorruptLog("invalid quota record: a user quota without rates")
            return UserQuota(rates=rates, topics=record["user"]["topics"])
        if "latest" in record:
            grants = tuple(PartitionQuota(**grant) for grant in record["latest"]["grants"])
            return LatestGrants(record["latest"]["serial"], grants)
        return PartitionQuota(**record["partitions"])
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptLog(f"invalid quota record: {error}") from error
