"""The lake table of clusters: Delta through the package ``deltalake``, without a JAR.

The table is a folder on local disk, HDFS or a store with the protocol of S3. Files are written
where the rows are; a commit adds one entry to the log of Delta, which the store creates only if
nobody else has created it. The entry contains the batch as the application transaction of its
query, so Delta itself refuses a batch that another writer committed meanwhile. Beside it the entry
has the epoch of the query's lease, so a run that has lost its lease is refused.

Readers need the format alone: Spark, Trino and DuckDB with their Delta readers, or any reader of
Parquet over ``files()``. deltalake does not sync files on a local disk, where a power loss may
damage the table; HDFS has replicas (docs/adr/0045-two-homes-of-the-lake.md).
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from opentalos.adapters.bounded_call import answered
from opentalos.model.errors import (
    BadRequest,
    ConfigError,
    NotFound,
    OutcomeUnknown,
    StoreUnavailable,
    TalosError,
)
from opentalos.pipelines.lake.delta.files import DeltaFileWriter, translated
from opentalos.pipelines.lake.file_writer import dataset_of
from opentalos.pipelines.lake.lake_table import UNUSED_HOURS
from opentalos.pipelines.lake.layout import (
    ALL,
    TARGET_BYTES,
    TIME_PROPERTY,
    TIME_TYPE,
    Batch,
    DataFile,
    Layout,
    Seen,
    Span,
    TableSummary,
    time_column,
)
from opentalos.pipelines.lake.tables import hour_of

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

MISSING: Final = "tables in the format of Delta need deltalake: pip install 'opentalos[lake]'"
_NO_TABLE: Final = "could not open the table at {}: no table of Delta is there; check the URL"
OWNER_PROPERTY: Final = "opentalos.owner"
CHECKPOINT_PROPERTY: Final = "delta.checkpointInterval"
COMMIT_TRIES_MAX: Final = 15  # of one commit, against other writers' commits
OPEN_S: Final = 60.0  # at most to open a table; it takes 0.1 to 1 s
CHANGE_S: Final = 900.0  # at most for a commit or a merge, which may read many files
CHECKPOINT_COMMITS: Final = (
    10  # a reader opens the commits since the last checkpoint, each by itself
)
_NO_OPTIONS: Final[Mapping[str, str]] = MappingProxyType({})
PATH_AND_SIZE: Final = ("path", "size_bytes")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class DeltaLakeTable:
    """A ``LakeTable`` at a URL of deltalake: file:///PATH, hdfs://HOST:PORT/PATH, s3://BUCKET/PATH.

    Args:   options: storage options of deltalake; others come from the environment, such as AWS_*
            and HADOOP_CONF_DIR; owner: the only query that may write the table, recorded when it
            is created; "": any number of queries; create: if there is no table.
    Raises: ConfigError: deltalake is missing, or the table has other columns or another owner;
            NotFound: there is no table; StoreUnavailable.
    """

    def __init__(
        self,
        url: str,
        layout: Layout,
        options: Mapping[str, str] = _NO_OPTIONS,
        *,
        owner: str = "",
        create: bool = True,
    ) -> None:
        self._url, self._layout, self._options = url.rstrip("/"), layout, dict(options)
        self._owner = owner
        try:
            import deltalake  # noqa: F401
        except ImportError as error:
            raise ConfigError(MISSING) from error
        self._create_table(create=create)

    def writer(self) -> DeltaFileWriter:
        """See LakeTable."""
        return DeltaFileWriter(self._layout, self._url, self._options)

    def commit(self, batch: Batch, files: Sequence[DataFile]) -> bool:
        """See LakeTable."""
        if not files:
            return False

        def add(table: "DeltaTable") -> None:
            table.create_write_transaction(
                self._added(files),
                "append",
                table.schema(),
                partition_by=list(self._layout.partition_by),
                commit_properties=transaction(batch),
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
                commit_properties=transaction(batch),
            )
            merger.when_matched_update_all().when_not_matched_insert_all().execute()

        return self._once(batch, upsert)

    def replace(self, batch: Batch, seen: Seen, files: Sequence[DataFile]) -> bool:
        """See LakeTable."""
        from deltalake.transaction import RemoveAction

        if self._layout.partition_by:
            raise BadRequest(f"rows of table {self._layout.name}, which has partitions, cannot be "
                             "replaced by the hour")  # fmt: skip
        if not files:
            return False

        def swap(table: "DeltaTable") -> None:
            stored = self._stored(table, seen.spans)
            if self._uris(table, stored) != list(seen.files):
                raise StoreUnavailable(
                    f"could not write table {self._layout.name} at {self._url}: another writer "
                    "changed it; repeat the batch"
                )
            now_ms = time.time_ns() // 1_000_000
            removed = [RemoveAction(path, True, now_ms, size, {}) for path, size in stored]
            table.create_write_transaction(
                [*self._added(files), *removed],
                "append",
                table.schema(),
                # What another writer adds meanwhile was not seen, so nothing is rebased.
                commit_properties=transaction(batch, tries_max=0),
            )

        return self._once(batch, swap)

    def read(self, span: Span = ALL) -> pa.Table:
        """See LakeTable."""
        from deltalake import QueryBuilder

        with self._translated("read", StoreUnavailable):
            query = QueryBuilder().register("rows", self._open())
            found = query.execute(f"SELECT * FROM rows WHERE {self._condition(span)}")
            return self._layout.rows(pa.table(found.read_all()))

    def files(self, *spans: Span) -> list[str]:
        """See LakeTable."""
        with self._translated("list files of", StoreUnavailable):
            table = self._open()
            return self._uris(table, self._stored(table, spans))

    def scan(self, *spans: Span) -> ds.Dataset:
        """See LakeTable."""
        with self._translated("list files of", StoreUnavailable):
            paths = [path for path, _ in self._stored(self._open(), spans)]
        return dataset_of(paths, self.writer().file_system(), self._layout.file_schema)

    def summary(self) -> TableSummary:
        """See LakeTable."""
        with self._translated("open", StoreUnavailable):
            table = self._open()
            added = pa.table(table.get_add_actions(flatten=True))
        first, last = (self._bound(added, bound) for bound in ("min", "max"))
        sums = (pc.sum(added.column(name)).as_py() for name in ("num_records", "size_bytes"))
        rows, size_bytes = (found or 0 for found in sums)
        return TableSummary(table.version(), added.num_rows, rows, size_bytes, first, last)

    def compact(self, target_bytes: int = TARGET_BYTES) -> int:
        """See LakeTable."""
        from deltalake import WriterProperties

        properties = WriterProperties(compression="ZSTD")  # as that of FileWriter
        with self._translated("compact", StoreUnavailable):
            optimizer = self._open().optimize
            done = optimizer.compact(target_size=target_bytes, writer_properties=properties)
        return int(done["numFilesRemoved"])

    def expire(self, before_ms: int, *, dry_run: bool = False) -> int:
        """See LakeTable."""
        from deltalake import QueryBuilder

        condition = f"\"{self._layout.time}\" < '{_instant(hour_of(before_ms) * 1000)}'"
        if dry_run:
            with self._translated("count rows of", StoreUnavailable):
                query = QueryBuilder().register("rows", self._open())
                found = query.execute(f"SELECT count(*) AS n FROM rows WHERE {condition}")
                return int(pa.table(found.read_all()).column("n")[0].as_py())
        with self._translated("expire rows of", OutcomeUnknown):
            done = self._open().delete(condition)
        return int(done["num_deleted_rows"])

    def vacuum(self, unused_hours: int = UNUSED_HOURS, *, dry_run: bool = False) -> int:
        """See LakeTable."""
        with self._translated("vacuum", StoreUnavailable):
            removed = self._open().vacuum(
                unused_hours, dry_run=dry_run, enforce_retention_duration=False, full=True
            )
        return len(removed)

    def has(self, batch: Batch) -> bool:
        """Whether this query has committed this batch or a later one. Raises: StoreUnavailable."""
        with self._translated("read", StoreUnavailable):
            last = self._open().transaction_version(batch.query)
        return last is not None and last >= batch.number

    def _once(self, batch: Batch, change: Callable[["DeltaTable"], None]) -> bool:
        with self._translated("write", StoreUnavailable):
            table = self._open()
            last = table.transaction_version(batch.query)
            newest = table.transaction_version(batch.fence)
        batch.check_epoch(self._layout.name, newest)
        if batch.is_numbered and last is not None and last >= batch.number:
            return False
        with self._translated("write", OutcomeUnknown):
            answered(partial(change, table), CHANGE_S)
        return True

    def _added(self, files: Sequence[DataFile]) -> "list[AddAction | RemoveAction]":
        from deltalake.transaction import AddAction

        now_ms, names = time.time_ns() // 1_000_000, self._layout.partition_by
        return [
            AddAction(
                file.path,
                file.size_bytes,
                dict(zip(names, file.partition, strict=True)),
                now_ms,
                True,
                self._stats(file),
            )
            for file in files
        ]

    def _stored(self, table: "DeltaTable", spans: Sequence[Span]) -> list[tuple[str, int]]:
        """Paths and sizes of files that may have rows of these spans; without a span, of all."""
        added = pa.table(table.get_add_actions(flatten=True))
        low, high = (f"{bound}.{self._layout.time}" for bound in ("min", "max"))
        if spans and added.num_rows and low in added.column_names:
            last, first = added.column(high).cast(TIME_TYPE), added.column(low).cast(TIME_TYPE)
            inside = (
                pc.and_(pc.greater_equal(last, span.start), pc.less(first, span.end))
                for span in spans
            )
            added = added.filter(pc.fill_null(reduce(pc.or_, inside), True))
        columns = (added.column(name).to_pylist() for name in PATH_AND_SIZE)
        return sorted(zip(*columns, strict=True))

    def _uris(self, table: "DeltaTable", stored: Iterable[tuple[str, int]]) -> list[str]:
        root = str(table.table_uri).rstrip("/")
        return [f"{root}/{path}" for path, _ in stored]

    def _create_table(self, *, create: bool) -> None:
        with self._translated("open", StoreUnavailable):
            answered(partial(self._need_table, create=create), OPEN_S)
            table = self._open()
            found = pa.schema(table.schema().to_arrow())
        wanted = self._layout.schema
        if found.names != wanted.names or found.types != wanted.types:
            raise ConfigError(
                f"the table at {self._url} has other columns than {self._layout.name}: "
                f"{', '.join(f'{item.name} {item.type}' for item in found)}; choose another URL"
            )
        metadata = table.metadata()
        if tuple(metadata.partition_columns) != self._layout.partition_by:
            raise ConfigError(
                f"the table at {self._url} is partitioned by other columns than "
                f"{self._layout.name}: {', '.join(metadata.partition_columns) or 'none'}; "
                "choose another URL"
            )
        owner = metadata.configuration.get(OWNER_PROPERTY) or ""
        if self._owner and owner != self._owner:
            raise ConfigError(
                f"the table at {self._url} is written by {owner or 'any query'}, not only by "
                f"{self._owner}; choose another URL"
            )

    def _need_table(self, *, create: bool) -> None:
        from deltalake import DeltaTable
        from deltalake.exceptions import CommitFailedError

        if DeltaTable.is_deltatable(self._url, self._options):
            return
        if not create:
            raise NotFound(_NO_TABLE.format(self._url))
        with suppress(CommitFailedError):  # another process has created it meanwhile
            DeltaTable.create(
                self._url,
                self._layout.schema,
                mode="ignore",
                name=self._layout.name,
                partition_by=list(self._layout.partition_by),
                configuration=self._properties(),
                storage_options=self._options,
                raise_if_key_not_exists=False,  # keys of ours
            )

    def _properties(self) -> dict[str, str | None]:
        owner = {OWNER_PROPERTY: self._owner} if self._owner else {}
        checkpoints = {CHECKPOINT_PROPERTY: str(CHECKPOINT_COMMITS)}
        return {TIME_PROPERTY: self._layout.time, **checkpoints, **owner}

    def _bound(self, added: pa.Table, bound: str) -> int | None:
        """The least or largest time of all files, Unix microseconds."""
        name = f"{bound}.{self._layout.time}"
        if name not in added.column_names:
            return None
        column = added.column(name).cast(TIME_TYPE)
        found = pc.min(column) if bound == "min" else pc.max(column)
        return None if found.value is None else int(found.value)

    def _open(self) -> "DeltaTable":
        from deltalake import DeltaTable

        return answered(partial(DeltaTable, self._url, storage_options=self._options), OPEN_S)

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

    def _translated(self, action: str, otherwise: type[TalosError]) -> AbstractContextManager[None]:
        what = f"could not {action} table {self._layout.name} at {self._url}"
        return translated(what, otherwise)


def delta_layout(
    url: str, time_name: str | None = None, options: Mapping[str, str] = _NO_OPTIONS
) -> Layout:
    """The layout of an existing table, without its key, which a table does not record.

    Args:   time_name: its column of time, if the table does not record it.
    Raises: ConfigError: deltalake is missing, or the column is not known; NotFound: no table is
            there; StoreUnavailable.
    """
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError
    except ImportError as error:
        raise ConfigError(MISSING) from error
    with translated(f"could not open the table at {url}", StoreUnavailable):
        try:
            found = partial(DeltaTable, url.rstrip("/"), storage_options=dict(options))
            table = answered(found, OPEN_S)
        except TableNotFoundError as error:
            raise NotFound(_NO_TABLE.format(url)) from error
        metadata = table.metadata()
        schema = pa.schema(table.schema().to_arrow())
    name = metadata.name or url.rstrip("/").rpartition("/")[2]
    recorded = time_name or metadata.configuration.get(TIME_PROPERTY)
    partition_by = tuple(metadata.partition_columns)
    return Layout(name, schema, time_column(name, schema, recorded), partition_by=partition_by)


def transaction(batch: Batch, tries_max: int = COMMIT_TRIES_MAX) -> "CommitProperties":
    """What a commit records of its batch."""
    from deltalake import CommitProperties, Transaction

    transactions = [Transaction(batch.query, batch.number)] if batch.is_numbered else []
    if batch.epoch:
        transactions.append(Transaction(batch.fence, batch.epoch))
    return CommitProperties(max_commit_retries=tries_max, app_transactions=transactions)


def _instant(time_us: int) -> str:
    found = _EPOCH + timedelta(microseconds=time_us)
    return found.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
