"""Backups of a data directory; consistent while its server runs.

The order of copying makes a backup consistent: first the rows of consumer groups and tables, then
the control records, then the files that these name. So no checkpoint is beyond the end of a copied
log, a change that is not pending in a row is in the log of its stream, and everything acknowledged
before the backup began is in a copied file. Journals come before the segments that follow them. A
sealed segment never changes; any prefix of an open
segment is a log as a crash leaves it, which the next start recovers. If retention removes a file
meanwhile, the databases are copied again; so they are if a segment without a file is in no copy of
a journal any more.

Files that no record names are copied as they were before the databases: they may be what is left of
a newer state than the records have, and only their opening can tell (log/manifest/leftovers.py).
What a roll begins meanwhile is left out.
"""

import asyncio
import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Final

from opentalos.adapters.local import open_local_file_store
from opentalos.adapters.local.disk import fence_length
from opentalos.adapters.sqlite import open_sqlite_meta_store
from opentalos.adapters.sqlite.snapshot import copy_database
from opentalos.adapters.store_path import FENCE_SUFFIX
from opentalos.broker.admin.log_files import (
    JOURNALS,
    SEGMENT_HEADER_BYTES,
    Begin,
    LogFile,
    begun_since,
    header_of_cut,
    list_log_files,
    not_in_journals,
    number_of,
)
from opentalos.model.errors import ConfigError, CorruptLog
from opentalos.server.backup.folder import (
    Contents,
    Copied,
    copy_file,
    digest_of,
    new_folder,
    write_contents,
)
from opentalos.server.backup.journals import copy_journals
from opentalos.server.backup.keys import keys_of
from opentalos.server.config import Config
from opentalos.server.stores import LOG_FOLDER, META_FILE, ROWS_FILE, local_path

# An attempt fails if a file is removed after the databases were copied, by retention or a merge.
STUCK_ATTEMPTS_MAX: Final = 8  # in a row that copied no further segment
ATTEMPTS_MAX: Final = 1_000
_PLAIN: Final = ("format.json",)  # written once; the keys are not in a backup

Progress = Callable[[int, int], None]  # bytes done, bytes in total


def make_backup(config: Config, target: Path, progress: Progress) -> Contents:
    """Copy everything that a server stores, but its keys, into the new directory ``target``.

    The directory appears under its name once it is complete and durable; an error or interrupt
    leaves nothing.

    Raises: ConfigError: no data, a cluster's data, or the target exists; StoreUnavailable,
    StorageFull: not done; CorruptLog: a file that the records name is missing.
    """
    if config.storage.clustered:
        raise ConfigError(
            "cannot back up a cluster; use the tools of its stores: HDFS snapshots of [storage] "
            "files, HBase snapshots of rows, a copy of the ZooKeeper tree of meta"
        )
    data = Path(config.server.data).absolute()
    if not (data / "format.json").exists():
        raise ConfigError(f"{data} is not the data directory of a server")
    with new_folder(target) as folder:
        return _Backup(config, data, folder, progress).run()


