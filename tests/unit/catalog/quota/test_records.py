from collections.abc import AsyncIterator

import pytest

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.catalog.quota.quotas import PartitionQuota, UserQuota
from opentalos.catalog.quota.records import (
    QuotaCatalog,
    decode_quota_record,
    encode_quota_record,
)
from opentalos.catalog.topics.topic import BaseQuota
from opentalos.model.errors import CorruptLog, NewerFormat, QuotaNotExist

USER = UserQuota(rates=BaseQuota(space_bytes=5, put_bytes_per_s=0), topics=7)
WANTED = PartitionQuota(organisation="CLacme", total=20, reason="more", organisation_name="A")


@pytest.fixture
async def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
async def quotas(storage: MemoryStorage) -> AsyncIterator[QuotaCatalog]:
    quotas = QuotaCatalog(MemoryMetaStore(storage))
    await quotas.start()
    yield quotas
    await quotas.close()


def test_records_read_back_and_garbage_does_not() -> None:
    for value in (USER, WANTED):
        assert decode_quota_record(encode_quota_record(value)) == value
    with pytest.raises(NewerFormat):
        decode_quota_record(b'{"version":2}')
    for garbage in (b"", b"7", b'{"version":1}', b'{"version":1,"user":{"rates":null}}'):
        with pytest.raises(CorruptLog):
            decode_quota_record(garbage)


async def test_quotas_of_odd_user_ids_survive_a_restart(
    quotas: QuotaCatalog, storage: MemoryStorage
) -> None:
    await quotas.set_user("CL#1", USER)
    await quotas.set_user("CL#1", UserQuota(topics=1))
    await quotas.set_pending(WANTED)
    second = QuotaCatalog(MemoryMetaStore(storage))
    await second.start()
    assert second.users() == {"CL#1": UserQuota(topics=1)}
    assert second.pending() == {"CLacme": WANTED}
    await second.close()
    await quotas.delete_user("CL#1")
    assert quotas.user("CL#1") is None
    with pytest.raises(QuotaNotExist):
        await quotas.delete_user("CL#1")


async def test_an_approval_answers_the_request_and_can_be_taken_back(
    quotas: QuotaCatalog,
) -> None:
    await quotas.set_pending(WANTED)
    await quotas.grant(lambda granted: WANTED, 0)
    assert (quotas.approved(), quotas.pending()) == ({"CLacme": WANTED}, {})
    await quotas.revoke("CLacme")
    assert quotas.approved() == {}
    with pytest.raises(QuotaNotExist):
        await quotas.revoke("CLacme")
