"""Opens the stores that [storage] names; waits for the backends of a cluster, up to a limit."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from opentalos.adapters.io_threads import IoThreads
from opentalos.adapters.local import LocalFileStore, open_local_file_store
from opentalos.adapters.private_files import make_private, read_credential
from opentalos.adapters.sqlite import open_sqlite_meta_store, open_sqlite_row_store
from opentalos.broker.long_work import TURNS_MAX
from opentalos.model.errors import ConfigError, Unavailable
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore
from opentalos.ports.row_store import RowStore
from opentalos.server.config import Config
from opentalos.server.measuring.descriptor_plan import descriptor_plan
from opentalos.server.run_numbers import Numbered, RunNumbers

LOG_FOLDER = "log"  # in the data directory, like the two files
META_FILE = "meta.sqlite"
ROWS_FILE = "rows.sqlite"
REPORT_INTERVAL_S = 5.0  # between log lines about an unreachable backend
_RETRY_S = 1.0
_OFFLOAD_LINGER_S = 10.0  # of threads that decompress, after their last job
_OFFLOAD_CLOSE_S = 0.2  # for a job under way; its caller is gone

StoreT = TypeVar("StoreT", FileStore, MetaStore, RowStore)

_log = logging.getLogger("opentalos.server")


@runtime_checkable
class Replicated(Protocol):
    """A file store with several replicas of each file, without an import of its packages."""

    @property
    def files_short(self) -> int: ...


def _offload_threads() -> IoThreads:
    return IoThreads(
        "offload", threads=TURNS_MAX, threads_max=TURNS_MAX, linger_s=_OFFLOAD_LINGER_S
    )


@dataclass(slots=True)
class Stores:
    """The three stores of one server, and its threads for work beside the loop.

    A thread starts with its first job and ends when it was idle for a while.
    """

    files: FileStore
    meta: MetaStore
    rows: RowStore
    offload: IoThreads = field(default_factory=_offload_threads)
    runs: RunNumbers | None = None

    @property
    def native_commits(self) -> bool:
        """Whether the accelerator writes the message logs."""
        return isinstance(self.files, LocalFileStore) and self.files.native_commits

    def files_short(self) -> int:
        """Open files with fewer replicas than configured; a disk has none."""
        return self.files.files_short if isinstance(self.files, Replicated) else 0

    def descriptors_lacked(self) -> int:
        """Calls that found no free descriptor."""
        return self.files.lacked if isinstance(self.files, LocalFileStore) else 0

    async def close(self) -> None:
        """Close all; the meta store last, since its session is this server's membership."""
        await self.offload.close(deadline_s=_OFFLOAD_CLOSE_S)
        await self.files.close()
        if self.runs is not None:
            await self.runs.end()
        await self.rows.close()
        await self.meta.close()


async def open_stores(config: Config, data: Path) -> Stores:
    """Open what the configuration names.

    Raises: ConfigError: a store cannot be used, or was not reached within ``open_timeout_s``;
    CorruptLog: a database is damaged, or older than the other.
    """
    storage = config.storage
    patience_s = storage.open_timeout_s if storage.clustered else 0.0  # for each store
    async with contextlib.AsyncExitStack() as undo:
        files = await _Wait(storage.files, patience_s).reached(lambda: open_files(config, data))
        undo.push_async_callback(files.close)
        meta = await _Wait(storage.meta, patience_s).reached(lambda: open_meta(config, data))
        undo.push_async_callback(meta.close)
        rows = await _Wait(storage.rows, patience_s).reached(lambda: open_rows(config, data))
        undo.push_async_callback(rows.close)
        runs = RunNumbers(data, numbered(config, rows, meta))
        await runs.begin()
        undo.pop_all()
        return Stores(files, meta, rows, runs=runs)


def numbered(config: Config, rows: RowStore, meta: MetaStore) -> dict[str, Numbered]:
    """The stores whose files have the number of a run, in the order in which it is written.

    Several servers that share files have runs of their own.
    """
    if config.storage.clustered:
        return {}
    urls = ((config.storage.rows, ROWS_FILE, rows), (config.storage.meta, META_FILE, meta))
    return {
        str(local_path(url, Path(name))): store
        for url, name, store in urls
        if isinstance(store, Numbered)
    }


# Clients of a cluster's backends are imported only if configured: a single server needs neither
# their packages nor a Java virtual machine.


async def open_files(config: Config, data: Path) -> FileStore:
    """The store of message logs."""
    url = config.storage.files
    if url.startswith("hdfs://"):
        from opentalos.adapters.hdfs import open_hdfs_file_store

        return await open_hdfs_file_store(url, config.jvm, config.hdfs)
    root = local_path(url, data / LOG_FOLDER)
    if make_private(root.resolve()):
        _log.warning("other users of this machine could read %s; corrected", root)
    own = url == "file://"  # only this process writes below the directory that it has locked
    store = await open_local_file_store(
        root,
        exclusive=own,
        descriptors=descriptor_plan(config).files,
        accelerator=config.storage.accelerator,
    )
    kind = "native" if store.native_commits else "Python"
    _log.info("commits run on %s threads", kind, extra={"accelerator": config.storage.accelerator})
    return store


async def open_meta(config: Config, data: Path) -> MetaStore:
    """The store of control records."""
    url = config.storage.meta
    if url.startswith("zookeeper://"):
        from opentalos.adapters.zookeeper import open_zookeeper_meta_store

        limits = config.zookeeper
        if limits.auth_file:
            limits = replace(limits, auth=read_credential(Path(limits.auth_file)), auth_file="")
        return await open_zookeeper_meta_store(url, limits)
    return await open_sqlite_meta_store(local_path(url, data / META_FILE))


async def open_rows(config: Config, data: Path) -> RowStore:
    """The store of consumer groups."""
    url = config.storage.rows
    if url.startswith("hbase://"):
        from opentalos.adapters.hbase import open_hbase_row_store

        return await open_hbase_row_store(url, config.jvm, config.hbase)
    return await open_sqlite_row_store(local_path(url, data / ROWS_FILE))


def local_path(url: str, default: Path) -> Path:
    """The path of a ``file://`` or ``sqlite://`` URL; without a path, the default."""
    path = url.partition("://")[2]
    return Path(path) if path else default


class _Wait:
    """Waits for a backend that does not answer yet, and logs that at intervals."""

    def __init__(self, url: str, patience_s: float) -> None:
        self._url, self._patience_s = url, patience_s
        self._deadline_s = asyncio.get_running_loop().time() + patience_s
        self._reason = "no answer yet"

    async def reached(self, opener: Callable[[], Awaitable[StoreT]]) -> StoreT:
        """Call the opener until it succeeds. Raises: ConfigError: not in time."""
        if not self._patience_s:
            return await opener()
        reporter = asyncio.create_task(self._report())
        try:
            async with asyncio.timeout_at(self._deadline_s):
                while True:
                    try:
                        return await opener()
                    except Unavailable as error:
                        self._reason = str(error)
                    await asyncio.sleep(_RETRY_S)
        except TimeoutError as error:
            patience = f"gave up after {self._patience_s:g} s ([storage] open_timeout_s)"
            raise ConfigError(f"cannot reach {self._url}: {self._reason}; {patience}") from error
        finally:
            reporter.cancel()
            await asyncio.gather(reporter, return_exceptions=True)

    async def _report(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(REPORT_INTERVAL_S)
            left_s = max(0.0, self._deadline_s - loop.time())
            _log.warning("waiting for %s: %s; giving up in %.0f s", self._url, self._reason, left_s)
