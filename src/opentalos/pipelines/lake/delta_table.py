"""The lake table of clusters: Delta through the package ``deltalake``, without a JAR.

The table is a folder on local disk, HDFS or a store with the protocol of S3. Files are written
where the rows are; a commit adds one entry to the log of Delta, which the store creates only if
nobody else has created it. The entry contains the batch as the application transaction of its
query, so Delta itself refuses a batch that another writer committed meanwhile.

Readers need the format alone: Spark, Trino and DuckDB with their Delta readers, or any reader of
Parquet over ``files()``. deltalake does not sync files on a local disk, where a power loss may
damage the table; HDFS has replicas (docs/adr/0045-two-homes-of-the-lake.md).
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from opentalos.model.errors import ConfigError, OutcomeUnknown, StoreUnavailable, TalosError
from opentalos.pipelines.lake.file_writer import FileWriter
from opentalos.pipelines.lake.lake_table import UNUSED_HOURS
from opentalos.pipelines.lake.layout import (
    ALL,
    TIME_TYPE,
    Batch,
    DataFile,
    Layout,
    Span,
    whole_hour,
)

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

MISSING: Final = "tables in the format of Delta need deltalake: pip install 'opentalos[lake]'"
TARGET_BYTES: Final = 128 << 20  # of a file after compaction
COMMIT_TRIES_MAX: Final = 15  # of one commit, against other writers' commits
_LOCAL: Final = "file://"
_NO_OPTIONS: Final[Mapping[str, str]] = MappingProxyType({})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DeltaFileWriter(FileWriter):
    """Below the table's URL, through the file systems of deltalake."""

    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may contain secrets

    @property
    def local(self) -> bool:
        return self.root.startswith(_LOCAL)

    @contextmanager
    def _create(self, path: str) -> Iterator[Any]:
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        files = PyFileSystem(DeltaStorageHandler(self.root, dict(self.options)))
        with files.open_output_stream(path) as sink:
            yield sink


