"""When a lease has expired: by the server's own clock alone, in virtual time."""

import asyncio
from collections.abc import Iterator

import pytest

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.catalog.leases import leases as leases_module
from opentalos.catalog.leases.lease import LeaseRequest
from opentalos.catalog.leases.leases import LeaseCatalog
from opentalos.model.errors import LeaseHeld, LeaseNotHeld, StoreUnavailable, VersionConflict
from opentalos.testing.simulation.loop import SimulationLoop

TTL_S = 5.0


def asked(holder: str, name: str = "run") -> LeaseRequest:
    return LeaseRequest(name=name, holder=holder, ttl_ms=int(TTL_S * 1000))


@pytest.fixture
def loop() -> Iterator[SimulationLoop]:
    found = SimulationLoop()
    yield found
    assert found.errors == []


def servers(count: int = 1) -> list[LeaseCatalog]:
    storage = MemoryStorage()
    return [LeaseCatalog(MemoryMetaStore(storage)) for _ in range(count)]


def test_a_lease_is_free_when_it_was_not_renewed_for_its_ttl(loop: SimulationLoop) -> None:
    async def main() -> None:
        (leases,) = servers()
        first = await leases.take("alice", asked("a"))
        await asyncio.sleep(TTL_S - 0.1)
        with pytest.raises(LeaseHeld):
            await leases.take("alice", asked("b"))
        await leases.renew("alice", asked("a"), first.epoch)
        await asyncio.sleep(TTL_S - 0.1)
        with pytest.raises(LeaseHeld):
            await leases.check_free("alice", asked("b"))
        await asyncio.sleep(0.2)
        await leases.check_free("alice", asked("b"))
        second = await leases.take("alice", asked("b"))
        assert second.epoch == first.epoch + 1
        with pytest.raises(LeaseNotHeld):
            await leases.renew("alice", asked("a"), first.epoch)

    loop.run(main())


def test_a_server_that_has_just_started_waits_for_the_ttl(loop: SimulationLoop) -> None:
    """It cannot know when the last renewal was stored."""

    async def main() -> None:
        former, fresh = servers(2)
        await former.take("alice", asked("a"))
        await asyncio.sleep(10 * TTL_S)
        with pytest.raises(LeaseHeld):
            await fresh.take("alice", asked("b"))
        await asyncio.sleep(TTL_S)
        assert (await fresh.take("alice", asked("b"))).epoch == 2

    loop.run(main())


def test_a_renewal_at_another_server_counts(loop: SimulationLoop) -> None:
    async def main() -> None:
        mine, other = servers(2)
        held = await mine.take("alice", asked("a"))
        for _ in range(6):
            with pytest.raises(LeaseHeld):
                await other.take("alice", asked("b"))
            await asyncio.sleep(TTL_S / 2)
            await mine.renew("alice", asked("a"), held.epoch)

    loop.run(main())


def test_a_released_lease_is_free_at_once(loop: SimulationLoop) -> None:
    async def main() -> None:
        mine, other = servers(2)
        held = await mine.take("alice", asked("a"))
        await mine.release("alice", "run", held.epoch)
        assert await other.all("alice") == []
        assert (await other.take("alice", asked("b"))).epoch == held.epoch + 1

    loop.run(main())


def test_tenants_have_names_of_their_own(loop: SimulationLoop) -> None:
    async def main() -> None:
        (leases,) = servers()
        await leases.take("alice", asked("a"))
        assert (await leases.take("bob", asked("b"))).holder == "b"
        assert [each.lease.holder for each in await leases.all("alice")] == ["a"]

    loop.run(main())


def test_a_list_says_how_long_a_lease_was_not_renewed(loop: SimulationLoop) -> None:
    async def main() -> None:
        (leases,) = servers()
        await leases.take("alice", asked("a"))
        await asyncio.sleep(2)
        (found,) = await leases.all("alice")
        assert found.unrenewed_ms == pytest.approx(2_000, abs=1)
        assert not found.expired
        await asyncio.sleep(TTL_S)
        (found,) = await leases.all("alice")
        assert found.expired

    loop.run(main())


def test_concurrent_takers_get_one_lease(loop: SimulationLoop) -> None:
    async def main() -> None:
        found = await asyncio.gather(
            *[each.take("alice", asked(f"h{n}")) for n, each in enumerate(servers(6))],
            return_exceptions=True,
        )
        assert sum(not isinstance(each, Exception) for each in found) == 1
        assert sum(isinstance(each, LeaseHeld) for each in found) == 5

    loop.run(main())


def test_changes_that_conflict_for_ever_end(
    loop: SimulationLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def conflict(*_: object) -> int:
        raise VersionConflict("again")

    async def main() -> None:
        (leases,) = servers()
        await leases.take("alice", asked("a"))
        monkeypatch.setattr(leases._meta, "replace", conflict)
        with pytest.raises(StoreUnavailable, match="too many concurrent changes"):
            await leases.take("alice", asked("a"))

    loop.run(main())


def test_what_is_forgotten_expires_later_and_never_earlier(
    loop: SimulationLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases_module, "OBSERVED_MAX", 1)

    async def main() -> None:
        (leases,) = servers()
        await leases.take("alice", asked("a"))
        await asyncio.sleep(TTL_S - 1)
        await leases.take("bob", asked("a"))  # alice's is forgotten
        await asyncio.sleep(2)
        with pytest.raises(LeaseHeld):
            await leases.take("alice", asked("b"))
        await asyncio.sleep(TTL_S)
        assert (await leases.take("alice", asked("b"))).epoch == 2

    loop.run(main())
