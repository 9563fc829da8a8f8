"""Opens the storage of a stopped server or cluster, for the commands of ``talos log``."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from opentalos.adapters.sqlite import SqliteRowStore
from opentalos.adapters.system_clock import SystemClock
from opentalos.broker.admin.stored.log_repair import Repaired, repair_log
from opentalos.broker.admin.stored.log_verify import (
    Line,
    VerifySummary,
    damage_of_databases,
    verify_logs,
)
from opentalos.broker.admin.stored.topic_adoption import Adopted, Adoption, adopt_topic
from opentalos.broker.cluster.records import SERVERS
from opentalos.model.errors import ConfigError, CorruptLog
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore
from opentalos.server.config import Config
from opentalos.server.data_directory import DataDirectory
from opentalos.server.run_numbers import RunNumbers
from opentalos.server.stores import (
    ROWS_FILE,
    local_path,
    numbered,
    open_files,
    open_meta,
    open_rows,
)

__all__ = [
    "Adopted",
    "Adoption",
    "Line",
    "Repaired",
    "VerifySummary",
    "adopt_stored_topic",
    "on_stopped_storage",
    "repair_stored_log",
    "verify_data_directory",
]

Report = Callable[[Line], None]
T = TypeVar("T")


def verify_data_directory(
    config: Config,
    report: Report,
    progress: Callable[[int, int], None],
    *,
    repair: bool = False,
) -> VerifySummary:
    """Check the logs and databases of ``config``'s data directory, or the logs of the storage that
    its cluster shares.

    ``repair``: rebuild side indexes that cannot be used.

    Raises: ConfigError: no data, or a running server uses it; NewerFormat.
    """
    data = Path(config.server.data).absolute()
    heard: list[str] = []

    def on_line(line: Line) -> None:
        heard.append(line.text)
        report(line)

    async def verify(files: FileStore, meta: MetaStore) -> VerifySummary:
        summary = await verify_logs(files, meta, on_line, progress, repair=repair)
        if config.storage.clustered:
            return summary  # its other stores have checks of their own
        problems = summary.problems
        async for text in _wrong_databases(config, data, meta):
            if not any(text in line for line in heard):
                problems += 1
                report(damage_of_databases(text))
        return summary._replace(problems=problems)

    return on_stopped_storage(config, "verify", verify)


async def _wrong_databases(config: Config, data: Path, meta: MetaStore) -> AsyncIterator[str]:
    """What is wrong with the files of SQLite."""
    try:
        await anext(meta.watch(""))  # reads every record
    except CorruptLog as error:
        yield str(error)
    path = local_path(config.storage.rows, data / ROWS_FILE)
    if not path.exists():  # opening would make it
        yield f"{path} is missing: positions of consumer groups and rows of tables are lost"
        return
    try:
        async with contextlib.AsyncExitStack() as undo:
            rows = await open_rows(config, data)
            undo.push_async_callback(rows.close)
            await RunNumbers(data, numbered(config, rows, meta)).check()
            if isinstance(rows, SqliteRowStore):
                await rows.verify()
    except CorruptLog as error:
        yield str(error)


def adopt_stored_topic(config: Config, wanted: Adoption) -> Adopted:
    """Give a stored topic that the catalogue does not know a record again.

    Raises: ConfigError: no data, or a running server uses it; and as ``adopt_topic``.
    """
    now_ms = SystemClock().wall_ms()
    return on_stopped_storage(
        config,
        "adopt a topic",
        lambda files, meta: adopt_topic(files, meta, wanted, config.topic, now_ms),
    )


def repair_stored_log(
    config: Config, wanted: str, *, accept_loss: bool, store: bool
) -> list[Repaired]:
    """Rebuild manifests of partitions from their files; ``store``: write them.

    Raises: ConfigError: no data, or a running server uses it; and as ``repair_log``.
    """
    now_ms = SystemClock().wall_ms()
    return on_stopped_storage(
        config,
        "repair a log",
        lambda files, meta: repair_log(
            files, meta, wanted, now_ms, accept_loss=accept_loss, store=store
        ),
    )


def on_stopped_storage(
    config: Config, what: str, work: Callable[[FileStore, MetaStore], Awaitable[T]]
) -> T:
    """Do ``work`` on the stores of ``config``, which no server may use meanwhile.

    Args: what: the work, for the text of an error: "cannot WHAT: servers run".

    Raises: ConfigError: no data, or a running server uses it; NewerFormat; and as ``work``.
    """
    path = Path(config.server.data).absolute()
    if config.storage.clustered:
        return asyncio.run(_with_stores(config, path, what, work))
    if not (path / "format.json").exists():
        raise ConfigError(f"{path} is not the data directory of a server")
    directory = DataDirectory(path, SystemClock())
    try:
        return asyncio.run(_with_stores(config, path, what, work))
    finally:
        directory.close()


async def _with_stores(
    config: Config, data: Path, what: str, work: Callable[[FileStore, MetaStore], Awaitable[T]]
) -> T:
    async with contextlib.AsyncExitStack() as undo:
        files = await open_files(config, data)
        undo.push_async_callback(files.close)
        meta = await open_meta(config, data)
        undo.push_async_callback(meta.close)
        running = await meta.children(SERVERS)
        if running:
            raise ConfigError(
                f"cannot {what}: servers run on this storage: {', '.join(running)}; stop them first"
            )
        return await work(files, meta)
