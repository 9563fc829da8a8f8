"""ClusterWorld: several servers with stable names over one storage, behind one network.

    async def scenario(world: ClusterWorld) -> None:
        await world.start_all()
        ...                                   # calls through any server
        await world.crash("s1")
        await world.start("s1")

Theory of operation. A host is a stable name with at most one process at a time. ``start`` retries
until the process runs, because faults may prevent it; ``stop`` shuts down cleanly, ``crash_host``
does not. A host in ``gone`` never starts again; a host in ``drained`` was asked to give up its
partitions. Servers reach each other and the stores only through ``network``. Faults come from the
``Nemesis``; ``heal`` ends them all and starts every host that is not gone.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from opentalos.broker.broker import BrokerConfig
from opentalos.broker.cluster.membership import LEND
from opentalos.broker.cluster.records import LeavingKind
from opentalos.model.errors import TalosError
from opentalos.model.limits import ClusterLimits
from opentalos.model.settings.kafka import KafkaGroupLimits
from opentalos.testing.simulation.cluster.control_view import ControlView
from opentalos.testing.simulation.cluster.network import SimulatedNetwork
from opentalos.testing.simulation.cluster.peers import Directory, address_of
from opentalos.testing.simulation.cluster.server import ClusterServer, Forwarding, Seat
from opentalos.testing.simulation.history import History
from opentalos.testing.simulation.loop import SimulatedProcess
from opentalos.testing.simulation.stores.disk import CAPACITY_BYTES
from opentalos.testing.simulation.stores.faults import ENABLED, ClusterFaults
from opentalos.testing.simulation.stores.kills import Kill
from opentalos.testing.simulation.world.clock import SimulatedClock
from opentalos.testing.simulation.world.metered import metering_of
from opentalos.testing.simulation.world.server import (
    PlainSecretBox,
    ServerLost,
    UnansweredBug,
    server_rng,
)
from opentalos.testing.simulation.world.world import (
    SKEW_MS,
    START_PAUSE_S,
    World,
    WorldConfig,
)

TOKEN_BYTES = 8
RECOVER_REFUSED_WORST = 1.0  # highest probability; see FileFaults
LENDING = 0.5  # probability that the servers of a world lend when they restart
ADDRESSED = 0.6  # of calls go to the server that the schedule info names

CLUSTER_LIMITS = ClusterLimits(
    virtual_nodes=16,
    stable_after_s=1.5,
    restart_s=6.0,
    stop_s=5.0,
    handover_s=1.0,
    peer_timeout_s=3.0,
)


# A session is shorter than what a member oversleeps, and a rebalance than a run.
KAFKA_GROUP = KafkaGroupLimits(
    session_min_s=1.0,
    rebalance_max_s=3.0,
    initial_delay_s=0.2,
    heartbeat_s=0.5,
    consumer_session_s=3.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig(WorldConfig):
    """Size and faults of the cluster. Faults that are None are drawn from the seed.

    ``recover_refused`` and ``lending`` (restarts lend their partitions) have generators of their
    own and are drawn only if ``files`` is: with 0, seeds from before they existed give the same
    histories as then.
    """

    chaos_s: float = 12.0
    call_s: float = 2.5
    hosts: int = 3
    workers: int = 2  # of each consumer group
    session_s: float = 2.0
    limits: ClusterLimits = field(default_factory=lambda: CLUSTER_LIMITS)
    cluster: ClusterFaults | None = None
    recover_refused: float | None = None
    lending: bool | None = None
    server_assigns: bool = False  # to members of Kafka groups, instead of their leader


class ClusterWorld(World):
    """One run of a cluster; every random number comes from ``seed``."""

    def __init__(self, seed: int, config: ClusterConfig | None = None) -> None:
        self.cluster_config = config or ClusterConfig()
        super().__init__(seed, self.cluster_config)
        drawn = ClusterFaults.draw(self.rng("cluster faults"))
        self.cluster_faults = self.cluster_config.cluster or drawn
        if self.cluster_config.files is None:
            files = replace(self.stores.files, recover_refused=self._draw_refusals())
            self.stores = replace(self.stores, files=files)
        ensemble = SimulatedClock(self.loop, random.Random(0))
        self.disk.records.wall_ms = ensemble.wall_ms
        self.network = SimulatedNetwork(self.disk)
        self.directory = Directory(self.network)
        self.hosts: dict[str, ClusterServer | None] = {}
        self.gone: dict[str, None] = {}  # hosts that never start again
        self.drained: dict[str, None] = {}
        self.forwarded = 0
        self._made: list[ClusterServer] = []
        self.control = ControlView(self.disk, self.recorder)
        limits = self.cluster_config.limits
        self.limits = replace(limits, restart=LEND) if self._draw_lending() else limits

    def _draw_lending(self) -> bool:
        drawn = self.cluster_config.files is None and self.rng("lending").random() < LENDING
        return drawn if self.cluster_config.lending is None else self.cluster_config.lending

    def _draw_refusals(self) -> float:
        if self.cluster_config.recover_refused is not None:
            return self.cluster_config.recover_refused
        rng = self.rng("refused recoveries")
        return rng.random() * RECOVER_REFUSED_WORST if rng.random() < ENABLED else 0.0

    def play(self, scenario: "Callable[[ClusterWorld], Awaitable[None]]") -> History:
        """Run the scenario to its end and return its history."""
        return self.run(lambda _: scenario(self))

    # --- servers -------------------------------------------------------------------------------

    def running(self) -> list[ClusterServer]:  # type: ignore[override]  # a list is not changed
        """Servers that are started and have not crashed."""
        return [each for each in self.hosts.values() if each is not None and each.ready]

    def pick(self, rng: random.Random, address: str = "") -> ClusterServer | None:
        """A running server, usually the one at the address."""
        running = self.running()
        if address and rng.random() < ADDRESSED:
            for server in running:
                if server.seat.address == address:
                    return server
        return rng.choice(running) if running else None

    async def start_all(self) -> None:
        """Start every host of the configuration."""
        names = [f"s{number + 1}" for number in range(self.cluster_config.hosts)]
        await asyncio.gather(*(self.start(name) for name in names))

    async def start(self, host: str) -> None:
        """Start a host's process; retry until it runs or the host is gone."""
        while host not in self.gone:
            server = self._new_process(host)
            self.hosts[host] = server
            try:
                await server.start()
            except (TalosError, ServerLost, UnansweredBug) as error:
                self.recorder.note("start-failed", server=server.name, text=repr(error))
                if self.hosts[host] is not server:
                    return  # the nemesis has started another process
                self.end_process(server)
                await asyncio.sleep(START_PAUSE_S)
                continue
            self.recorder.note("started", server=server.name, host=host)
            return

    async def crash_host(self, host: str) -> None:
        """Kill a host's process; its session and its files remain."""
        server = self.hosts.get(host)
        if server is not None and server.alive:
            self.recorder.note("process-crash", server=server.name, host=host)
            self.end_process(server)
        self.hosts[host] = None

    async def stop(self, host: str) -> None:
        """Announce a restart of a host's process and shut it down cleanly."""
        server = self.hosts.get(host)
        if server is None or not server.alive:
            return
        began_s = self.loop.time()
        self.recorder.note("stopping", server=server.name, host=host)
        try:
            await server.stop()
        except (TalosError, ServerLost, UnansweredBug) as error:
            self.recorder.note("stop-failed", server=server.name, text=repr(error))
        self.disk.lose_process(server.process)
        if self.hosts[host] is server:
            self.hosts[host] = None
        leaving = self.control.leaving(host)
        mine = leaving is not None and leaving.incarnation == server.seat.incarnation
        if leaving is not None and mine and leaving.kind == LeavingKind.RESTART.value:
            self.recorder.note("announced", host=host, wait_s=leaving.wait_s)
        elif leaving is not None and mine and leaving.kind == LeavingKind.LEND.value:
            self.recorder.note("lends", host=host, began_s=began_s, wait_s=leaving.wait_s)

    async def crash_all(self) -> None:
        """Crash every process."""
        for host in self.hosts:
            await self.crash_host(host)

    async def lose_power_everywhere(self) -> None:
        """Crash every process and lose everything unsynced."""
        self.recorder.note("power-loss")
        for host, server in self.hosts.items():
            if server is not None and server.alive:
                server.crash()
            self.hosts[host] = None
        self.disk.lose_power()

    def end_process(self, server: ClusterServer) -> None:
        """Crash one process and damage its files as a crash does."""
        if server.alive:
            server.crash()
            self.disk.lose_process(server.process)

    def _kill(self, process: SimulatedProcess, kill: Kill) -> None:
        super()._kill(process, kill)
        for host, server in self.hosts.items():
            if server is not None and server.process is process:
                self.recorder.note("process-crash", server=server.name, host=host)

    def _new_process(self, host: str) -> ClusterServer:
        number = len(self._made) + 1
        rng = server_rng(self.seed, number)
        skew_ms = rng.randint(-SKEW_MS, SKEW_MS)
        config = self.cluster_config
        incarnation = rng.randbytes(TOKEN_BYTES).hex()
        broker = BrokerConfig(
            server=host,
            advertise=address_of(host),
            kafka=f"{host}.test:9092",
            secret_box=PlainSecretBox(),
            log=config.log,
            message=config.message,
            topic=config.topic,
            group=config.group,
            kafka_group=KAFKA_GROUP,
            quota=self.quota,
            metering=metering_of(self.config.egress, self.config.storage) if self.metered else None,
            minute_ms=self.config.minute_ms,
            sds=config.sds,
            cluster=self.limits,
            incarnation=incarnation,
        )
        seat = Seat(
            host=host,
            incarnation=incarnation,
            address=address_of(host),
            directory=self.directory,
            session_s=config.session_s,
            forwarded=self._forwarded,
        )
        clock = SimulatedClock(self.loop, rng, skew_ms=skew_ms)
        server = ClusterServer(self.disk, f"{host}.{number}", broker, self.stores, clock, seat)
        self._made.append(server)
        self._servers.append(server)
        return server

    def _forwarded(self, forwarding: Forwarding) -> None:
        self.forwarded += 1
        if forwarding.hops > 1:
            text = f"{forwarding.server} forwards to {forwarding.to}: hop {forwarding.hops}"
            self.recorder.note("forward-loop", text=text)

    # --- after the faults ----------------------------------------------------------------------

    async def heal(self) -> None:
        """End all faults and start every host that is not gone."""
        self.disk.kills.armed = False
        self.disk.healed = True
        self.disk.capacity_bytes = CAPACITY_BYTES
        self.network.mend_all()
        self.recorder.note("healed")
        for host, server in self.hosts.items():
            if server is not None and (host in self.gone or not server.ready):
                self.end_process(server)  # the nemesis was cancelled while starting or stopping it
            elif server is not None:
                server.process.resume()
        await asyncio.gather(
            *(
                self.start(host)
                for host, server in self.hosts.items()
                if host not in self.gone and (server is None or not server.alive)
            )
        )

    async def stop_all(self) -> None:
        """Shut down every process cleanly."""
        await asyncio.gather(*(self.stop(host) for host in list(self.hosts)))
