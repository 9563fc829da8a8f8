"""A copy of a database that others are using, as of one moment."""

import sqlite3
from contextlib import closing
from pathlib import Path

from opentalos.adapters.private_files import create_private
from opentalos.adapters.sqlite.database import BUSY_TIMEOUT_MS
from opentalos.model.errors import StoreUnavailable

_MS_PER_S = 1_000


def copy_database(source: Path, target: Path) -> None:
    """Make ``target`` a copy of everything that was committed in ``source`` when it began.

    Does not block writers: the copy reads one snapshot of the write-ahead log.

    Raises: StoreUnavailable: not done; the text has the reason.
    """
    timeout_s = BUSY_TIMEOUT_MS / _MS_PER_S
    try:
        create_private(target)
        with (
            closing(
                sqlite3.connect(f"{source.as_uri()}?mode=rw", uri=True, timeout=timeout_s)
            ) as original,
            closing(sqlite3.connect(target, timeout=timeout_s)) as copy,
        ):
            original.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, with no log beside it
    except (sqlite3.Error, OSError) as error:
        raise StoreUnavailable(f"cannot copy {source}: {error}") from error
