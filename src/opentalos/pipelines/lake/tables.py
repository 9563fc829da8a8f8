"""Tables of the lake: one Parquet file per part, such as an hour, replaced as a whole.

    FOLDER/2026-11-21T23.parquet            a link to the part's current version
    FOLDER/.versions/2026-11-21T23-NONCE.parquet

A version is written and synced, then the link is renamed over the old one: a crash at any point
leaves the old version or the new one. A reader resolves the links once and reads versions, which
never change. A superseded version is kept for ``grace_s``, so a query that has begun does not fail.
``*.parquet`` in the folder is the whole table, each part once, for DuckDB, Spark and people. For
local disks only; files in HDFS are written by Spark itself.
"""

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from opentalos.adapters.durable_files import sync_descriptor
from opentalos.model.errors import NotFound
from opentalos.pipelines.lake.durable_files import sync_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOUR_MS: Final = 3_600_000
GRACE_S: Final = 300.0  # the longest query that may read a replaced file
SWEEP_EVERY: Final = 64  # replacements between two clean-ups
_NAME: Final = "%Y-%m-%dT%H"
_SUFFIX: Final = ".parquet"
_VERSIONS: Final = ".versions"
_NONCE_BYTES: Final = 6
_COMPRESSION: Final = "zstd"
_NO_MARKS: Final[Mapping[str, str]] = MappingProxyType({})


def hour_of(time_ms: int) -> int:
    """The start of the hour of a time; both in Unix milliseconds."""
    return time_ms - time_ms % HOUR_MS


def version_path(name: str) -> str:
    """The path of a new version of the part of this name, below the folder of its table."""
    return f"{_VERSIONS}/{name}-{secrets.token_hex(_NONCE_BYTES)}{_SUFFIX}"


@dataclass(frozen=True, slots=True)
class Staging:
    """A version of a part that is being written."""

    version: str
    _writer: pq.ParquetWriter

    def write(self, rows: pa.Table) -> None:
        """Append rows. Raises: ValueError: they have other columns; OSError."""
        self._writer.write_table(rows)


