"""Which files of a data directory belong together: all know the number of the last run.

A start and a clean stop raise the number, in each database and last in ``run.json``. So a crash
leaves the first files one ahead of the others; everything else is a file of another time, such as a
database that was put back from an older copy. Then a server that believed it would give offsets
again, or take what it does not know for leftovers. Only a single server's SQLite files have
numbers. A directory without ``run.json`` is believed: a restored backup has none.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from opentalos.model.errors import CorruptLog, TalosError
from opentalos.server.data_directory import RUN_FILE, read_run, write_run

_log: Final = logging.getLogger("opentalos.server")


@runtime_checkable
class Numbered(Protocol):
    """A store whose file has the number of a run."""

    async def last_run(self) -> int: ...
    async def note_run(self, number: int) -> None: ...


class RunNumbers:
    """Those of one server. ``databases``: by name, in the order in which they are written."""

    def __init__(self, data: Path, databases: Mapping[str, Numbered]) -> None:
        self._data, self._databases = data, databases
        self._number = 0

    async def check(self) -> None:
        """Raises: CorruptLog: a file is of another time; ConfigError: run.json cannot be read."""
        found = {name: await database.last_run() for name, database in self._databases.items()}
        known = read_run(self._data) if found else None
        newest = max((*found.values(), known or 0))
        self._number = newest if known is None else known  # the next number finishes a begun one
        if known is None:
            return
        ahead = sorted(found.values(), reverse=True)
        if list(found.values()) == ahead and known <= ahead[-1] <= ahead[0] <= known + 1:
            return
        numbers = {**found, RUN_FILE: known}
        older = " and ".join(name for name, run in numbers.items() if run < newest)
        listed = ", ".join(f"{name} is of run {run}" for name, run in numbers.items())
        raise CorruptLog(
            f"the files of {self._data} are of different times: {listed}; {older} was put back "
            "from an older copy, or lost what it had stored; stop the server and restore all files "
            f"from one backup, or delete {self._data / RUN_FILE} to serve them as they are "
            "(docs/operating/single-server.md#damaged-databases)"
        )

    async def begin(self) -> None:
        """Start a run; durable on return. Raises: as ``check``; Unavailable, OutcomeUnknown."""
        await self.check()
        await self._raise()

    async def end(self) -> None:
        """A clean stop: a copy made during the run differs from the files it leaves."""
        try:
            await self._raise()
        except TalosError as error:
            _log.warning("could not note the end of the run: %s; the files are whole", error)

    async def _raise(self) -> None:
        if self._databases:
            self._number += 1
            for database in self._databases.values():
                await database.note_run(self._number)
            write_run(self._data, self._number)
