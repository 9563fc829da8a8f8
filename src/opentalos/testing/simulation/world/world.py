"""The simulated world: one storage, the servers on it, and the nemesis that injects faults.

    async def scenario(world: World) -> None:
        server = await world.start_server()
        ...                                # calls through server.call and server.put
        await world.crash(power=True)      # everything unsynced is gone
        await world.start_server()

    history = World(seed=7).run(scenario)
    assert not check(history)

Theory of operation. A world has at most one ``current`` server, plus ``zombies``: former servers
that were paused, replaced and resumed, so storage has to fence them. ``inject_faults`` crashes,
pauses, replaces and stops servers, jumps clocks, fills the disk and flips bits, for ``chaos_s``
virtual seconds. ``heal`` ends all faults and leaves one running server; from then on every call has
to succeed. Each actor draws from its own generator (``rng``), so one actor's draws never change
those of another, and a seed always gives the same history.

``WorldConfig`` has small limits (``limits``), so that segments roll, seal and expire in seconds.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from opentalos.broker.broker import BrokerConfig
from opentalos.model.errors import TalosError
from opentalos.model.limits import (
    GroupLimits,
    LogLimits,
    MessageLimits,
    QuotaLimits,
    TopicLimits,
)
from opentalos.model.settings.tables import SdsLimits
from opentalos.testing.simulation.history import History, Recorder
from opentalos.testing.simulation.loop import (
    SimulatedProcess,
    SimulationDeadlock,
    SimulationLoop,
    SimulationRunaway,
)
from opentalos.testing.simulation.stores.disk import CAPACITY_BYTES, DiskEvent, SimulatedDisk
from opentalos.testing.simulation.stores.faults import (
    FileFaults,
    MetaFaults,
    RowFaults,
    WorldFaults,
)
from opentalos.testing.simulation.stores.kills import Kill, Kills, draw_kills
from opentalos.testing.simulation.stores.stored_logs import Partition
from opentalos.testing.simulation.world.bounds import Bounds, small_bounds
from opentalos.testing.simulation.world.clock import SimulatedClock
from opentalos.testing.simulation.world.damages import Damages
from opentalos.testing.simulation.world.limits import LOG_LIMITS, SDS_LIMITS, draw_quota
from opentalos.testing.simulation.world.metered import metering_of, note_moves, note_reads
from opentalos.testing.simulation.world.server import (
    ENCRYPTION,
    InjectedBug,
    PlainSecretBox,
    ServerLost,
    SimulatedServer,
    StoreFaults,
    UnansweredBug,
    server_rng,
)
from opentalos.testing.simulation.world.storage_nemesis import StorageNemesis, drawn_days
from opentalos.testing.simulation.world.witness import witness_errors

STARTS_MAX = 100  # attempts to start a server before the world gives up
START_PAUSE_S = 0.2  # between two attempts
TICK_S = 0.5  # mean time between two draws of the nemesis
DOWN_S = 2.0  # maximum time that a crashed server stays down
DAMAGE_AFTER_S = 0.1  # a server's end: its last calls have reached the stores
ZOMBIE_S = 6.0  # maximum lifetime of a resumed former server
FULL_ROOM_BYTES = 8 << 10  # maximum free space of a full disk
SKEW_MS = 200  # between servers' clocks
TEXT, ZEROS, NOISE = "text", "zeros", "noise"  # kinds of payloads


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldConfig:
    """Size and faults of the world. Faults that are None are drawn from the seed."""

    chaos_s: float = 20.0  # virtual seconds with faults
    think_s: float = 0.25  # mean pause of a client between two calls
    call_s: float = 6.0  # a client's timeout for a reply
    log: LogLimits = LOG_LIMITS
    message: MessageLimits = field(default_factory=lambda: MessageLimits(get_wait_s=0.2))
    topic: TopicLimits = field(
        default_factory=lambda: TopicLimits(
            partitions_default=1,
            partitions_max=8,
            retention_min_s=2,
            retention_default_s=20,
            change_partition_interval_s=0.5,
        )
    )
    group: GroupLimits = field(default_factory=lambda: GroupLimits(lease_s=6.0))
    quota: QuotaLimits | None = None  # None: drawn; some seeds throttle or reject many puts
    files: FileFaults | None = None
    meta: MetaFaults | None = None
    rows: RowFaults | None = None
    world: WorldFaults | None = None
    shuffle: float = 0.5  # probability that a seed also shuffles task steps
    put_twice: float = 0.1  # probability that an idempotent put is sent twice at once
    leaves: float = 0.03  # probability that a worker that could read leaves its group instead
    metered: float = 0.5  # probability that a seed has metering
    minute_ms: int = 2_000  # length of a metering minute
    egress: bool = False  # with metering, also of what is read
    storage: bool = False  # with metering, also of how long it is kept
    tabled: float = 0.2  # probability that a seed has a structured table
    switched: float = 0.5  # probability that a stream of the table is disabled and enabled
    gapped: float = 0.25  # that the table prefers a gap, and one of its topics rejects writes long
    expiring: float = 0.25  # that its rows have a ttl
    keyed: float = 0.25  # that it also has a stream of keys only
    recreated: float = 0.3  # that another table is dropped and created again
    kills: tuple[Kill, ...] | None = None  # at kill points of tables; None: drawn
    sds: SdsLimits = SDS_LIMITS
    messages: bool = True  # whether clients also use topics directly
    # What follows is for ``storage_worlds``; see there.
    payloads: tuple[str, ...] = (TEXT,)  # kinds, one drawn for each block
    filler_bytes_max: int = 200  # of a payload
    partitions: int = 2  # of the first topic at its creation
    encrypted: bool = False  # whether messages and rows are encrypted at rest
    producers: int = 2  # idempotent ones
    changed: bool = False  # whether the durability of topics is changed
    keeps: bool = False  # whether nothing is ever deleted: no topic, nothing by retention
    neighbour: bool = False  # whether another tenant has a topic without faults
    shared: bool = False  # whether it was granted the owner's topics, and uses the same names
    records: bool = False  # whether Kafka's producers have a topic, and beginnings are deleted
    crowded: bool = False  # whether a tenant sends bursts to all its partitions
    cpu_share: float = 0.0  # of a server's callbacks, that take processor time
    bounds: Bounds | None = None  # smaller ones than the product's
    answer_s: float | None = None  # a caller waits no longer; None: not judged
    fair_s: float | None = None  # nor does a tenant beside one that fails; None: not judged
    isolates: bool = False  # whether only poisonous messages may be refused as not served
    judge_retention: bool = True  # by the true time


class World:
    """One run; every random number comes from ``seed``."""

    def __init__(self, seed: int, config: WorldConfig | None = None) -> None:
        self.seed, self.config = seed, config or WorldConfig()
        rng = self.rng("world")
        shuffled = rng.random() < self.config.shuffle
        self._bounds = small_bounds(self.config.bounds, high_sequences=self.config.records)
        self.loop = SimulationLoop(self.rng("shuffle") if shuffled else None)
        if self.config.cpu_share:
            self.loop.cpu, self.loop.cpu_share = self.rng("cpu"), self.config.cpu_share
        self.disk = SimulatedDisk(
            self.loop, self.rng("disk"), self.rng("refusals"), self.rng("troubles")
        )
        self.disk.records.claimed = self._claimed
        self.disk.observers.append(self._observe)
        self.recorder = Recorder(self.loop.time)
        if self.config.storage:
            note_moves(self.disk.records, self.recorder, self.loop.time)
        self.stores = StoreFaults(
            files=self.config.files or FileFaults.draw(rng),
            meta=self.config.meta or MetaFaults.draw(rng),
            rows=self.config.rows or RowFaults.draw(rng),
        )
        self.quota = self.config.quota or draw_quota(self.rng("quota"))
        self.faults = self.config.world or WorldFaults.draw(rng)
        self.metered = self.rng("metering").random() < self.config.metered
        self.tabled = self.rng("tables").random() < self.config.tabled
        self.killed: dict[str, Kill] = {}  # by the name of the server
        self.disk.kills = Kills(self._plan(), self._kill)
        self.current: SimulatedServer | None = None
        self.zombies: list[SimulatedServer] = []
        self._servers: list[SimulatedServer] = []
        self.damages = Damages(self, self.rng("damages"))
        self._jump_ms = self._wrong_ms = 0  # the second by the storage nemesis
        self._folders: Callable[[], tuple[str, list[str]]] = lambda: ("", [])
        self._nemesis = self.rng("nemesis")

    def _plan(self) -> tuple[Kill, ...]:
        if self.config.kills is not None:
            return self.config.kills
        return draw_kills(self.rng("kills")) if self.tabled else ()

    def rng(self, what: str) -> random.Random:
        """A generator of its own for each purpose, so that one does not change another's draws."""
        return random.Random(f"{self.seed} {what}")

    def run(self, scenario: "Callable[[World], Awaitable[None]]") -> History:
        """Run the scenario to its end and return its history."""

        async def main() -> None:
            config = self.config
            self.recorder.note(
                "settings",
                lease_s=config.group.lease_s,
                answer_s=config.answer_s,
                fair_s=config.fair_s,
                isolates=config.isolates,
                retention=config.judge_retention,
                keeps=config.keeps,
                clock_wrong_s=config.log.clock_disagree_max_s,
                forgets=config.bounds is not None and not config.shared,
            )
            await scenario(self)

        with witness_errors(self.damages.hear) as witness, self._bounds:
            try:
                self.loop.run(main())
            except (SimulationDeadlock, SimulationRunaway) as error:
                self.recorder.note("deadlock", text=str(error))
        for text in (*self.loop.errors, *witness.failures):
            self.recorder.note("unhandled-error", text=text)
        for server in self._servers:
            for text in server.twice:
                self.recorder.note("answered-twice", text=f"{server.name}: {text}")
        return self.recorder.history

    # --- servers -------------------------------------------------------------------------------

    def running(self) -> list[SimulatedServer]:
        """Servers that have to reply."""
        return [self.current] if self.current else []

    def pick(self, rng: random.Random, address: str = "") -> SimulatedServer | None:
        """A server for a client's next call: usually the current one, sometimes a zombie.

        Args: address: the address from the schedule info; only a cluster uses it.
        """
        zombies = [server for server in self.zombies if server.alive]
        if zombies and rng.random() < 0.3:
            return rng.choice(zombies)
        return self.current if self.current and self.current.ready else None

    async def start_server(self, name: str = "s1") -> SimulatedServer:
        """Start a server; retry while faults prevent it. Raises: ServerLost."""
        error: Exception | None = None
        for _ in range(STARTS_MAX):
            error = await self._try_start(name)
            if error is None and self.current is not None:
                return self.current
            await asyncio.sleep(START_PAUSE_S)
        raise ServerLost(f"no server started in {STARTS_MAX} attempts: {error!r}")

    async def _try_start(self, name: str = "s1") -> Exception | None:
        """Make a server the current one; None: it runs."""
        server = self.current = self._new_server(name)
        try:
            await server.start()
        except (TalosError, ServerLost, UnansweredBug) as failure:
            self._end_process(server)
            return failure
        self.recorder.note("started", server=server.name)
        return None

    async def crash(self, *, power: bool = False) -> None:
        """Crash the current server, or every server in a power loss."""
        if power:
            self.recorder.note("power-loss")
            for server in self._servers:
                if server.alive:
                    server.crash()
            self.disk.lose_power()
        elif self.current is not None:
            self.recorder.note("process-crash", server=self.current.name)
            self._end_process(self.current)
        self.current = None

    async def stop_server(self) -> None:
        """Shut down the current server cleanly."""
        server, self.current = self.current, None
        if server is not None and server.alive:
            self.recorder.note("stopping", server=server.name)
            try:
                await server.stop()
            except (TalosError, ServerLost, UnansweredBug) as error:
                if server.name not in self.killed and not isinstance(error, InjectedBug):
                    self.recorder.note("unhandled-error", text=f"{server.name} close: {error!r}")
            self.disk.lose_process(server.process)

    def _new_server(self, name: str) -> SimulatedServer:
        incarnation = len(self._servers) + 1
        self._boot_clock()
        rng = server_rng(self.seed, incarnation)
        skew_ms = self._jump_ms + rng.randint(-SKEW_MS, SKEW_MS)
        config = BrokerConfig(
            server=name,
            advertise=f"{name}.test:80",
            secret_box=PlainSecretBox(),
            log=self.config.log,
            message=self.config.message,
            topic=self.config.topic,
            group=self.config.group,
            quota=self.quota,
            metering=metering_of(self.config.egress, self.config.storage) if self.metered else None,
            minute_ms=self.config.minute_ms,
            sds=self.config.sds,
            encryption=ENCRYPTION if self.config.encrypted else None,
        )
        clock = SimulatedClock(self.loop, rng, skew_ms=skew_ms + self._wrong_ms)
        server = SimulatedServer(self.disk, f"{name}.{incarnation}", config, self.stores, clock)
        self._servers.append(server)
        note_reads(server.broker.context.egress, self.recorder)
        return server

    def _boot_clock(self) -> None:
        """A machine may boot with a clock that is days wrong, each time by others."""
        if self.faults.boot_days and not self.disk.healed:
            rng = self.disk.troubles.rng
            wrong = rng.random() < self.faults.boot_days
            self.set_clocks((drawn_days(rng.random()) if wrong else 0) - self._wrong_ms)

    def _end_process(self, server: SimulatedServer) -> None:
        if server.alive:
            server.crash()
            self.disk.lose_process(server.process)

    def _kill(self, process: SimulatedProcess, kill: Kill) -> None:
        """Kill the process whose call has reached a kill point."""
        for server in self._servers:
            if server.process is process and server.alive:
                self.killed[server.name] = kill
                self.recorder.note("killed-at", server=server.name, point=str(kill))
                self._end_process(server)

    # --- the nemesis ---------------------------------------------------------------------------

    async def inject_faults(self) -> None:
        """Draw faults of servers, clock and disk until the chaos time ends."""
        rng, faults, storage = self._nemesis, self.faults, StorageNemesis(self)
        troubles = None if storage.idle else asyncio.create_task(storage.run(), name="nemesis")
        until_s = self.loop.time() + self.config.chaos_s
        events: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (faults.process_crash, self._crash_and_start),
            (faults.power_loss, self._lose_power_and_start),
            (faults.pause, self._pause),
            (faults.usurped, self._usurp),
            (faults.stop, self._stop_and_start),
            (faults.clock_jump, self._jump),
            (faults.disk_full, self._fill_disk),
            (faults.rot, self._rot),
            *self._damaging(),
        ]
        self.disk.kills.armed = True
        while self.loop.time() < until_s:
            await asyncio.sleep(TICK_S * (0.5 + rng.random()))
            if self.current is not None and self.current.name in self.killed:
                await self._down()
            for probability, event in events:
                if rng.random() < probability * TICK_S:
                    await event()
        if troubles is not None:
            troubles.cancel()

    async def heal(self) -> None:
        """End all faults and leave exactly one running server."""
        self.disk.kills.armed = False
        self.disk.healed = self.disk.troubles.healed = True
        self.set_clocks(-self._wrong_ms)
        self.disk.capacity_bytes = CAPACITY_BYTES
        self.recorder.note("healed")
        for server in self._servers:
            if server is not self.current:
                self._end_process(server)
        if self.current is None or not self.current.ready:
            await self.crash()
            await self.start_server()

    def _damaging(self) -> list[tuple[float, Callable[[], Awaitable[None]]]]:
        """Only those that a world has, so that all others draw the same numbers as without."""
        faults, damages = self.faults, self.damages
        found: list[tuple[float, Callable[[], None]]] = [
            (faults.older_meta, damages.go_back),
            (faults.shorter, damages.shorten),
            (faults.record_rot, damages.flip),
        ]
        return [(each[0], partial(self._damage_and_start, each[1])) for each in found if each[0]]

    async def _damage_and_start(self, damage: Callable[[], None]) -> None:
        """A server ends, by a crash or cleanly, and the next one starts on the damage.

        A record that keeps it from starting is named, and repaired.
        """
        await (self.crash() if self._nemesis.random() < 0.5 else self.stop_server())
        await asyncio.sleep(DAMAGE_AFTER_S)
        damage()
        await asyncio.sleep(self._nemesis.random() * DOWN_S)
        error = await self._try_start()
        if error is not None:
            self.damages.repair(error)
            await self.start_server()

    async def _down(self) -> None:
        await asyncio.sleep(self._nemesis.random() * DOWN_S)
        await self.start_server()

    async def _crash_and_start(self) -> None:
        await self.crash()
        await self._down()

    async def _lose_power_and_start(self) -> None:
        await self.crash(power=True)
        await self._down()

    async def _stop_and_start(self) -> None:
        await self.stop_server()
        await self._down()

    async def _pause(self) -> None:
        server = self.current
        if server is not None:
            self.recorder.note("pause", server=server.name)
            server.process.pause()
            await asyncio.sleep(self._nemesis.random() * self.faults.pause_s)
            server.process.resume()
            self.recorder.note("resume", server=server.name)

    async def _usurp(self) -> None:
        former, rng = self.current, self._nemesis
        if former is None:
            return
        former.process.pause()
        usurper = await self.start_server(rng.choice(["s1", "s2"]))
        self.recorder.note("usurped", server=former.name, by=usurper.name)
        await asyncio.sleep(rng.random() * self.faults.pause_s)
        self.zombies = [former]
        former.process.resume()
        self.recorder.note("resume", server=former.name)
        await asyncio.sleep(rng.random() * ZOMBIE_S)
        self._end_process(former)
        self.zombies = []

    def set_clocks(self, by_ms: int) -> None:
        """Move the wall clock of every server, now and later."""
        self._wrong_ms += by_ms
        for server in self._servers:
            server.clock.jump(by_ms)

    def crowd(self) -> tuple[str, list[str]]:
        """The tenant whose partitions may hang, and their folders."""
        return self._folders()

    def crowd_from(self, folders: "Callable[[], tuple[str, list[str]]]") -> None:
        """The workload knows which partitions may hang."""
        self._folders = folders

    async def _jump(self) -> None:
        jump_ms = round(self._nemesis.uniform(-1, 1) * self.faults.clock_jump_s * 1000)
        self.recorder.note("clock-jump", by_ms=jump_ms)
        self._jump_ms += jump_ms
        for server in self._servers:
            server.clock.jump(jump_ms)

    async def _fill_disk(self) -> None:
        room_bytes = self._nemesis.randint(0, FULL_ROOM_BYTES)
        self.recorder.note("disk-full", room_bytes=room_bytes)
        self.disk.capacity_bytes = self.disk.used_bytes + room_bytes
        await asyncio.sleep(self._nemesis.random() * self.faults.full_s)
        self.disk.capacity_bytes = CAPACITY_BYTES
        self.recorder.note("disk-has-space")

    async def _rot(self) -> None:
        path = self.disk.rot(".log")
        if path is not None:
            topic_uuid, partition, _ = path.split("/")
            self.recorder.note("rot", topic=topic_uuid, partition=int(partition), path=path)

    def _claimed(self, partition: Partition) -> None:
        self.recorder.note("opening", topic=partition[0], partition=partition[1])

    def _observe(self, event: DiskEvent) -> None:
        if event.kind in ("file-commit", "recover-refused"):
            self.recorder.note(event.kind, path=event.path, process=event.process)
        elif event.kind == "segment-open":
            files_max = self.config.log.journal_files_open_max
            if 0 < files_max < event.length:
                self.recorder.note(
                    "too-many-files", process=event.process, count=event.length, most=files_max
                )
