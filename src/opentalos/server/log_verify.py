"""Opens a data directory for ``talos log verify`` while no server runs on it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from opentalos.adapters.local import open_local_file_store
from opentalos.adapters.sqlite import open_sqlite_meta_store
from opentalos.adapters.system_clock import SystemClock
from opentalos.broker.log_verify import VerifySummary, verify_logs
from opentalos.model.errors import ConfigError
from opentalos.server.config import Config
from opentalos.server.data_directory import DataDirectory

__all__ = ["VerifySummary", "verify_data_directory"]

Report = Callable[[bool, str], None]  # whether it is a problem, and the line


def verify_data_directory(
    config: Config, report: Report, progress: Callable[[int, int], None]
) -> VerifySummary:
    """Check the logs of ``config``'s data directory.

    Raises: ConfigError: there is no data, or a server uses it; NewerFormat.
    """
    path = Path(config.server.data).absolute()
    if not (path / "format.json").exists():
        raise ConfigError(f"{path} is no data directory of a server")
    directory = DataDirectory(path, SystemClock())
    try:
        return asyncio.run(_verify(config, path, report, progress))
    finally:
        directory.close()


async def _verify(
    config: Config, data: Path, report: Report, progress: Callable[[int, int], None]
) -> VerifySummary:
    files_path = config.storage.files.removeprefix("file://")
    meta_path = config.storage.meta.removeprefix("sqlite://")
    files = await open_local_file_store(Path(files_path) if files_path else data / "log")
    try:
        meta = await open_sqlite_meta_store(Path(meta_path) if meta_path else data / "meta.sqlite")
        try:
            return await verify_logs(
                files, meta, lambda finding: report(finding.problem, finding.text), progress
            )
        finally:
            await meta.close()
    finally:
        await files.close()
