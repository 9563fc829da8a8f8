"""Keys of tenants: made once, known to every server, rotated, useless without the server key."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.unit.catalog.support import CountingClock, PlainBox

from opentalos.adapters.data_key import AesGcmDataKey
from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.adapters.memory.storage import StoredRecord
from opentalos.catalog.encryption import tenant_keys
from opentalos.catalog.encryption.record import (
    SERVER_KEY,
    TENANTS,
    WrappedKey,
    decode_tenant,
    tenant_path,
)
from opentalos.catalog.encryption.tenant_keys import EncryptionPlan, TenantKeys
from opentalos.model.errors import (
    ConfigError,
    CorruptLog,
    NewerFormat,
    PartitionNotServing,
    QuotaExceeded,
)

OLD, NEW, WRONG = PlainBox(b"old"), PlainBox(b"new"), PlainBox(b"wrong")
CLOCK = CountingClock()  # one for all servers, so that no two draw the same


def plan(*boxes: PlainBox, enabled: bool = True) -> EncryptionPlan:
    sources = ["key_file", "other_key_file"][: len(boxes)]
    return EncryptionPlan(boxes=boxes, sources=sources, make_key=AesGcmDataKey, enabled=enabled)


@asynccontextmanager
async def started(
    storage: MemoryStorage, settings: EncryptionPlan | None
) -> AsyncIterator[TenantKeys]:
    keys = TenantKeys(MemoryMetaStore(storage), CLOCK, settings)
    try:
        await keys.start()
        yield keys
    finally:
        await keys.close()


def stored_keys(storage: MemoryStorage, tenant: str) -> tuple[WrappedKey, ...]:
    return decode_tenant(storage.records[tenant_path(tenant)].record.value).keys


def current(keys: TenantKeys, tenant: str) -> bytes:
    key = keys.current(tenant)
    assert key is not None
    return key.id


async def test_each_tenant_has_a_key_of_its_own_after_restarts_as_well() -> None:
    storage = MemoryStorage()
    async with started(storage, plan(OLD)) as keys:
        await keys.ensure(["CLacme", "alice", "CLacme"])
        ids = current(keys, "CLacme"), current(keys, "alice")
        key = keys.current("alice")
        assert key is not None
        nonce, ciphertext = key.encrypt(b"content", b"")
        assert keys.figures[2:] == (2, 2)
    assert len(set(ids)) == 2
    async with started(storage, plan(OLD)) as keys:
        await keys.ensure(["CLacme", "alice"])
        assert (current(keys, "CLacme"), current(keys, "alice")) == ids
        found = keys.find(ids[1])
        assert found is not None
        assert found.decrypt(nonce, ciphertext, b"") == b"content"


async def test_no_record_has_a_key_that_is_not_wrapped() -> None:
    storage = MemoryStorage()
    made: list[bytes] = []

    def make(key_id: bytes, key: bytes, draw: object) -> AesGcmDataKey:
        made.append(key)
        return AesGcmDataKey(key_id, key, bytes)

    settings = EncryptionPlan(boxes=[OLD], sources=["key_file"], make_key=make)
    async with started(storage, settings) as keys:
        await keys.ensure(["alice"])
    (key,) = made
    for record in storage.records.values():
        assert base64.b64encode(key) not in record.record.value
        assert key.hex().encode() not in record.record.value


async def test_a_rotation_makes_new_versions_and_keeps_the_former_ones() -> None:
    storage = MemoryStorage()
    async with started(storage, plan(OLD)) as keys, started(storage, plan(OLD)) as other:
        await keys.ensure(["a", "b"])
        await other.refresh("a")
        before = current(keys, "a"), current(keys, "b")
        assert await keys.rotate(["a"]) == 1
        assert current(keys, "a") != before[0]
        assert current(keys, "b") == before[1]
        assert keys.find(before[0]) is not None
        assert other.find(current(keys, "a")) is None
        await other.refresh("a")  # a block of the new version was read before the watch came
        assert other.find(current(keys, "a")) is not None
        assert current(other, "a") == current(keys, "a")
        assert await keys.rotate() == 2
        assert [len(stored_keys(storage, name)) for name in "ab"] == [3, 2]


async def test_versions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_keys, "VERSIONS_MAX", 2)
    async with started(MemoryStorage(), plan(OLD)) as keys:
        assert await keys.rotate(["a"]) == 1  # its first
        await keys.rotate(["a"])
        with pytest.raises(QuotaExceeded, match="limit 2 versions"):
            await keys.rotate()


async def test_two_servers_that_make_a_key_at_once_agree() -> None:
    storage = MemoryStorage()
    async with started(storage, plan(OLD)) as keys, started(storage, plan(OLD)) as other:
        await asyncio.gather(keys.ensure(["a"]), other.ensure(["a"]))
        assert current(keys, "a") == current(other, "a")


async def test_a_key_that_is_not_there_yet_is_made_in_the_background() -> None:
    async with started(MemoryStorage(), plan(OLD)) as keys:
        with pytest.raises(PartitionNotServing, match="data key of a: being made; try again"):
            keys.current("a")
        assert keys._task is not None
        await keys._task
        assert current(keys, "a")


async def test_another_server_key_wraps_again_and_no_data_key_changes() -> None:
    storage = MemoryStorage()
    async with started(storage, plan(OLD)) as keys:
        await keys.ensure(["a"])
        await keys.rotate()
        before, id_before = stored_keys(storage, "a"), current(keys, "a")
    async with started(storage, plan(NEW, OLD)) as keys:
        assert current(keys, "a") == id_before
    after = stored_keys(storage, "a")
    assert [key[:2] for key in after] == [key[:2] for key in before]
    assert all(key.by != former.by for key, former in zip(after, before, strict=True))
    async with started(storage, plan(NEW)) as keys:  # the former one is not needed any more
        assert current(keys, "a") == id_before
    with pytest.raises(ConfigError, match="server key"):
        async with started(storage, plan(OLD)):
            pass


async def test_a_rewrap_that_was_interrupted_is_completed() -> None:
    storage = MemoryStorage()
    async with started(storage, plan(OLD)) as keys:
        await keys.ensure(["a", "b"])
    half = storage.records[tenant_path("b")]
    marker = storage.records[SERVER_KEY]
    async with started(storage, plan(NEW, OLD)):
        pass
    storage.records[tenant_path("b")] = half
    storage.records[SERVER_KEY] = marker
    with pytest.raises(ConfigError):
        async with started(storage, plan(OLD)):
            pass
    async with started(storage, plan(NEW, OLD)):
        pass
    async with started(storage, plan(NEW)) as keys:
        assert current(keys, "a") != current(keys, "b")


@pytest.mark.parametrize("empty", [False, True])
async def test_a_start_without_the_key_or_with_another_is_refused(empty: bool) -> None:
    storage = MemoryStorage()
    async with started(storage, plan(OLD)) as keys:
        await keys.ensure([] if empty else ["a"])
    before = dict(storage.records)
    with pytest.raises(ConfigError, match=r"set \[encryption\] key_file or key_command"):
        async with started(storage, None):
            pass
    with pytest.raises(ConfigError, match=r"server key \w+ wraps the data keys.*key_file is key"):
        async with started(storage, plan(WRONG)):
            pass
    assert storage.records == before


async def test_without_encryption_nothing_is_stored_and_nothing_encrypted() -> None:
    storage = MemoryStorage()
    for settings in (None, plan(OLD, enabled=False)):
        async with started(storage, settings) as keys:
            await keys.ensure(["a"])
            keys.ensure_soon("a")
            await keys.refresh("a")
            assert keys.current("a") is None
            assert not keys.enabled
    assert not storage.records


async def test_switched_off_it_still_decrypts_and_follows_a_new_server_key() -> None:
    storage = MemoryStorage()
    async with started(storage, plan(OLD)) as keys:
        await keys.ensure(["a"])
        key_id = current(keys, "a")
    async with started(storage, plan(NEW, OLD, enabled=False)) as keys:
        assert keys.current("a") is None
        assert keys.find(key_id) is not None
    async with started(storage, plan(NEW, enabled=False)) as keys:
        assert keys.find(key_id) is not None


async def test_a_damaged_record_is_named() -> None:
    storage = MemoryStorage()
    async with started(storage, plan(OLD)) as keys:
        await keys.ensure(["a"])
    path = f"{TENANTS}/a"
    record = storage.records[path].record
    fields = json.loads(record.value)
    del fields["crc"]
    whole = json.dumps(fields, separators=(",", ":")).encode()
    fields["keys"][0]["wrapped"] = base64.b64encode(b"damaged").decode()
    for value, error in (
        (json.dumps(fields).encode(), ConfigError),
        (b"{}", CorruptLog),
        (whole.replace(b'"version":1', b'"version":2'), NewerFormat),
        (whole.replace(b'"id":"', b'"id":"00'), CorruptLog),
        (record.value.replace(b'"version":1', b'"version":3'), CorruptLog),
    ):
        storage.records[path] = StoredRecord(storage.record(value, record.version))
        with pytest.raises(error, match=path if error is not NewerFormat else "format 2"):
            async with started(storage, plan(OLD)):
                pass


async def test_keys_of_a_record_that_is_removed_stay_in_memory() -> None:
    storage = MemoryStorage()
    async with started(storage, plan(OLD)) as keys:
        await keys.ensure(["a"])
        key_id = current(keys, "a")
        del storage.records[tenant_path("a")]
        await keys.refresh("a")
        assert keys.find(key_id) is not None


async def test_keys_of_an_age_are_rotated_once_by_whichever_server_is_first() -> None:
    storage, day_ms = MemoryStorage(), 86_400_000
    async with started(storage, plan(OLD)) as keys, started(storage, plan(OLD)) as other:
        await keys.ensure(["a", "b"])
        CLOCK.now_ms += day_ms
        await keys.ensure(["young"])
        await keys.rotate(["b"])
        CLOCK.now_ms += day_ms
        for tenant in ("a", "b", "young"):
            await other.refresh(tenant)
        assert await keys.rotate_older(2 * 86_400) == 1
        assert await other.rotate_older(2 * 86_400) == 0  # its copy of the record was older
        assert [len(stored_keys(storage, tenant)) for tenant in ("a", "b", "young")] == [2, 2, 1]
        assert current(other, "a") == current(keys, "a") == stored_keys(storage, "a")[-1].id


async def test_a_server_with_an_age_rotates_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_keys, "AGES_CHECKED_S", 0.001)
    storage = MemoryStorage()
    settings = replace(plan(OLD), rotate_after_s=86_400.0)
    async with started(storage, settings) as keys:
        await keys.ensure(["a"])
        first = current(keys, "a")
        CLOCK.now_ms += 86_400_000
        async with asyncio.timeout(10):
            while current(keys, "a") == first:  # noqa: ASYNC110 - the task has no event
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        assert len(stored_keys(storage, "a")) == 2
    async with started(storage, replace(settings, enabled=False)) as keys:
        CLOCK.now_ms += 86_400_000
        await asyncio.sleep(0.01)
        assert len(stored_keys(storage, "a")) == 2
