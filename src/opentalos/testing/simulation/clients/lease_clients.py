"""Holders of a lease that write to one table, as runs of a pipeline on several hosts do.

What they believe of their lease and what the table refuses are the product's own rules. A holder is
sometimes paused in the middle of a write, for longer than its lease lasts.
"""

import asyncio
from typing import Final

from opentalos.broker.broker import Broker
from opentalos.broker.values import Lease, LeaseRequest
from opentalos.model.errors import LeaseNotHeld
from opentalos.pipelines.lease import HeldLease, check_epoch
from opentalos.testing.simulation.clients.message_clients import OWNER, Client
from opentalos.testing.simulation.history import Operation
from opentalos.testing.simulation.world.world import World

HOLDERS: Final = 4
LEASE: Final = "run"
TTL_S: Final = 3.0
PAUSED: Final = 0.06  # of writes: the holder is stopped in the middle
PAUSE_S: Final = 3.0 * TTL_S  # at most
RELEASES: Final = 0.05  # of a holder's steps: it ends, and another process begins
DIES: Final = 0.03  # the same without a release
PATIENCE_S: Final = 60.0  # after the faults a new holder must get it within this time


class FencedTable:
    """What holders write to: it refuses an epoch below the highest that it has seen."""

    def __init__(self) -> None:
        self.newest = 0

    def write(self, epoch: int) -> None:
        """Raises: LeaseNotHeld."""
        check_epoch("the table", epoch, self.newest)
        self.newest = max(self.newest, epoch)


class Holder(Client):
    """Takes the lease, renews it, writes while it believes to have it, and ends."""

    def __init__(self, world: World, name: str, table: FencedTable) -> None:
        super().__init__(world, name)
        self._table = table
        self._life = 0
        self.held: HeldLease | None = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.think()
            await self.step()

    async def step(self) -> None:
        """What is due now."""
        now_s, chance = self.world.loop.time(), self.rng.random()
        if self.held is None:
            await self._take()
        elif self.held.must_stop(now_s):
            self.held = None
        elif chance < RELEASES:
            await self._release(self.held)
        elif chance < RELEASES + DIES:
            self._begin_again()
        elif self.held.is_due(now_s):
            await self._renew(self.held)
        else:
            await self._write(self.held)

    @property
    def _holder(self) -> str:
        return f"{self.name}.{self._life}"

    def _begin_again(self) -> None:
        """As another process, which knows nothing."""
        self.held, self._life = None, self._life + 1

    def _invoke(self, action: str, **args: object) -> Operation:
        return self.world.recorder.invoke(
            self.name, action, lease=LEASE, holder=self._holder, **args
        )

    @property
    def _request(self) -> LeaseRequest:
        return LeaseRequest(name=LEASE, holder=self._holder, ttl_ms=int(TTL_S * 1000))

    async def _take(self) -> None:
        server, request = await self.server(), self._request
        asked_s = self.world.loop.time()
        take = self._invoke("take-lease", ttl_s=TTL_S)
        lease: Lease | None = await self.ask(
            server, take, lambda broker: broker.leases.take(OWNER, request)
        )
        if lease is not None:
            self.world.recorder.ok(take, epoch=lease.epoch)
            self.held = HeldLease(LEASE, lease.epoch, TTL_S, asked_s)

    async def _renew(self, held: HeldLease) -> None:
        server, request = await self.server(), self._request
        asked_s = self.world.loop.time()
        renewal = self._invoke("renew-lease", ttl_s=TTL_S, epoch=held.epoch)
        lease: Lease | None = await self.ask(
            server, renewal, lambda broker: broker.leases.renew(OWNER, request, held.epoch)
        )
        if lease is not None:
            self.world.recorder.ok(renewal, epoch=lease.epoch)
            self.held = held.renewed(asked_s)
        elif renewal.error.startswith(LeaseNotHeld.__name__):
            self.held = None

    async def _release(self, held: HeldLease) -> None:
        server = await self.server()
        release = self._invoke("release-lease", epoch=held.epoch)

        async def free(broker: Broker) -> bool:
            await broker.leases.release(OWNER, LEASE, held.epoch)
            return True

        if await self.ask(server, release, free):
            self.world.recorder.ok(release)
        self._begin_again()

    async def _write(self, held: HeldLease) -> None:
        write = self._invoke("lease-write", epoch=held.epoch)
        if self.rng.random() < PAUSED:
            await asyncio.sleep(PAUSE_S * self.rng.random())
        try:
            self._table.write(held.epoch)
        except LeaseNotHeld as error:
            self.world.recorder.fail(write, f"{type(error).__name__}: {error}")
            self._begin_again()
        else:
            self.world.recorder.ok(write)


async def lease_workload(world: World) -> None:
    """Faults, then healing; then a new holder must get the lease."""
    await world.start_server()
    table = FencedTable()
    holders = [Holder(world, f"holder{number}", table) for number in range(HOLDERS)]
    running = [asyncio.create_task(each.run(), name=each.name) for each in holders]
    await world.inject_faults()
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await world.heal()
    last = Holder(world, "last", table)
    until_s = world.loop.time() + PATIENCE_S
    while last.held is None:
        await last.step()
        await last.think()
        if world.loop.time() > until_s:
            world.recorder.note("stuck-lease", text=f"nobody got it within {PATIENCE_S:.0f} s")
            break
    await world.stop_server()
