"""One server process: open the data directory, serve, drain, seal, leave."""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from opentalos.adapters.local import open_local_file_store
from opentalos.adapters.secret_box import AesGcmSecretBox
from opentalos.adapters.sqlite import open_sqlite_meta_store, open_sqlite_row_store
from opentalos.adapters.system_clock import SystemClock
from opentalos.broker.broker import Broker, BrokerConfig, open_broker
from opentalos.gateway.http.server import HttpServer
from opentalos.gateway.rest.gateway import RestGateway
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.gateway.thrift_http.gateway import ThriftGateway
from opentalos.gateway.thrift_http.handlers import HANDLERS
from opentalos.model.errors import ConfigError
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore
from opentalos.ports.row_store import RowStore
from opentalos.server.config import Config, parse_address
from opentalos.server.data_directory import DataDirectory
from opentalos.server.loop_watch import LoopWatch

STOP_S = 4.5  # from the signal to the exit, even if storage hangs; promised are 5 s
_CALLS_S = 0.2  # for calls whose connections were cut after the drain time
_SEAL_S_MIN = 1.0  # left for sealing when draining took all its time
_OPEN_FILES_MAX = 65_536  # asked of the kernel: connections and segments
# Most objects live for one put. A young collection every 50,000 allocations costs well below a
# millisecond; what was there at the start is frozen and never looked at (HOTPATH rule 6).
_GC_THRESHOLDS = (50_000, 20, 100)

_WILDCARDS = ("0.0.0.0", "::")

_log = logging.getLogger("opentalos.server")


@dataclass(slots=True)
class _Stores:
    files: FileStore
    meta: MetaStore
    rows: RowStore

    async def close(self) -> None:
        await self.files.close()
        await self.rows.close()
        await self.meta.close()


@dataclass(slots=True)
class Server:
    """The parts of a running server, in the order they are closed."""

    config: Config
    directory: DataDirectory
    stores: _Stores
    broker: Broker
    thrift: ThriftGateway
    http: HttpServer
    watch: LoopWatch = field(default_factory=LoopWatch)
    address: str = ""  # host:port listened on

    @property
    def url(self) -> str:
        """Where the server is reached."""
        return f"http://{self.address}"

    async def stop(self) -> None:
        """Refuse what is new, answer what is under way, seal; bounded by ``STOP_S``."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + STOP_S
        if not await self.http.drain(self.config.http.drain_s):
            _log.warning("requests under way were cut after the drain time")
        self.watch.stop()
        try:
            async with asyncio.timeout_at(max(end_s, loop.time() + _SEAL_S_MIN)):
                await self.thrift.drain(_CALLS_S)
                await self.broker.close()
                await self.stores.close()
        except TimeoutError:
            _log.warning("storage did not finish in time; the next start recovers")
            raise


async def open_server(
    config: Config, directory: DataDirectory, root_key: tuple[str, str] | None
) -> Server:
    """Open everything and listen. Raises: ConfigError and other leaves, everything closed."""
    async with contextlib.AsyncExitStack() as undo:
        key = directory.server_key()
        stores = await _open_stores(config, directory.path)
        undo.push_async_callback(stores.close)
        host, port = parse_address(config.server.listen, "listen")
        broker = open_broker(
            files=stores.files,
            meta=stores.meta,
            rows=stores.rows,
            clock=SystemClock(),
            config=BrokerConfig(
                server=directory.server,
                advertise=config.server.advertise or config.server.listen,
                secret_box=AesGcmSecretBox(key),
                log=config.log,
                auth=config.auth,
                message=config.message,
                topic=config.topic,
                group=config.group,
                quota=config.quota,
            ),
        )
        await broker.start()
        undo.push_async_callback(broker.close)
        await _ensure_root(broker, directory, root_key)
        authenticator = Authenticator(broker.principals, config.auth)
        thrift = ThriftGateway(broker, authenticator, HANDLERS)
        rest = RestGateway(broker, authenticator)
        http = HttpServer(config.http, thrift.routes() | rest.exact_routes(), rest.prefix_routes())
        try:
            port = await http.listen(host, port)
        except OSError as error:
            raise ConfigError(f"cannot listen on {config.server.listen}: {error}") from error
        server = Server(config, directory, stores, broker, thrift, http)
        server.address = _address(host, port)
        advertise = config.server.advertise or _reachable(host, port)
        broker.set_advertise(advertise)
        directory.write_server_json(
            {
                "version": 1,
                "pid": os.getpid(),
                "server": directory.server,
                "url": server.url,
                "advertise": advertise,
                "ports": {"http": port},
            }
        )
        server.watch.start()
        undo.pop_all()
        return server


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reachable(host: str, port: int) -> str:
    """What clients are told to dial: never the wildcard, which names no machine."""
    if host not in _WILDCARDS:
        return _address(host, port)
    name = socket.gethostname()
    _log.warning("clients are told to use %s:%d; --advertise sets another address", name, port)
    return _address(name, port)


async def _open_stores(config: Config, data: Path) -> _Stores:
    files_path = config.storage.files.removeprefix("file://")
    meta_path = config.storage.meta.removeprefix("sqlite://")
    rows_path = config.storage.rows.removeprefix("sqlite://")
    async with contextlib.AsyncExitStack() as undo:
        files = await open_local_file_store(
            Path(files_path) if files_path else data / "log",
            exclusive=not files_path,  # below the directory that this process has locked
        )
        undo.push_async_callback(files.close)
        meta = await open_sqlite_meta_store(Path(meta_path) if meta_path else data / "meta.sqlite")
        undo.push_async_callback(meta.close)
        rows = await open_sqlite_row_store(Path(rows_path) if rows_path else data / "rows.sqlite")
        undo.pop_all()
        return _Stores(files, meta, rows)


async def _ensure_root(
    broker: Broker, directory: DataDirectory, root_key: tuple[str, str] | None
) -> None:
    if root_key is not None:
        await broker.principals.ensure_root(*root_key)
    elif not broker.principals.has_root():
        key = directory.root_key()
        await broker.principals.ensure_root(*key)
        print(f"root key: {directory.path / 'root.key'}", file=sys.stderr, flush=True)  # noqa: T201


async def serve(
    config: Config,
    directory: DataDirectory,
    root_key: tuple[str, str] | None,
    ready: Callable[[str], None],
) -> None:
    """Run a server until SIGTERM or SIGINT; ``ready`` gets its URL."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(1)  # asked twice: do not even seal
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    _raise_open_files()
    server = await open_server(config, directory, root_key)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    ready(server.url)
    await stop.wait()
    # A thread that hangs in storage would keep the interpreter from ending.
    loop.call_later(STOP_S, _leave)
    try:
        await server.stop()
    except TimeoutError:
        _leave()


def _leave() -> None:
    _log.warning("leaving without waiting for storage")
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


def _raise_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES_MAX)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run_server(
    config: Config, root_key: tuple[str, str] | None, ready: Callable[[str], None]
) -> None:
    """``serve`` on uvloop where it is installed, else on asyncio's own loop."""
    directory = DataDirectory(Path(config.server.data).absolute(), SystemClock())
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