class DeltaLakeTable:
    """A ``LakeTable`` at a URL of deltalake: file:///PATH, hdfs://HOST:PORT/PATH, s3://BUCKET/PATH.

    Args:   options: storage options of deltalake; others come from the environment, such as AWS_*
            and HADOOP_CONF_DIR.
    Raises: ConfigError: deltalake is missing, or the table has other columns; StoreUnavailable.
    """

    def __init__(self, url: str, layout: Layout, options: Mapping[str, str] = _NO_OPTIONS) -> None:
        self._url, self._layout, self._options = url.rstrip("/"), layout, dict(options)
        try:
            import deltalake  # noqa: F401
        except ImportError as error:
            raise ConfigError(MISSING) from error
        self._create_table()

    def writer(self) -> FileWriter:
        """See LakeTable."""
        return DeltaFileWriter(self._layout, self._url, self._options)

    def commit(self, batch: Batch, files: Sequence[DataFile]) -> bool:
        """See LakeTable."""
        from deltalake.transaction import AddAction

        if not files:
            return False

        def add(table: "DeltaTable") -> None:
            now_ms = time.time_ns() // 1_000_000
            actions = [
                AddAction(file.path, file.size_bytes, {}, now_ms, True, self._stats(file))
                for file in files
            ]
            properties = _transaction(batch)
            table.create_write_transaction(
                list(actions), "append", table.schema(), commit_properties=properties
            )

        return self._once(batch, add)

    def merge(self, batch: Batch, rows: pa.Table) -> bool:
        """See LakeTable."""
        fresh = self._layout.merged(rows)
        if not fresh.num_rows:
            return False
        found = pc.min_max(fresh.column(self._layout.time))
        low, high = found["min"].value, found["max"].value
        at = f't."{self._layout.time}"'
        same = [f't."{name}" = s."{name}"' for name in self._layout.key]
        # Files of other times are not read, and their writers are not in conflict.
        bounds = [f"{at} >= '{_instant(low)}'", f"{at} <= '{_instant(high)}'"]

        def upsert(table: "DeltaTable") -> None:
            merger = table.merge(
                fresh,
                " AND ".join([*same, *bounds]),
                source_alias="s",
                target_alias="t",
                commit_properties=_transaction(batch),
            )
            merger.when_matched_update_all().when_not_matched_insert_all().execute()

        return self._once(batch, upsert)

    def read(self, span: Span = ALL) -> pa.Table:
        """See LakeTable."""
        from deltalake import QueryBuilder

        with self._translated("read", StoreUnavailable):
            query = QueryBuilder().register("rows", self._open())
            found = query.execute(f"SELECT * FROM rows WHERE {self._condition(span)}")
            return self._layout.rows(pa.table(found.read_all()))

    def files(self, span: Span = ALL) -> list[str]:
        """See LakeTable."""
        with self._translated("list files of", StoreUnavailable):
            table = self._open()
            added = pa.table(table.get_add_actions(flatten=True))
        low, high = (f"{bound}.{self._layout.time}" for bound in ("min", "max"))
        if added.num_rows and low in added.column_names:
            late = pc.greater_equal(added.column(high).cast(TIME_TYPE), span.start)
            early = pc.less(added.column(low).cast(TIME_TYPE), span.end)
            added = added.filter(pc.fill_null(pc.and_(late, early), True))
        root = str(table.table_uri).rstrip("/")
        return [f"{root}/{path}" for path in added.column("path").to_pylist()]

    def compact(self) -> int:
        """See LakeTable."""
        with self._translated("compact", StoreUnavailable):
            done = self._open().optimize.compact(target_size=TARGET_BYTES)
        return int(done["numFilesRemoved"])

    def expire(self, before_ms: int) -> int:
        """See LakeTable."""
        bound = _instant(whole_hour(before_ms) * 1000)
        with self._translated("expire rows of", OutcomeUnknown):
            done = self._open().delete(f"\"{self._layout.time}\" < '{bound}'")
        return int(done["num_deleted_rows"])

    def vacuum(self, unused_hours: int = UNUSED_HOURS) -> int:
        """See LakeTable."""
        with self._translated("vacuum", StoreUnavailable):
            removed = self._open().vacuum(
                unused_hours, dry_run=False, enforce_retention_duration=False, full=True
            )
        return len(removed)

    def _once(self, batch: Batch, change: Callable[["DeltaTable"], None]) -> bool:
        with self._translated("write", StoreUnavailable):
            table = self._open()
            last = table.transaction_version(batch.query)
        if last is not None and last >= batch.number:
            return False
        with self._translated("write", OutcomeUnknown):
            change(table)
        return True

    def _create_table(self) -> None:
        from deltalake import DeltaTable
        from deltalake.exceptions import CommitFailedError

        with self._translated("open", StoreUnavailable):
            if not DeltaTable.is_deltatable(self._url, self._options):
                with suppress(CommitFailedError):  # another process has created it meanwhile
                    DeltaTable.create(
                        self._url,
                        self._layout.schema,
                        mode="ignore",
                        name=self._layout.name,
                        storage_options=self._options,
                    )
            found = pa.schema(self._open().schema().to_arrow())
        wanted = self._layout.schema
        if found.names != wanted.names or found.types != wanted.types:
            raise ConfigError(
                f"the table at {self._url} has other columns than {self._layout.name}: "
                f"{', '.join(f'{item.name} {item.type}' for item in found)}; choose another URL"
            )

    def _open(self) -> "DeltaTable":
        from deltalake import DeltaTable

        return DeltaTable(self._url, storage_options=self._options)

    def _condition(self, span: Span) -> str:
        at = f'"{self._layout.time}"'
        conditions = [f"{at} >= '{_instant(span.start_ms * 1000)}'"]
        if span.end_ms < ALL.end_ms:
            conditions.append(f"{at} < '{_instant(span.end_ms * 1000)}'")
        return " AND ".join(conditions)

    def _stats(self, file: DataFile) -> str:
        """Statistics of a file, by which readers prune it."""
        name = self._layout.time
        bounds = {
            "minValues": {name: _instant(file.first_us)},
            "maxValues": {name: _instant(file.last_us)},
            "nullCount": {name: 0},
        }
        return json.dumps({"numRecords": file.rows, **bounds})

    @contextmanager
    def _translated(self, action: str, otherwise: type[TalosError]) -> Iterator[None]:
        """Errors of deltalake as ours. A conflict is not done: Delta has refused the commit."""
        from deltalake.exceptions import CommitFailedError, DeltaError

        what = f"could not {action} table {self._layout.name} at {self._url}"
        try:
            yield
        except CommitFailedError as error:
            raise StoreUnavailable(
                f"{what}: another writer changed it ({_line(error)}); repeat the batch"
            ) from error
        except (DeltaError, OSError) as error:
            raise otherwise(f"{what}: {_line(error)}; repeat the batch") from error


def _transaction(batch: Batch) -> "CommitProperties":
    from deltalake import CommitProperties, Transaction

    transaction = Transaction(batch.query, batch.number)
    return CommitProperties(max_commit_retries=COMMIT_TRIES_MAX, app_transactions=[transaction])


def _instant(time_us: int) -> str:
    found = _EPOCH + timedelta(microseconds=time_us)
    return found.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
