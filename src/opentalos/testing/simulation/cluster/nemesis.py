"""The nemesis of a cluster: injects faults into its servers, its network and its services."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from opentalos.broker.cluster.records import LeavingKind, LeavingRecord
from opentalos.testing.simulation.cluster.network import ANY_PLACE, FILES, META, ROWS, Way
from opentalos.testing.simulation.cluster.world import ClusterWorld
from opentalos.testing.simulation.stores.disk import CAPACITY_BYTES
from opentalos.testing.simulation.world.world import (
    DAMAGE_AFTER_S,
    DOWN_S,
    FULL_ROOM_BYTES,
    TICK_S,
)

EVENTS_AT_ONCE = 4
RUNNING_MIN = 2  # hosts that must remain when one leaves permanently
HOSTS_MAX = 5
ONE_WAY = 0.4  # probability that a cut between two places has one direction
SESSIONS_END = 0.5  # probability that an outage of the coordination ends every session
LATE_S = 6.0  # after the announced time

Event = Callable[[], Awaitable[None]]


class Nemesis:
    """Draws fault events until the chaos time ends; up to ``EVENTS_AT_ONCE`` run at once.

    Every ``TICK_S`` or so each kind of event is drawn with its probability and runs as a task. A
    host is in ``_busy`` while an event affects its process, so no two events stop or start the
    same one. At the end of the chaos time the tasks are cancelled where they are, and ``heal`` of
    the world repairs what they left.
    """

    def __init__(self, world: ClusterWorld) -> None:
        self._world, self._rng = world, world.rng("nemesis")
        self._sessions = world.rng("sessions after an outage")
        self._busy: dict[str, None] = {}  # hosts whose process an event affects
        self._tasks: list[asyncio.Task[None]] = []

    async def inject_faults(self) -> None:
        """Run events for the chaos time; unfinished ones are left to ``heal``."""
        rng, faults, world = self._rng, self._world.cluster_faults, self._world
        events: list[tuple[float, Event]] = [
            (faults.crash, self._crash),
            (faults.crash_controller, self._crash_controller),
            (faults.restart, self._restart),
            (faults.restart_late, self._restart_late),
            (faults.leave, self._leave),
            (faults.join, self._join),
            (faults.drain, self._drain),
            (faults.pause, self._pause),
            (faults.cut_peers, self._cut_peers),
            (faults.cut_meta, self._cut_meta),
            (faults.cut_storage, self._cut_storage),
            (faults.isolate, self._isolate),
            (faults.slow_link, self._slow_link),
            (faults.meta_down, self._meta_down),
            (faults.all_down, self._all_down),
            (faults.power_loss, self._power_loss),
            (faults.clock_jump, self._jump),
            (faults.disk_full, self._fill_disk),
        ]
        if faults.older_meta:  # all other worlds draw the same numbers as without
            events.append((faults.older_meta, self._older))
        until_s = world.loop.time() + world.config.chaos_s
        world.disk.kills.armed = True
        while world.loop.time() < until_s:
            await asyncio.sleep(TICK_S * (0.5 + rng.random()))
            self._restart_killed()
            self._tasks = [task for task in self._tasks if not task.done()]
            for probability, event in events:
                if rng.random() < probability * TICK_S and len(self._tasks) < EVENTS_AT_ONCE:
                    self._tasks.append(asyncio.create_task(self._play(event), name="nemesis"))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _restart_killed(self) -> None:
        """Start servers that were killed at a kill point, unless an event affects their host."""
        world = self._world
        for host, server in world.hosts.items():
            dead = server is not None and server.name in world.killed
            if dead and host not in world.gone and host not in self._busy:
                self._busy[host] = None
                self._tasks.append(asyncio.create_task(self._back(host), name="nemesis"))

    async def _play(self, event: Event) -> None:
        await event()

    def _idle(self) -> list[str]:
        return [
            server.seat.host
            for server in self._world.running()
            if server.seat.host not in self._busy
        ]

    @contextmanager
    def _victim(self, host: str = "") -> Iterator[str]:
        """A host that no other event affects; empty if there is none."""
        idle = self._idle()
        if host:
            chosen = host if host in idle else ""
        else:
            chosen = self._rng.choice(idle) if idle else ""
        if chosen:
            self._busy[chosen] = None
        try:
            yield chosen
        finally:
            self._busy.pop(chosen, None)

    def _drawn(self, most_s: float) -> float:
        return self._rng.random() * most_s

    # --- processes -----------------------------------------------------------------------------

    async def _crash(self, host: str = "") -> None:
        with self._victim(host) as victim:
            if victim:
                await self._world.crash_host(victim)
                await asyncio.sleep(self._drawn(DOWN_S))
                await self._world.start(victim)

    async def _crash_controller(self) -> None:
        await self._crash(self._world.control.controller())

    async def _restart(self) -> None:
        await self._announced(self._drawn(self._world.cluster_config.limits.restart_s / 2))

    async def _restart_late(self) -> None:
        wait_s = self._world.cluster_config.limits.restart_s
        await self._announced(wait_s + self._drawn(LATE_S))

    async def _announced(self, down_s: float) -> None:
        with self._victim() as victim:
            if victim:
                await self._world.stop(victim)
                await asyncio.sleep(down_s)
                await self._world.start(victim)

    async def _leave(self) -> None:
        world = self._world
        if len(self._idle()) <= RUNNING_MIN:
            return
        with self._victim() as victim:
            away = (victim, *world.gone, *world.drained)
            if victim in world.drained or all(host in away for host in world.hosts):
                return  # nobody would be left to take partitions
            world.gone[victim] = None
            world.recorder.note("leaves", host=victim)
            if self._rng.random() < 0.5:
                await world.stop(victim)
            else:
                await world.crash_host(victim)

    async def _join(self) -> None:
        world = self._world
        if len(world.hosts) >= HOSTS_MAX:
            return
        host = f"s{len(world.hosts) + 1}"
        world.hosts[host] = None
        self._busy[host] = None
        world.recorder.note("joins", host=host)
        await world.start(host)
        self._busy.pop(host)

    async def _drain(self) -> None:
        world = self._world
        with self._victim() as victim:
            record = world.control.server(victim) if victim else None
            enough = len(world.drained) + 1 < len(world.running())
            if record is None or world.control.leaving(victim) is not None or not enough:
                return
            world.recorder.note("drain", host=victim)
            world.drained[victim] = None
            leaving = LeavingRecord(
                name=victim,
                kind=LeavingKind.DRAIN.value,
                incarnation=record.incarnation,
                wait_s=0.0,
            )
            await world.control.drain(leaving)

    async def _pause(self) -> None:
        with self._victim() as victim:
            server = self._world.hosts[victim] if victim else None
            if server is not None:
                self._world.recorder.note("pause", server=server.name)
                server.process.pause()
                await asyncio.sleep(self._drawn(self._world.cluster_faults.pause_s))
                server.process.resume()
                self._world.recorder.note("resume", server=server.name)

    async def _all_down(self) -> None:
        await self._restart_all(self._world.crash_all)

    async def _power_loss(self) -> None:
        await self._restart_all(self._world.lose_power_everywhere)

    async def _older(self) -> None:
        """The coordination service is restored from a snapshot, while no server runs."""
        await self._restart_all(self._go_back)

    async def _go_back(self) -> None:
        world = self._world
        await world.crash_all()
        await asyncio.sleep(world.cluster_config.session_s + DAMAGE_AFTER_S)
        world.damages.go_back(whole=True)

    async def _restart_all(self, down: Event) -> None:
        if self._busy:
            return
        world = self._world
        hosts = [host for host in world.hosts if host not in world.gone]
        self._busy.update(dict.fromkeys(hosts))
        await down()
        await asyncio.gather(*(self._back(host) for host in hosts))

    async def _back(self, host: str) -> None:
        await asyncio.sleep(self._drawn(DOWN_S))
        await self._world.start(host)
        self._busy.pop(host, None)

    # --- network and services --------------------------------------------------------------------

    async def _cut(self, kind: str, ways: list[Way], most_s: float) -> None:
        self._world.recorder.note(kind, ways=[list(way) for way in ways])
        self._world.network.cut(ways)
        await asyncio.sleep(self._drawn(most_s))
        self._world.network.mend(ways)
        self._world.recorder.note("mended", ways=[list(way) for way in ways])

    def _ways(self, here: str, there: str) -> list[Way]:
        way = Way(here, there)
        if self._rng.random() < ONE_WAY:
            return [self._rng.choice([way, way.back])]
        return [way, way.back]

    def _any_host(self) -> str:
        hosts = [host for host in self._world.hosts if host not in self._world.gone]
        return self._rng.choice(hosts)

    async def _cut_peers(self) -> None:
        here, there = self._any_host(), self._any_host()
        if here != there:
            await self._cut("cut", self._ways(here, there), self._world.cluster_faults.cut_s)

    async def _cut_meta(self) -> None:
        ways = self._ways(self._any_host(), META)
        await self._cut("cut-meta", ways, self._world.cluster_faults.cut_s)

    async def _cut_storage(self) -> None:
        ways = self._ways(self._any_host(), self._rng.choice([FILES, ROWS]))
        await self._cut("cut-storage", ways, self._world.cluster_faults.cut_s)

    async def _isolate(self) -> None:
        host = self._any_host()
        others = [META, *(each for each in self._world.hosts if each != host)]
        ways = [way for other in others for way in (Way(host, other), Way(other, host))]
        await self._cut("isolated", ways, self._world.cluster_faults.cut_s)

    async def _slow_link(self) -> None:
        faults = self._world.cluster_faults
        way = Way(self._any_host(), self._rng.choice([META, FILES, ROWS, self._any_host()]))
        self._world.recorder.note("slow-link", ways=[list(way)])
        self._world.network.slow(way, self._drawn(faults.slow_link_s))
        await asyncio.sleep(self._drawn(faults.cut_s))
        self._world.network.slow(way, 0.0)

    async def _meta_down(self) -> None:
        ways = [Way(ANY_PLACE, META), Way(META, ANY_PLACE)]
        await self._cut("meta-down", ways, self._world.cluster_faults.meta_down_s)
        if self._sessions.random() < SESSIONS_END:
            end_sessions(self._world)

    # --- clock and disk --------------------------------------------------------------------------

    async def _jump(self) -> None:
        most_s = self._world.cluster_faults.clock_jump_s
        jump_ms = round(self._rng.uniform(-1, 1) * most_s * 1000)
        server = self._world.hosts[self._any_host()]
        if server is not None:
            self._world.recorder.note("clock-jump", server=server.name, by_ms=jump_ms)
            server.clock.jump(jump_ms)

    async def _fill_disk(self) -> None:
        disk, rng = self._world.disk, self._rng
        self._world.recorder.note("disk-full")
        disk.capacity_bytes = disk.used_bytes + rng.randint(0, FULL_ROOM_BYTES)
        await asyncio.sleep(self._drawn(self._world.cluster_faults.full_s))
        disk.capacity_bytes = CAPACITY_BYTES
        self._world.recorder.note("disk-has-space")


def end_sessions(world: ClusterWorld) -> None:
    """The coordination ends every session, as one that was stopped does when it continues."""
    world.recorder.note("sessions-end")
    for server in world.hosts.values():
        if server is not None:
            server.meta.end_session()
