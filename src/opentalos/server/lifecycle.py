"""The lifecycle of one server process: open the data directory, serve, drain, seal, exit.

``talos serve`` calls ``run_server``. SIGTERM or SIGINT stops the server within ``stop_s``; a second
signal ends it at once. SIGHUP reloads the TLS files. Whatever is not sealed at exit is recovered at
the next start, so no acknowledged message is lost (promise I1).
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opentalos.adapters.data_key import AesGcmDataKey
from opentalos.adapters.encryption_keys import read_encryption_keys
from opentalos.adapters.local.invoice_folder import InvoiceDocuments
from opentalos.adapters.port_check import check_port
from opentalos.adapters.secret_box import AesGcmSecretBox
from opentalos.adapters.system_clock import SystemClock
from opentalos.broker.broker import Broker, BrokerConfig, EncryptionPlan, open_broker
from opentalos.broker.cluster.cluster import SEAL_SHARE
from opentalos.gateway.health import Readiness, reply_starting
from opentalos.gateway.http.server import HttpServer
from opentalos.gateway.sds_http.starting import starting_routes
from opentalos.model.address import TLS_SCHEME, split_address
from opentalos.model.errors import ConfigError, Unavailable
from opentalos.model.limits import LogLimits, SystemTopicSettings
from opentalos.model.settings.billing import BillingSettings
from opentalos.model.settings.security import EncryptionSettings
from opentalos.ports.invoices import PublishedInvoices
from opentalos.server.cluster_join import Member, become_member
from opentalos.server.config import Config, changed_keys, parse_address
from opentalos.server.data_directory import DataDirectory
from opentalos.server.measuring.auditing import Auditing
from opentalos.server.measuring.capacity import (
    journal,
    journal_files_open_max,
    memory_bytes,
    moves_at_once,
    segments_open_max,
)
from opentalos.server.measuring.collector import CalmCollector, freeze_start
from opentalos.server.measuring.descriptor_watch import DescriptorWatch
from opentalos.server.measuring.heap_trim import HeapTrim
from opentalos.server.measuring.loop_watch import LoopWatch
from opentalos.server.measuring.measuring import Measured, Measuring
from opentalos.server.measuring.request_spans import RequestSpans
from opentalos.server.ports.gateways import Gateways, Port, open_gateways
from opentalos.server.ports.kafka import KafkaServer, announced
from opentalos.server.ports.listening import make_ports
from opentalos.server.ports.tls import ServerTls
from opentalos.server.root import RootKey, ensure_root
from opentalos.server.stores import Stores, open_stores

STOP_S = 4.5  # single server: from the signal to the exit, even if storage hangs; promised: 5 s
_CALLS_S = 0.2  # for calls whose connections were closed after the drain time
_SEAL_S_MIN = 1.0  # for sealing, also when draining took all its time
_UMASK = 0o077  # for files of libraries, such as those of a Java virtual machine
_START_RETRY_S = 5.0  # after a backend failed during the start

_WILDCARDS = ("0.0.0.0", "::")

_log = logging.getLogger("opentalos.server")


@dataclass(frozen=True, slots=True)
class Place:
    """A server's addresses: ``listen`` on this machine, ``advertise`` for clients and peers.

    ``advertise`` says whether the port has TLS (model/address.py). ``kafka``: for clients of Kafka.
    """

    listen: str
    advertise: str
    port: int
    kafka: str


@dataclass(slots=True, kw_only=True)
class Server:
    """The parts of a running server, in the order they are closed."""

    config: Config
    stores: Stores
    broker: Broker
    gateways: Gateways
    http: HttpServer
    kafka: KafkaServer
    member: Member | None
    place: Place
    tls: ServerTls
    readiness: Readiness
    watch: LoopWatch
    descriptors: DescriptorWatch
    measuring: Measuring
    auditing: Auditing
    spans: RequestSpans

    @property
    def url(self) -> str:
        """The server's URL on this machine."""
        return f"{'http' if self.tls.port is None else 'https'}://{self.place.listen}"

    async def stop(self) -> None:
        """Reject new requests, answer those under way, seal; bounded by ``stop_s``.

        A cluster member announces the restart first; the others would take a closed port for a
        crash.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + stop_s(self.config)
        self.readiness.stopping = True
        await self.broker.announce_restart()
        drained = await asyncio.gather(
            self.http.drain(self.config.http.drain_s), self.kafka.drain(self.config.http.drain_s)
        )
        if not all(drained):
            _log.warning(
                "connections with requests under way were closed: drain time exceeded",
                extra={"drain_s": self.config.http.drain_s},
            )
        await self.measuring.stop()
        await self.auditing.stop()
        await self.spans.stop()
        self.watch.stop()
        self.descriptors.stop()
        await self.tls.close()
        try:
            async with asyncio.timeout_at(max(end_s, loop.time() + _SEAL_S_MIN)):
                await self.gateways.drain(_CALLS_S)
                await self.broker.close()
                if self.member is not None:
                    await self.member.peers.close()
                await self.stores.close()
        except TimeoutError:
            _log.warning("sealing did not finish in time; the next start recovers the log")
            raise


def stop_s(config: Config) -> float:
    """The longest time that a stop may take."""
    return config.cluster.stop_s if config.storage.clustered else STOP_S


async def open_server(config: Config, directory: DataDirectory, root_key: RootKey) -> Server:
    """Open all parts and listen. On an error everything is closed. Raises: ConfigError and others.

    A cluster member listens first: it must know which port to advertise, and the other servers must
    not take it for crashed while it starts.
    """
    async with contextlib.AsyncExitStack() as undo:
        tls, watch, readiness = ServerTls(config.tls), LoopWatch(), Readiness()
        http, kafka = make_ports(config)
        undo.push_async_callback(http.drain, 0.0)
        undo.push_async_callback(kafka.drain, 0.0)
        place = None
        key = b"" if config.storage.clustered else directory.server_key()
        if config.storage.clustered:
            exact = {**readiness.routes(), **starting_routes()}
            http.serve(exact, [(b"/", reply_starting)])
            place = await _listen(http, kafka, config, tls)
        stores = await open_stores(config, directory.path)
        undo.push_async_callback(stores.close)
        member = None
        if config.storage.clustered:
            member = await become_member(config, directory, stores, tls.client)
            undo.push_async_callback(member.peers.close)
            key = member.key
        settings = _broker_config(config, stores, directory.server, key, directory)
        if member is not None and place is not None:
            settings = _as_member(settings, config, member, place)
        broker = open_broker(
            files=stores.files,
            meta=stores.meta,
            rows=stores.rows,
            clock=SystemClock(),
            config=settings,
            peers=member.peers if member else None,
        )
        await broker.start()
        undo.push_async_callback(broker.close)
        await ensure_root(broker, directory, root_key, stores if member else None)
        port = _port((http, kafka), readiness, tls, watch, stores)
        gateways = open_gateways(broker, config, member, port)
        http.serve(gateways.exact, gateways.prefixes)
        if place is None:
            place = await _listen(http, kafka, config, tls)
            broker.set_advertise(place.advertise, place.kafka)
        cluster, data = member.cluster if member else "", directory.path
        kafka.serve(broker, gateways, cluster)
        measured = _measured(broker, gateways, (http, kafka), watch)
        server = Server(
            config=config,
            stores=stores,
            broker=broker,
            gateways=gateways,
            http=http,
            kafka=kafka,
            member=member,
            place=place,
            tls=tls,
            readiness=readiness,
            watch=watch,
            descriptors=port.descriptors,
            measuring=Measuring(config.measuring, measured, data, cluster),
            auditing=Auditing(config.audit, broker, data),
            spans=RequestSpans(config.tracing, settings.server),
        )
        await _start_rest(directory, server)
        await broker.take_requests()
        undo.pop_all()
        return server


def _measured(
    broker: Broker, gateways: Gateways, ports: tuple[HttpServer, KafkaServer], watch: LoopWatch
) -> Measured:
    http, kafka = ports
    return Measured(
        broker=broker,
        thrift=gateways.thrift,
        sds=gateways.sds,
        rest=gateways.rest,
        http=http,
        kafka=kafka.port,
        watch=watch,
    )


def _port(
    ports: tuple[HttpServer, KafkaServer],
    readiness: Readiness,
    tls: ServerTls,
    watch: LoopWatch,
    stores: Stores,
) -> Port:
    http, kafka = ports
    return Port(
        http=http,
        kafka=kafka.port,
        readiness=readiness,
        tls=tls,
        watch=watch,
        files_short=stores.files_short,
        descriptors=DescriptorWatch(stores.descriptors_lacked),
    )


async def _start_rest(directory: DataDirectory, server: Server) -> None:
    """Say where the ports are, and begin to watch."""
    _write_server_json(directory, server)
    server.watch.start()
    server.descriptors.start()
    server.tls.start()
    await server.measuring.start()
    await server.auditing.start(changed_keys(server.config))
    await server.spans.start(server.http.traffic)


async def open_with_retries(config: Config, directory: DataDirectory, root_key: RootKey) -> Server:
    """``open_server``, retried while a backend of a cluster fails after it was reached.

    Raises: as ``open_server``; Unavailable after ``open_timeout_s``, for a single server at once.
    """
    loop = asyncio.get_running_loop()
    patience_s = config.storage.open_timeout_s if config.storage.clustered else 0.0
    deadline_s = loop.time() + patience_s
    while True:
        try:
            return await open_server(config, directory, root_key)
        except Unavailable as error:
            if loop.time() + _START_RETRY_S > deadline_s:
                raise
            _log.warning("start failed: %s; retrying in %.0f s", error, _START_RETRY_S)
        await asyncio.sleep(_START_RETRY_S)


def _broker_config(
    config: Config, stores: Stores, server: str, key: bytes, seals: DataDirectory | None = None
) -> BrokerConfig:
    return BrokerConfig(
        server=server,
        seal_memory=seals,
        advertise=config.server.advertise or config.server.listen,
        drain_s=config.http.drain_s,
        secret_box=AesGcmSecretBox(key),
        session_key=key,
        log=replace(
            config.log,
            segments_open_max=segments_open_max(config, memory_bytes()),
            journal=journal(config),
            journal_files_open_max=journal_files_open_max(config),
        ),
        auth=config.auth,
        audit=config.audit,
        encryption=encryption_plan(config.encryption),
        message=config.message,
        topic=config.topic,
        group=config.group,
        kafka_group=config.kafka_group,
        quota=config.quota,
        quota_approval=config.quota_approval,
        sds=config.sds,
        metrics_topic=SystemTopicSettings(
            partitions=config.measuring.partitions,
            retention_s=config.measuring.retention_s,
            retention_bytes=config.measuring.retention_bytes,
        ),
        metering=config.metering if config.metering.enabled else None,
        usage_topic=SystemTopicSettings(
            partitions=config.metering.partitions, retention_s=config.metering.retention_s
        ),
        series_step_ms=int(config.measuring.step_s * 1_000),
        series_bytes_max=config.measuring.series_bytes_max,
        native_commits=stores.native_commits,
        invoices=_invoices(config.billing),
        offload=stores.offload,
    )


def _invoices(settings: BillingSettings) -> PublishedInvoices | None:
    return InvoiceDocuments(Path(settings.invoices)) if settings.invoices else None


def encryption_plan(settings: EncryptionSettings) -> EncryptionPlan | None:
    """The server keys of [encryption], which may come from a command that this waits for; None:
    there is none. Raises: ConfigError."""
    found = read_encryption_keys(settings)
    if not found:
        return None
    return EncryptionPlan(
        boxes=[AesGcmSecretBox(key) for key in found.values()],
        sources=list(found),
        make_key=AesGcmDataKey,
        enabled=settings.enabled,
        rotate_after_s=settings.rotate_after_s,
    )


def _as_member(
    settings: BrokerConfig, config: Config, member: Member, place: Place
) -> BrokerConfig:
    return replace(
        settings,
        server=member.name,
        incarnation=member.incarnation,
        advertise=place.advertise,
        kafka=announced(place.kafka, place.advertise),
        cluster=replace(config.cluster, moves_at_once=moves_at_once(config)),
        log=_member_log(settings.log, config),
    )


def _member_log(former: LogLimits, config: Config) -> LogLimits:
    """[log] of a cluster member; a segment must always fit into one HDFS block."""
    log = replace(former, close_s=max(former.close_s, config.cluster.stop_s * SEAL_SHARE))
    if not config.storage.on_hdfs:
        return log
    lanes = max(log.lanes, config.hdfs.threads)  # a commit takes much longer than on a disk
    return replace(
        log,
        lanes=lanes,
        lanes_max=max(log.lanes_max, lanes),
        end_mark_ms=log.end_mark_ms if config.hdfs.end_marks else 0,
        segment_bytes_hard_max=min(log.segment_bytes_hard_max, config.segment_bytes_hdfs_max),
    )


async def _listen(http: HttpServer, kafka: KafkaServer, config: Config, tls: ServerTls) -> Place:
    host, port = parse_address(config.server.listen, "listen")
    try:
        port = await http.listen(host, port, tls.port)
    except OSError as error:
        raise ConfigError(f"cannot listen on {config.server.listen}: {error}") from error
    advertise = config.server.advertise or _reachable(host, port)
    scheme = "" if tls.port is None else TLS_SCHEME
    reached = await kafka.listen(tls.port, split_address(advertise)[0])
    return Place(_address(host, port), scheme + advertise, port, reached)


def _write_server_json(directory: DataDirectory, server: Server) -> None:
    """Write ``server.json``, by which local tools find this server."""
    member = server.member
    record = {
        "version": 1,
        "pid": os.getpid(),
        "server": member.name if member else directory.server,
        "url": server.url,
        "advertise": server.place.advertise,
        "ports": {"http": server.place.port},
    }
    if server.place.kafka:
        record["kafka"] = server.place.kafka
    if member is not None:
        record["cluster"] = {"id": member.cluster, "incarnation": member.incarnation}
    directory.write_server_json(record)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reachable(host: str, port: int) -> str:
    """The advertised address: never a wildcard, which names no machine."""
    if host not in _WILDCARDS:
        return _address(host, port)
    name = socket.gethostname()
    _log.warning(
        "listening on all addresses and advertising %s:%d to clients; set --advertise to change it",
        name,
        port,
    )
    return _address(name, port)


async def serve(
    config: Config,
    directory: DataDirectory,
    root_key: RootKey,
    ready: Callable[[str], None],
) -> None:
    """Run a server until SIGTERM or SIGINT; ``ready`` gets its URL."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(1)  # second signal: exit without sealing
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    server = await _opened(open_with_retries(config, directory, root_key), stop)
    if server is None:
        return
    loop.add_signal_handler(signal.SIGHUP, server.tls.reload)
    freeze_start()
    collector = CalmCollector()
    collector.start()
    heap = HeapTrim()
    heap.start()
    ready(server.url)
    await stop.wait()
    collector.stop()
    heap.stop()
    # A thread that hangs in storage would keep the interpreter from ending.
    loop.call_later(stop_s(config), _leave)
    try:
        await server.stop()
    except TimeoutError:
        _leave()


async def _opened(opening: Coroutine[Any, Any, Server], stop: asyncio.Event) -> Server | None:
    """The opened server; None if a signal arrived first, such as while waiting for a backend."""
    opener, stopper = asyncio.ensure_future(opening), asyncio.ensure_future(stop.wait())
    await asyncio.wait((opener, stopper), return_when=asyncio.FIRST_COMPLETED)
    stopper.cancel()
    if opener.done():
        return opener.result()
    _log.warning("received a stop signal before the server was open")
    asyncio.get_running_loop().call_later(STOP_S, _leave)
    opener.cancel()
    await asyncio.gather(opener, return_exceptions=True)
    return None


def _leave() -> None:
    _log.warning("exiting without waiting for storage; the next start recovers the log")
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


def run_server(config: Config, root_key: RootKey, ready: Callable[[str], None]) -> None:
    """Run ``serve`` on uvloop if it is installed, else on asyncio's own loop."""
    os.umask(_UMASK)
    data = Path(config.server.data).absolute()
    # First, so that a failed start leaves no new files.
    check_port(*parse_address(config.server.listen, "listen"), data)
    directory = DataDirectory(data, SystemClock())
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(serve(config, directory, root_key, ready))
    finally:
        directory.close()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
