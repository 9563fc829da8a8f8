"""Several servers in one process: real ports and gateways over shared stores in memory."""

import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

from tests.raw_client import RawClient
from tests.server_process import ROOT_KEY
from tests.waiting import eventually_async, scale

from opentalos.adapters.memory import (
    MemoryFileStore,
    MemoryMetaStore,
    MemoryRowStore,
    MemoryStorage,
)
from opentalos.adapters.peer_http import open_http_peers
from opentalos.adapters.secret_box import AesGcmSecretBox
from opentalos.adapters.system_clock import SystemClock
from opentalos.broker.broker import Broker, BrokerConfig, open_broker
from opentalos.broker.cluster.cluster_ownership import ClusterOwnership
from opentalos.gateway.health import Readiness
from opentalos.gateway.http.server import HttpServer
from opentalos.model.address import TLS_SCHEME
from opentalos.model.limits import ClusterLimits, GroupLimits, LogLimits
from opentalos.model.settings.console import ConsoleSettings
from opentalos.model.settings.security import TlsSettings
from opentalos.model.settings.tables import SdsLimits
from opentalos.server.cluster_join import Member
from opentalos.server.config import Config
from opentalos.server.measuring.loop_watch import LoopWatch
from opentalos.server.ports.gateways import Gateways, Port, open_gateways
from opentalos.server.ports.kafka import KafkaServer
from opentalos.server.ports.tls import ServerTls

KEY = b"c" * 32
PLAIN = TlsSettings()
NO_CONSOLE = ConsoleSettings()
AGREED_LOOKS = 8  # in a row, for 0.2 s: assignments follow a changed ring within some 20 ms
CLUSTER = ClusterLimits(
    stable_after_s=0.0, probe_interval_s=0.05, probe_confirm_s=0.05, restart_s=6.0, stop_s=5.0
)


@dataclass
class MemoryServer:
    """One server of the cluster."""

    name: str
    storage: MemoryStorage
    tls: TlsSettings = field(default_factory=TlsSettings)
    trust: ssl.SSLContext | None = None  # of its clients, if the port has TLS
    sds: SdsLimits = field(default_factory=SdsLimits)
    console: ConsoleSettings = NO_CONSOLE
    group: GroupLimits = field(default_factory=GroupLimits)
    http: HttpServer = field(init=False)
    broker: Broker = field(init=False)
    gateways: Gateways = field(init=False)
    member: Member = field(init=False)
    meta: MemoryMetaStore = field(init=False)
    port: int = 0
    kafka: KafkaServer = field(init=False)
    kafka_address: str = ""

    @property
    def address(self) -> str:
        return f"{TLS_SCHEME if self.tls.enabled else ''}127.0.0.1:{self.port}"

    def client(self) -> RawClient:
        return RawClient(self.port, tls=self.trust)

    def counters(self) -> dict[str, int]:
        """Of requests forwarded here and from here."""
        assert self.gateways.thrift._forwarding is not None
        return self.gateways.thrift._forwarding.counters()

    def ring(self) -> list[str]:
        """Names of the servers that take part, as far as this one knows."""
        ownership = self.broker.context.ownership
        assert isinstance(ownership, ClusterOwnership)
        ring = ownership._state.ring
        return [] if ring is None else list(ring.servers)

    async def start(self) -> "MemoryServer":
        config = replace(Config(), cluster=CLUSTER, console=self.console)
        self.http = HttpServer(config.http)
        tls = ServerTls(self.tls)
        self.port = await self.http.listen("127.0.0.1", self.port, tls.port)
        self.kafka = KafkaServer(config.kafka)
        self.kafka_address = await self.kafka.listen(tls.port, "127.0.0.1")
        clock = SystemClock()
        peers = open_http_peers(CLUSTER, KEY, self.name, tls.client)
        self.member = Member(self.name, clock.token(8).hex(), "c1", KEY, peers)
        self.meta = MemoryMetaStore(self.storage)
        self.broker = open_broker(
            files=MemoryFileStore(self.storage),
            meta=self.meta,
            rows=MemoryRowStore(self.storage),
            clock=clock,
            config=BrokerConfig(
                server=self.name,
                advertise=self.address,
                kafka=self.kafka_address,
                secret_box=AesGcmSecretBox(KEY),
                session_key=KEY,
                incarnation=self.member.incarnation,
                cluster=CLUSTER,
                log=LogLimits(close_s=3.0),
                group=self.group,
                sds=self.sds,
                series_step_ms=1_000,  # as tests measure
            ),
            peers=peers,
        )
        await self.broker.start()
        await self.broker.principals.ensure_root(ROOT_KEY.key_id, ROOT_KEY.secret)
        port = Port(
            http=self.http,
            kafka=self.kafka.port,
            readiness=Readiness(),
            tls=tls,
            watch=LoopWatch(),
            files_short=lambda: 0,
        )
        self.gateways = open_gateways(self.broker, config, self.member, port)
        self.http.serve(self.gateways.exact, self.gateways.prefixes)
        self.kafka.serve(self.broker, self.gateways, "c1")
        await self.broker.take_requests()
        return self

    async def stop(self) -> None:
        await self.broker.announce_restart()
        await self.http.drain(1.0)
        await self.kafka.drain(1.0)
        await self.gateways.drain(0.2)
        await self.broker.close()
        await self.member.peers.close()
        await self.meta.close()


@asynccontextmanager
async def memory_cluster(
    count: int = 3,
    *,
    tls: TlsSettings = PLAIN,
    trust: ssl.SSLContext | None = None,
    sds: SdsLimits | None = None,
    console: ConsoleSettings = NO_CONSOLE,
    group: GroupLimits | None = None,
) -> AsyncIterator[list[MemoryServer]]:
    """Servers that all take part."""
    storage = MemoryStorage()
    async with AsyncExitStack() as undo:
        servers = [
            MemoryServer(
                f"s{number + 1}",
                storage,
                tls,
                trust,
                sds or SdsLimits(),
                console,
                group or GroupLimits(),
            )
            for number in range(count)
        ]
        for server in servers:
            await server.start()
            undo.push_async_callback(server.stop)
        yield servers


async def settled(servers: list[MemoryServer], topic_uuid: str, partitions: int) -> list[int]:
    """Index of the owner by partition, once all servers take part and agree."""
    agreed, seen = 0, list[str]()
    known = {server.address: number for number, server in enumerate(servers)}
    names = {server.name for server in servers}

    def views() -> list[list[str]]:
        return [list(s.broker.context.ownership.addresses(topic_uuid, partitions)) for s in servers]

    def settled_for_long() -> bool:
        nonlocal agreed, seen
        found = views()
        same = all(view == found[0] for view in found) and set(found[0]) <= set(known)
        # A topic's partitions may by chance all lie elsewhere, so the ring shows who is in.
        joined = all(set(server.ring()) == names for server in servers)
        agreed = agreed + 1 if same and joined and found[0] == seen else 0
        seen = found[0]
        return agreed >= AGREED_LOOKS * scale()

    def state() -> object:
        return views(), [server.ring() for server in servers]

    await eventually_async("all servers take part and agree", settled_for_long, state=state)
    return [known[address] for address in seen]
