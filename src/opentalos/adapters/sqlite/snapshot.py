"""A copy of a database that others are using, as of one moment."""

import sqlite3
from contextlib import closing
from pathlib import Path

from opentalos.adapters.private_files import create_private
from opentalos.adapters.sqlite.database_file import BUSY_TIMEOUT_MS
from opentalos.adapters.sqlite.write_ahead import RESTORE, check_log
from opentalos.model.errors import CorruptLog, StoreUnavailable

_MS_PER_S = 1_000


def copy_database(source: Path, target: Path) -> None:
    """Make ``target`` a copy of everything that was committed in ``source`` when it began.

    Does not block writers: the copy reads one snapshot of the write-ahead log.

    Raises: CorruptLog: ``source`` or its log is damaged; StoreUnavailable: the text has the reason.
    Not done.
    """
    timeout_s = BUSY_TIMEOUT_MS / _MS_PER_S
    try:
        check_log(source)  # the connection below may be the last, which deletes the log
        create_private(target)
        with (
            closing(
                sqlite3.connect(f"{source.as_uri()}?mode=rw", uri=True, timeout=timeout_s)
            ) as original,
            closing(sqlite3.connect(target, timeout=timeout_s)) as copy,
        ):
            original.backup(copy)
            (found,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                raise CorruptLog(f"{source} is damaged: {found}; {RESTORE}")
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, with no log beside it
    except (sqlite3.Error, OSError) as error:
        raise StoreUnavailable(f"cannot copy {source}: {error}") from error
