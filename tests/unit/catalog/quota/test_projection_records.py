"""Records of projections: read back, bounded, the latest wins."""

from dataclasses import replace

import pytest

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.catalog.quota.projection import RATE_MAX, TENANT_CHARS_MAX, WEEK, Projection
from opentalos.catalog.quota.projection_records import (
    KEPT_MS,
    SHARD_PROJECTIONS_MAX,
    ProjectionCatalog,
    decode_shard,
    encode_shard,
    merged,
)
from opentalos.model.errors import CorruptLog, NewerFormat, QuotaExceeded
from opentalos.ports.meta_store import VALUE_BYTES_MAX

ONE = Projection(
    tenant="CLacme", made_ms=KEPT_MS, days=60, level=5, trend_per_day=-1,
    season=tuple(range(WEEK)), spread=1, peak=9, mean=2,
)  # fmt: skip


def test_records_read_back_and_garbage_does_not() -> None:
    assert decode_shard(encode_shard({"CLacme": ONE})) == {"CLacme": ONE}
    with pytest.raises(NewerFormat):
        decode_shard(b'{"version":2}')
    for garbage in (b"", b"7", b'{"version":1}', b'{"version":1,"projections":[{}]}'):
        with pytest.raises(CorruptLog):
            decode_shard(garbage)


def test_the_latest_of_a_tenant_stays_and_what_is_long_not_made_goes() -> None:
    older, newer = replace(ONE, made_ms=1), replace(ONE, level=6)
    assert merged({"CLacme": ONE}, [older]) == {"CLacme": ONE}
    assert merged({"CLacme": ONE}, [newer]) == {"CLacme": newer}
    late = replace(ONE, tenant="b", made_ms=2 * KEPT_MS)
    assert merged({"CLacme": ONE}, [late]) == {"b": late}


def test_the_largest_record_fits_into_the_store() -> None:
    largest = [
        Projection(
            tenant=f"{number:0{TENANT_CHARS_MAX}}", made_ms=1 << 60, days=10_000, level=RATE_MAX,
            trend_per_day=-RATE_MAX, season=(1_000_000,) * WEEK, spread=RATE_MAX, peak=RATE_MAX,
            mean=RATE_MAX,
        )
        for number in range(SHARD_PROJECTIONS_MAX)
    ]  # fmt: skip
    shard = merged({}, largest)
    assert len(encode_shard(shard)) <= VALUE_BYTES_MAX
    with pytest.raises(QuotaExceeded, match=f"limit {SHARD_PROJECTIONS_MAX}, measured"):
        merged(shard, [replace(ONE, made_ms=1 << 60)])


async def test_many_tenants_survive_a_restart_and_reach_other_servers() -> None:
    storage = MemoryStorage()
    catalog = ProjectionCatalog(MemoryMetaStore(storage))
    await catalog.start()
    sent = [replace(ONE, tenant=f"CL{number}") for number in range(300)]
    await catalog.put(sent)
    await catalog.put(sent)
    second = ProjectionCatalog(MemoryMetaStore(storage))
    await second.start()
    assert second.all() == {item.tenant: item for item in sent} == catalog.all()
    await second.put([replace(ONE, tenant="CL7", level=77)])
    await catalog.put([replace(ONE, tenant="CL7", level=78, made_ms=KEPT_MS + 1)])
    assert catalog.all()["CL7"].level == 78
    await second.close()
    await catalog.close()