class _Backup:
    """One backup into ``folder``."""

    def __init__(self, config: Config, data: Path, folder: Path, progress: Progress) -> None:
        storage = config.storage
        self._data, self._folder, self._progress = data, folder, progress
        self._files = local_path(storage.files, data / LOG_FOLDER)
        self._meta = local_path(storage.meta, data / META_FILE)
        self._rows = local_path(storage.rows, data / ROWS_FILE)
        self._sealed: dict[str, Copied] = {}  # of former attempts; they never change

    def run(self) -> Contents:
        """Copy; start again with the databases while files disappear."""
        stuck = 0
        for _ in range(ATTEMPTS_MAX):
            copied = len(self._sealed)
            try:
                return self._attempt()
            except FileNotFoundError as error:
                missing = error.filename
            stuck = stuck + 1 if len(self._sealed) == copied else 0
            if stuck == STUCK_ATTEMPTS_MAX:
                break
        raise CorruptLog(f"cannot back up: {missing} is missing, although the records name it")

    def _attempt(self) -> Contents:
        # What a former attempt copied of journals is read with the new copies, and may be trimmed.
        shutil.rmtree(self._folder / LOG_FOLDER / JOURNALS, ignore_errors=True)
        stored = self._stored()
        listed = self._copy_databases()
        journals = copy_journals(self._files, self._folder / LOG_FOLDER)
        copied = {f"{LOG_FOLDER}/{path}": file for path, file in journals.items()}
        sizes = [self._size(file) for file in listed]
        done, total = 0, sum(sizes)
        late: list[LogFile] = []  # without a file
        for file, size in zip(listed, sizes, strict=True):
            place = f"{LOG_FOLDER}/{file.path}"
            found = self._sealed.get(place) or self._copy(file, place)
            if found is not None:
                copied[place] = found
            elif file.journal:
                late.append(file)
            done += size
            self._progress(done, total)
        copied |= self._copy_unnamed(stored, {file.path for file in listed})
        self._cut_journals(stored, copied)
        copied |= {name: digest_of(self._folder / name) for name in (ROWS_FILE, META_FILE)}
        for file in asyncio.run(_lost(self._folder / LOG_FOLDER, late)) if late else ():
            missing = str(self._files / file.path)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), missing)
        for path in (self._folder / LOG_FOLDER).rglob("*"):
            if path.is_file() and str(path.relative_to(self._folder)) not in copied:
                path.unlink()  # from a former attempt, removed since
        for name in _PLAIN:
            if (self._data / name).exists():
                copied[name] = copy_file(self._data / name, self._folder / name)
        return write_contents(self._folder, copied, keys_of(self._data).check)

    def _copy_unnamed(self, stored: Mapping[str, int], named: Set[str]) -> dict[str, Copied]:
        """Copy what no record names, at most to its former size."""
        copied = {}
        for path in sorted(stored.keys() - named):
            if path.startswith(f"{JOURNALS}/"):
                continue
            place = f"{LOG_FOLDER}/{path}"
            with contextlib.suppress(FileNotFoundError):  # a leftover that was removed meanwhile
                length = fence_length(self._files / path, path)
                known = stored[path] if length is None else min(length, stored[path])
                copied[place] = copy_file(self._files / path, self._folder / place, known)
        return copied

    def _copy_databases(self) -> list[LogFile]:
        """Rows first, see the module's docstring."""
        for source, name in ((self._rows, ROWS_FILE), (self._meta, META_FILE)):
            (self._folder / name).unlink(missing_ok=True)
            copy_database(source, self._folder / name)
        return asyncio.run(_listed(self._folder / META_FILE))

    def _cut_journals(self, before: Mapping[str, int], copied: dict[str, Copied]) -> None:
        """Leave out what was put into segments that the copied manifests do not know yet.

        They would make the copy look as if its databases were older than its log.
        """
        log = self._folder / LOG_FOLDER
        for begin in asyncio.run(_begun(log, self._folder / META_FILE, before)):
            path = log / begin.file
            os.truncate(path, begin.position)
            with path.open("r+b") as file:
                raw = file.read(SEGMENT_HEADER_BYTES)
                file.seek(0)
                file.write(header_of_cut(raw, begin))
                file.flush()
                os.fsync(file.fileno())
            copied[f"{LOG_FOLDER}/{begin.file}"] = digest_of(path)
            for later in path.parent.iterdir():
                if later.name > path.name and number_of(later.name) is not None:
                    copied.pop(str(later.relative_to(self._folder)))
                    later.unlink()

    def _stored(self) -> dict[str, int]:
        """Sizes of all files, by path."""
        found = {}
        for folder, _, names in os.walk(self._files):
            parent = Path(folder).relative_to(self._files)
            for name in names:
                if not name.endswith(FENCE_SUFFIX):
                    with contextlib.suppress(FileNotFoundError):
                        found[str(parent / name)] = Path(folder, name).stat().st_size
        return found

    def _size(self, file: LogFile) -> int:
        path = self._files / file.path
        return path.stat().st_size if file.needed or path.exists() else 0

    def _copy(self, file: LogFile, place: str) -> Copied | None:
        """Copy one file of a log; None: it is missing and can be rebuilt."""
        source = self._files / file.path
        length = fence_length(source, file.path)  # bytes after the fence were never acknowledged
        try:
            copied = copy_file(source, self._folder / place, length)
        except FileNotFoundError:
            if file.needed:
                raise
            return None
        if file.sealed:
            self._sealed[place] = copied
        return copied


async def _listed(path: Path) -> list[LogFile]:
    meta = await open_sqlite_meta_store(path)
    try:
        return await list_log_files(meta)
    finally:
        await meta.close()


async def _begun(log: Path, meta_file: Path, before: Mapping[str, int]) -> list[Begin]:
    files, meta = await open_local_file_store(log), await open_sqlite_meta_store(meta_file)
    try:
        return await begun_since(files, meta, before)
    finally:
        await meta.close()
        await files.close()


async def _lost(folder: Path, late: list[LogFile]) -> list[LogFile]:
    """Of segments without a file those that the copied journals do not have."""
    files = await open_local_file_store(folder)
    try:
        return await not_in_journals(files, late)
    finally:
        await files.close()
