"""Leases over every store: one holder at a time, whose epoch never returns."""

import asyncio

import pytest
from tests.waiting import eventually_async

from opentalos.catalog.leases.lease import TTL_MS_MIN, Lease, LeaseRequest
from opentalos.catalog.leases.leases import LeaseCatalog
from opentalos.model.errors import LeaseHeld, LeaseNotHeld
from opentalos.ports.meta_store import MetaStore

TAKERS = 6


def asked(holder: str, ttl_ms: int = 60_000) -> LeaseRequest:
    return LeaseRequest(name="run", holder=holder, ttl_ms=ttl_ms)


async def test_a_lease_passes_from_server_to_server(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    mine, others = LeaseCatalog(store), LeaseCatalog(other)
    first = await mine.take(folder, asked("a"))
    assert await mine.take(folder, asked("a")) == Lease(
        name="run", holder="a", epoch=first.epoch, ttl_ms=60_000, renewals=1
    )
    with pytest.raises(LeaseHeld):
        await others.take(folder, asked("b"))
    await others.renew(folder, asked("a"), first.epoch)
    await others.release(folder, "run", first.epoch)
    second = await others.take(folder, asked("b"))
    assert second.epoch > first.epoch
    for change in (mine.renew(folder, asked("a"), first.epoch), mine.release(folder, "run", 1)):
        with pytest.raises(LeaseNotHeld):
            await change
    assert [each.lease for each in await mine.all(folder)] == [second]


async def test_one_of_many_that_take_it_at_once_gets_it(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    catalogs = [LeaseCatalog(store), LeaseCatalog(other)]
    found = await asyncio.gather(
        *[catalogs[number % 2].take(folder, asked(f"h{number}")) for number in range(TAKERS)],
        return_exceptions=True,
    )
    assert sum(isinstance(each, Lease) for each in found) == 1
    assert sum(isinstance(each, LeaseHeld) for each in found) == TAKERS - 1


async def test_a_lease_that_nobody_renews_goes_to_another_holder(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    mine, others = LeaseCatalog(store), LeaseCatalog(other)
    first = await mine.take(folder, asked("a", TTL_MS_MIN))

    async def taken() -> Lease | None:
        try:
            return await others.take(folder, asked("b", TTL_MS_MIN))
        except LeaseHeld:
            return None

    second = await eventually_async("another holder takes the lease", taken)
    assert second is not None
    assert second.epoch == first.epoch + 1
    with pytest.raises(LeaseNotHeld):
        await mine.renew(folder, asked("a"), first.epoch)
