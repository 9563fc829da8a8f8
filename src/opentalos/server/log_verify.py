"""Opens the storage of a stopped server or cluster for ``talos log verify``."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from opentalos.adapters.system_clock import SystemClock
from opentalos.broker.admin.log_verify import Line, VerifySummary, verify_logs
from opentalos.broker.cluster.records import SERVERS
from opentalos.model.errors import ConfigError
from opentalos.server.config import Config
from opentalos.server.data_directory import DataDirectory
from opentalos.server.stores import open_files, open_meta

__all__ = ["Line", "VerifySummary", "verify_data_directory"]

Report = Callable[[Line], None]


def verify_data_directory(
    config: Config,
    report: Report,
    progress: Callable[[int, int], None],
    *,
    repair: bool = False,
) -> VerifySummary:
    """Check the logs of ``config``'s data directory, or of the storage that its cluster shares.

    ``repair``: rebuild side indexes that cannot be used.

    Raises: ConfigError: no data, or a running server uses it; NewerFormat.
    """
    path = Path(config.server.data).absolute()
    if config.storage.clustered:
        return asyncio.run(_verify(config, path, report, progress, repair=repair))
    if not (path / "format.json").exists():
        raise ConfigError(f"{path} is not the data directory of a server")
    directory = DataDirectory(path, SystemClock())
    try:
        return asyncio.run(_verify(config, path, report, progress, repair=repair))
    finally:
        directory.close()


async def _verify(
    config: Config,
    data: Path,
    report: Report,
    progress: Callable[[int, int], None],
    *,
    repair: bool,
) -> VerifySummary:
    async with contextlib.AsyncExitStack() as undo:
        files = await open_files(config, data)
        undo.push_async_callback(files.close)
        meta = await open_meta(config, data)
        undo.push_async_callback(meta.close)
        running = await meta.children(SERVERS)
        if running:
            raise ConfigError(
                f"cannot verify: servers run on this storage: {', '.join(running)}; stop them first"
            )
        return await verify_logs(files, meta, report, progress, repair=repair)
