"""TenantKeys: the key ring of a server, loaded from the MetaStore.

Each tenant has data keys of its own, wrapped by the server key. A new version replaces a key for
what is stored from then on; former versions stay for reading, so nothing is ever rewritten. With
another server key, only the wrapped keys are written again.

A server without the right server key must not start: it would answer with ciphertext, or wrap new
keys that no other server could unwrap. ``encryption/server-key`` says which one is right.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from opentalos.catalog.encryption.record import (
    SERVER_KEY,
    TENANTS,
    TenantRecord,
    WrappedKey,
    decode_server_key,
    decode_tenant,
    encode_server_key,
    encode_tenant,
    tenant_path,
)
from opentalos.catalog.principals.secret_box import SecretBox
from opentalos.catalog.records.record_index import Codec, RecordIndex
from opentalos.model.errors import (
    AlreadyExists,
    ConfigError,
    NewerFormat,
    PartitionNotServing,
    QuotaExceeded,
    TalosError,
    VersionConflict,
)
from opentalos.ports.clock import Clock
from opentalos.ports.key_ring import KEY_ID_BYTES, DataKey
from opentalos.ports.meta_store import MetaStore

DATA_KEY_BYTES: Final = 32  # AES-256
VERSIONS_MAX: Final = 1_000  # of one tenant's key: a record of about 200 KiB
MADE_AT_ONCE: Final = 64  # records, at the start of a server
RETRY_S: Final = 1.0  # after keys could not be made
AGES_CHECKED_S: Final = 600.0  # between two checks for keys that are to be rotated
_NAME_BYTES: Final = 8
_NAME_OF_KEY: Final = b"opentalos name of an encryption key 1"

MakeKey = Callable[[bytes, bytes, Callable[[int], bytes]], DataKey]

_log: Final = logging.getLogger("opentalos.catalog")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionPlan:
    """Server keys and cipher. ``boxes``: the first wraps, the others only unwrap; the names in
    ``sources`` say for people where each key is from. ``make_key``: id, key, random bytes."""

    boxes: Sequence[SecretBox]
    sources: Sequence[str]
    make_key: MakeKey
    enabled: bool = True  # False: what is stored from now on is not encrypted
    rotate_after_s: float = 0.0  # age at which a data key gets a new version; 0: never by itself


class KeyFigures(NamedTuple):
    """Keys at this moment. ``server_key``: name of the one that wraps."""

    enabled: bool
    server_key: str
    tenants: int
    versions: int


class TenantKeys:
    """See ports/key_ring.py, and the module. Without a plan it knows no key, and only checks that
    none is needed."""

    def __init__(self, meta: MetaStore, clock: Clock, plan: EncryptionPlan | None) -> None:
        self._meta, self._clock, self._plan = meta, clock, plan
        self.enabled = plan is not None and plan.enabled  # for what is stored from now on
        codec = Codec(encode_tenant, decode_tenant)
        self._records = RecordIndex(meta, TENANTS, codec, self._changed)
        self._boxes = {_name(box): box for box in plan.boxes} if plan else {}
        self.server_key = _name(plan.boxes[0]) if plan else ""
        self._by_id: dict[bytes, DataKey] = {}
        self._current: dict[str, DataKey] = {}
        self._problems: dict[str, str] = {}  # why a tenant's keys cannot be used, by path
        self._wanted: dict[str, None] = {}  # tenants whose key has to be made
        self._task: asyncio.Task[None] | None = None
        self._aging: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Check the server key, load all keys, wrap again what a former server key wrapped.

        Raises: ConfigError: the server key is missing or another one; NewerFormat, CorruptLog.
        """
        stored = await self._meta.get(SERVER_KEY)
        wrapper = "" if stored is None else decode_server_key(stored.value)
        if self._plan is None:
            if wrapper:
                raise ConfigError(
                    "cannot start without an encryption key: messages here are encrypted (server "
                    f"key {wrapper}); set [encryption] key_file or key_command"
                )
            return
        if wrapper and wrapper not in self._boxes:
            given = ", ".join(
                f"{source} is key {name}"
                for source, name in zip(self._plan.sources, self._boxes, strict=False)
            )
            raise ConfigError(
                f"cannot use the encryption key: server key {wrapper} wraps the data keys here, "
                f"but {given}; set [encryption] to that key. Without it nothing can be decrypted"
            )
        await self._records.start()
        if self._problems:
            path, problem = next(iter(self._problems.items()))
            raise ConfigError(f"record {path}: {problem}")
        if wrapper or self._plan.enabled:
            await self._wrap_again()
            await self._mark(wrapper)
        if self.enabled and self._plan.rotate_after_s:
            rotating = self._rotate_by_age(self._plan.rotate_after_s)
            self._aging = asyncio.create_task(rotating, name="rotate data keys by age")

    async def close(self) -> None:
        """Stop following changes of other servers."""
        tasks = [task for task in (self._task, self._aging) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._task = self._aging = None
        await self._records.close()

    # --- key ring -------------------------------------------------------------------------------

    def current(self, tenant: str) -> DataKey | None:
        """See the port."""
        if not self.enabled:
            return None
        key = self._current.get(tenant)
        if key is not None:
            return key
        self.ensure_soon(tenant)
        problem = self._problems.get(tenant_path(tenant), "being made")
        raise PartitionNotServing(f"data key of {tenant}: {problem}; try again")

    def find(self, key_id: bytes) -> DataKey | None:
        """See the port."""
        return self._by_id.get(key_id)

    async def refresh(self, tenant: str) -> None:
        """See the port. Raises: Unavailable."""
        if self._plan is not None:
            await self._records.refresh(tenant_path(tenant))

    # --- keys -----------------------------------------------------------------------------------

    @property
    def figures(self) -> KeyFigures:
        """For people."""
        return KeyFigures(self.enabled, self.server_key, len(self._current), len(self._by_id))

    def has(self, tenant: str) -> bool:
        """Whether the tenant has a key."""
        return tenant in self._current

    async def ensure(self, tenants: Iterable[str]) -> None:
        """Make a key for each of these tenants that has none. Raises: Unavailable."""
        if not self.enabled:
            return
        missing = [tenant for tenant in dict.fromkeys(tenants) if tenant not in self._current]
        for at in range(0, len(missing), MADE_AT_ONCE):
            await asyncio.gather(*map(self._make, missing[at : at + MADE_AT_ONCE]))

    def ensure_soon(self, tenant: str) -> None:
        """The same in the background, for one that another server has just made known."""
        if not self.enabled or tenant in self._current:
            return
        self._wanted[tenant] = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._make_wanted(), name="make data keys")

    async def rotate(self, tenants: Iterable[str] | None = None) -> int:
        """New versions of all keys, or of these tenants'; how many were made.

        What is stored from now on has the new version.
        Raises: QuotaExceeded: a tenant has too many; Unavailable: some may be made.
        """
        wanted = list(self._current if tenants is None else tenants)
        for tenant in wanted:
            path = tenant_path(tenant)
            if self._records.get(path) is None:
                await self._make(tenant)
            else:
                await self._records.change(path, self._with_new_version)
        return len(wanted)

    async def rotate_older(self, age_s: float) -> int:
        """New versions of keys that are so old; how many this server made. Others may do so too.

        Raises: QuotaExceeded, Unavailable: as ``rotate``.
        """
        before_ms = self._clock.wall_ms() - int(age_s * 1_000)
        made: set[bytes] = set()  # ids; not all of them were stored

        def replaced(record: TenantRecord) -> TenantRecord:
            if record.keys[-1].created_ms > before_ms:
                return record  # another server was faster
            changed = self._with_new_version(record)
            made.add(changed.keys[-1].id)
            return changed

        count = 0
        for path, record in list(self._records.items()):
            if record.keys[-1].created_ms <= before_ms:
                changed = await self._records.change(path, replaced)
                count += changed.keys[-1].id in made
        return count

    async def _rotate_by_age(self, age_s: float) -> None:
        while True:
            try:
                count = await self.rotate_older(age_s)
            except TalosError as error:
                _log.warning("could not rotate all data keys by age: %s; retrying", error)
            else:
                if count:
                    _log.info("data keys rotated by age: %d", count)
            await asyncio.sleep(AGES_CHECKED_S)

    def _with_new_version(self, record: TenantRecord) -> TenantRecord:
        if len(record.keys) >= VERSIONS_MAX:
            raise QuotaExceeded(
                f"data keys of {record.tenant}: limit {VERSIONS_MAX} versions, measured "
                f"{len(record.keys)}"
            )
        return record._replace(keys=(*record.keys, self._new_version(record.tenant)))

    def _new_version(self, tenant: str) -> WrappedKey:
        key_id, key = self._clock.token(KEY_ID_BYTES), self._clock.token(DATA_KEY_BYTES)
        return self._wrapped(tenant, key_id, self._clock.wall_ms(), key)

    def _wrapped(self, tenant: str, key_id: bytes, created_ms: int, key: bytes) -> WrappedKey:
        wrapped = self._boxes[self.server_key].seal(key, _purpose(tenant, key_id))
        return WrappedKey(key_id, created_ms, self.server_key, wrapped)

    async def _make(self, tenant: str) -> None:
        record = TenantRecord(tenant, (self._new_version(tenant),))
        with contextlib.suppress(AlreadyExists):  # another server was faster
            await self._records.create(tenant_path(tenant), record)

    async def _make_wanted(self) -> None:
        while self._wanted:
            tenants = list(self._wanted)
            try:
                await self.ensure(tenants)
            except TalosError as error:
                _log.warning("could not make data keys: %s; retrying", error)
                await asyncio.sleep(RETRY_S)
                continue
            for tenant in tenants:
                self._wanted.pop(tenant, None)

    # --- server key -----------------------------------------------------------------------------

    async def _wrap_again(self) -> None:
        """Replace what a former server key wrapped. Another server may do so at the same time."""
        former = [
            path
            for path, record in self._records.items()
            if any(key.by != self.server_key for key in record.keys)
        ]
        for path in former:
            await self._records.change(path, self._wrapped_again)
        if former:
            _log.info(
                "server key %s wraps the data keys of %d tenants", self.server_key, len(former)
            )

    def _wrapped_again(self, record: TenantRecord) -> TenantRecord:
        keys = []
        for key in record.keys:
            if key.by != self.server_key:
                plain = self._unwrapped(record.tenant, key)
                key = self._wrapped(record.tenant, key.id, key.created_ms, plain)
            keys.append(key)
        return record._replace(keys=tuple(keys))

    async def _mark(self, former: str) -> None:
        """Say which server key wraps. Raises: ConfigError: another server just said another."""
        if former == self.server_key:
            return
        value, stored = encode_server_key(self.server_key), await self._meta.get(SERVER_KEY)
        with contextlib.suppress(AlreadyExists, VersionConflict):
            if stored is None:
                await self._meta.create(SERVER_KEY, value)
            else:
                await self._meta.replace(SERVER_KEY, value, stored.version)
        stored = await self._meta.get(SERVER_KEY)
        now = "" if stored is None else decode_server_key(stored.value)
        if now not in self._boxes:
            raise ConfigError(
                f"cannot use the encryption key: another server uses server key {now}, this one "
                f"{self.server_key}; set [encryption] to the same key on all servers"
            )

    def _unwrapped(self, tenant: str, key: WrappedKey) -> bytes:
        """Raises: ConfigError: the server key is not known, or the record is damaged."""
        box = self._boxes.get(key.by)
        if box is None:
            raise ConfigError(
                f"data key {key.id.hex()} is wrapped by server key {key.by}, which this server "
                "was not given; set [encryption] to the same key on all servers"
            )
        try:
            return box.open(key.wrapped, _purpose(tenant, key.id))
        except ConfigError as error:
            raise ConfigError(
                f"data key {key.id.hex()} cannot be unwrapped: the record is damaged; restore it "
                "from a backup"
            ) from error

    def _changed(self, path: str, old: TenantRecord | None, new: TenantRecord | None) -> None:
        if new is None:
            _log.error("record %s was removed; restore it, or its tenant's data is lost", path)
            return
        try:
            for key in new.keys:
                if key.id not in self._by_id:
                    plain = self._unwrapped(new.tenant, key)
                    self._by_id[key.id] = self._made(key.id, plain)
            self._current[new.tenant] = self._by_id[new.keys[-1].id]
            self._problems.pop(path, None)
        except (ConfigError, NewerFormat) as error:
            self._current.pop(new.tenant, None)
            self._problems[path] = str(error)
            _log.error("record %s: %s", path, error)

    def _made(self, key_id: bytes, key: bytes) -> DataKey:
        assert self._plan is not None
        return self._plan.make_key(key_id, key, self._clock.token)


def _name(box: SecretBox) -> str:
    """A server key's name; it says nothing about the key."""
    return box.mac(_NAME_OF_KEY)[:_NAME_BYTES].hex()


def _purpose(tenant: str, key_id: bytes) -> str:
    return f"data key {key_id.hex()} of {tenant}"