class PartTable(ABC):
    """A table below HOME/lake, with one writer at a time and any number of readers.

    Its parts are numbers; subclasses give them names.

    Args: name: may have slashes; schema: of all files, and of an empty table; folder: instead of
          HOME/lake/NAME; grace_s: how long superseded files are kept.
    """

    def __init__(
        self,
        home: Path,
        name: str,
        schema: pa.Schema | None = None,
        *,
        folder: Path | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        self.name, self.schema = name, schema
        self.folder = folder or home / "lake" / name
        self._versions = self.folder / _VERSIONS
        self._grace_s = grace_s
        self._replaced = 0

    @abstractmethod
    def _name_of(self, part: int) -> str:
        """The part's name. Raises: ValueError: the number is not a part."""

    @abstractmethod
    def _part_of(self, name: str) -> int | None:
        """The part with this name; None: it is not the name of a part."""

    def replace(self, part: int, rows: pa.Table, marks: Mapping[str, str] = _NO_MARKS) -> None:
        """Replace the part with ``rows``; on return it is durable. No rows: an empty file.

        Args:   rows: with the columns of the schema; marks: texts kept in the file, which change
                together with the rows.
        Raises: ValueError, OSError, pa.ArrowInvalid: not replaced.
        """
        version = self.stage(part, rows, marks)
        self.publish(part, version)
        self._replaced += 1
        if self._replaced % SWEEP_EVERY == 1:
            self._sweep(self._versions / version)

    def stage(self, part: int, rows: pa.Table, marks: Mapping[str, str] = _NO_MARKS) -> str:
        """Write a version of the part, which no reader sees yet, in any process of this machine.

        Returns the version for ``publish``; one that is never published is swept. Args and Raises:
        as for ``replace``.
        """
        whole = rows if self.schema is None else _cast(rows, self.schema)
        whole = whole.replace_schema_metadata(dict(marks)) if marks else whole
        with self.staging(part, whole.schema) as staging:
            staging.write(whole)
        return staging.version

    @contextmanager
    def staging(self, part: int, schema: pa.Schema) -> "Iterator[Staging]":
        """As ``stage``, for rows that are written piece by piece; the version is whole at the end.

        Raises: as for ``replace``.
        """
        self._versions.mkdir(parents=True, exist_ok=True)
        version = self._version(part)
        try:
            with version.open("xb") as file:
                with pq.ParquetWriter(file, schema, compression=_COMPRESSION) as writer:
                    yield Staging(version.name, writer)
                file.flush()
                sync_descriptor(file.fileno())
        except BaseException:
            version.unlink(missing_ok=True)
            raise
        sync_folder(self._versions)

    def publish(self, part: int, version: str) -> None:
        """Replace the part by a version of ``stage``. Raises: OSError: not replaced."""
        link = self.folder / (self._name_of(part) + _SUFFIX)
        self._supersede(link)
        fresh = (self._versions / version).with_suffix(".link")
        fresh.symlink_to(Path(_VERSIONS) / version)
        os.replace(fresh, link)
        sync_folder(self.folder)

    def remove(self, part: int) -> None:
        """Remove the part; readers that have resolved its file may still read it for a while."""
        link = self.folder / (self._name_of(part) + _SUFFIX)
        self._supersede(link)
        link.unlink(missing_ok=True)
        sync_folder(self.folder)

    def marks(self, part: int) -> dict[str, str]:
        """The marks of the part's current version; none if it has no file."""
        found = self.files([part])
        metadata = pq.read_schema(found[0]).metadata if found else None
        return {key.decode(): value.decode() for key, value in (metadata or {}).items()}

    def sweep(self, unused_s: float, *, dry_run: bool = False) -> int:
        """Remove files that no part has needed for this long, and return their number.

        Args: dry_run: only count them.
        """
        if not self._versions.exists():
            return 0
        clock = self._versions / f"clock-{secrets.token_hex(_NONCE_BYTES)}"
        clock.touch()  # the disk's clock gave the other files their times
        try:
            unused = self._unused(clock.stat().st_mtime - unused_s, clock.name)
            return len(unused) if dry_run else _remove(unused)
        finally:
            clock.unlink(missing_ok=True)

    def parts(self) -> list[int]:
        """The parts that have a file, ascending."""
        return sorted(self._links())

    def files(self, parts: Iterable[int] | None = None) -> list[Path]:
        """The current versions of these parts, or of all; parts without a file are omitted."""
        wanted = None if parts is None else set(parts)
        return [
            link.parent / os.readlink(link)
            for part, link in sorted(self._links().items())
            if wanted is None or part in wanted
        ]

    def any_file(self) -> Path | None:
        """The newest part's file, or a superseded one if there is no part; None: no file."""
        found = self.files() or sorted(self._versions.glob(f"*{_SUFFIX}"))
        return found[-1] if found else None

    def load(self, part: int) -> pa.Table:
        """The rows of one part; none if it has no file and the schema is known."""
        found = self.files([part])
        if found:
            return pq.ParquetFile(found[0]).read()
        return self._need_schema().empty_table()

    def read(self, spark: "SparkSession", parts: Iterable[int] | None = None) -> "DataFrame":
        """These parts, or all. Raises: NotFound: there is neither a file nor a schema."""
        paths = [str(path) for path in self.files(parts)]
        if self.schema is None:
            if not paths:
                self._need_schema()
            return spark.read.parquet(*paths)
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(self.schema)
        if not paths:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(*paths)

    def _need_schema(self) -> pa.Schema:
        if self.schema is None:
            raise NotFound(f"table {self.name} has no file for this time")
        return self.schema

    def _links(self) -> dict[int, Path]:
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return {}
        stems = {name.removesuffix(_SUFFIX): name for name in names if name.endswith(_SUFFIX)}
        found = ((self._part_of(stem), self.folder / name) for stem, name in stems.items())
        return {part: link for part, link in found if part is not None}

    def _version(self, part: int) -> Path:
        """The path of a new version."""
        return self.folder / version_path(self._name_of(part))

    def _supersede(self, link: Path) -> None:
        """The grace period of the old version starts now, whenever it was written."""
        try:
            os.utime(link)
        except FileNotFoundError:
            return

    def _sweep(self, newest: Path) -> None:
        """Remove versions without a link whose grace period has ended.

        The time is that of the newest file, because other times come from the disk's clock too.
        """
        _remove(self._unused(newest.stat().st_mtime - self._grace_s, newest.name))

    def _unused(self, oldest: float, spared: str) -> list[Path]:
        current = {os.readlink(link).rpartition("/")[2] for link in self._links().values()}
        leftovers = self._leftovers(current | {spared})
        return [version for version in leftovers if version.lstat().st_mtime <= oldest]

    def _leftovers(self, current: set[str]) -> Iterator[Path]:
        for entry in os.scandir(self._versions):
            if entry.name not in current:
                yield Path(entry.path)


class HourTable(PartTable):
    """A table with a part for each hour: the Unix ms of its start."""

    def hours(self) -> list[int]:
        """The hours that have a file, ascending, as Unix ms of their starts."""
        return self.parts()

    def _name_of(self, part: int) -> str:
        if part % HOUR_MS:
            raise ValueError(f"{part} is not the start of an hour")
        return datetime.fromtimestamp(part / 1000, UTC).strftime(_NAME)

    def _part_of(self, name: str) -> int | None:
        try:
            found = datetime.strptime(name, _NAME)
        except ValueError:
            return None
        return int(found.replace(tzinfo=UTC).timestamp()) * 1000


class HashTable(PartTable):
    """A table with a part for each value of a hash of its key."""

    def _name_of(self, part: int) -> str:
        return f"part-{part:04d}"

    def _part_of(self, name: str) -> int | None:
        number = name.removeprefix("part-")
        return int(number) if number != name and number.isdigit() else None


def _remove(versions: Iterable[Path]) -> int:
    removed = 0
    for version in versions:
        version.unlink(missing_ok=True)
        removed += 1
    return removed


def _cast(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return rows.select(schema.names).cast(schema)
