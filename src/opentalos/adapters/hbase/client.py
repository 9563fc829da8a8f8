"""Blocking calls of the Java client to HBase. Every method belongs on an I/O thread.

Each tries once. Raises, besides what a method names: NotFound for a table that is not there,
StoreUnavailable: not done; OutcomeUnknown of calls that change something.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from opentalos.adapters.hbase.configuration import HbaseLocation, java_configuration
from opentalos.adapters.hbase.java_errors import is_a, translated
from opentalos.adapters.hbase.row_format import (
    COLUMN_PREFIX,
    FAMILY,
    LIVE,
    STATE_COLUMN,
    WRITE_COLUMN,
    Cell,
    decode_cell,
    encode_state,
    row_of,
    state_of,
)
from opentalos.adapters.java_types import java_types
from opentalos.adapters.row_rules import RowState, only_clears
from opentalos.model.errors import StoreUnavailable, TalosError
from opentalos.model.limits import HbaseLimits
from opentalos.ports.row_store import FamilyName, Row, RowMutation

SCAN_ROWS_AT_ONCE = 500
_CLIENT = "org.apache.hadoop.hbase.client."
_FILTER = "org.apache.hadoop.hbase.filter."


class Attempt(NamedTuple):
    """A mutation, and the state that its row is thought to have."""

    mutation: RowMutation
    current: RowState

    @property
    def version(self) -> int:
        """The row's version if it is applied."""
        return self.current.version + (not only_clears(self.mutation))


class KeyRange(NamedTuple):
    """What a scan covers: start <= key < stop; an empty stop is the end of the table."""

    start: bytes
    stop: bytes
    limit: int
    reverse: bool


class HbaseClient:
    """One connection; tables are those of one namespace."""

    def __init__(self, location: HbaseLocation, conf_dir: Path | None, limits: HbaseLimits) -> None:
        """Connect. Raises: StoreUnavailable."""
        import jpype  # runs by now; see start_jvm

        classes = java_types(__package__)
        _print_no_traces(classes)
        self._java_exception: type[Exception] = jpype.JException
        self._namespace = location.namespace
        self._bytes = jpype.JArray(jpype.JByte)
        self._byte_arrays = jpype.JArray(self._bytes)
        self._long, self._objects = jpype.JLong, jpype.JArray(jpype.JObject)
        self._list = classes("java.util.ArrayList")
        self._table_name = classes("org.apache.hadoop.hbase.TableName")
        self._namespaces = classes("org.apache.hadoop.hbase.NamespaceDescriptor")
        self._tables = classes(f"{_CLIENT}TableDescriptorBuilder")
        self._families = classes(f"{_CLIENT}ColumnFamilyDescriptorBuilder")
        self._put, self._delete = classes(f"{_CLIENT}Put"), classes(f"{_CLIENT}Delete")
        self._get, self._scan = classes(f"{_CLIENT}Get"), classes(f"{_CLIENT}Scan")
        self._row_mutations = classes(f"{_CLIENT}RowMutations")
        self._check_and_mutate = classes(f"{_CLIENT}CheckAndMutate")
        self._check_result = classes(f"{_CLIENT}CheckAndMutateResult")
        self._copy_cell = classes("org.apache.hadoop.hbase.KeyValueUtil").copyToNewByteArray
        self._family = {name: self._bytes(family) for name, family in FAMILY.items()}
        self._data = self._family[FamilyName.DATA]
        self._state, self._write = self._bytes(STATE_COLUMN), self._bytes(WRITE_COLUMN)
        with self._translating(location.quorum):
            self._live = classes(f"{_FILTER}SingleColumnValueFilter")(
                self._data,
                self._state,
                classes("org.apache.hadoop.hbase.CompareOperator").EQUAL,
                classes(f"{_FILTER}BinaryPrefixComparator")(self._bytes(LIVE)),
            )
            self._live.setFilterIfMissing(True)
            self._first_cell = classes(f"{_FILTER}FirstKeyOnlyFilter")()
            configuration = java_configuration(classes, conf_dir, location, limits)
            factory = classes(f"{_CLIENT}ConnectionFactory")
            self._connection = classes.ready(factory.createConnection(configuration))

    # --- tables ---------------------------------------------------------------------------------

    def make_namespace(self) -> None:
        """Make the namespace if it is missing."""
        with self._translating(self._namespace), self._connection.getAdmin() as admin:
            if self._namespace in [str(name) for name in admin.listNamespaces()]:
                return
            try:
                admin.createNamespace(self._namespaces.create(self._namespace).build())
            except self._java_exception as error:
                if not is_a(error, "NamespaceExistException"):
                    raise

    def open_table(self, table: str, splits: Sequence[bytes]) -> None:
        """Make the table if it is missing. Raises: StoreUnavailable also while another client
        is making it."""
        with self._translating(table), self._connection.getAdmin() as admin:
            name = self._name(table)
            if not admin.tableExists(name):
                builder = self._tables.newBuilder(name)
                for family in self._family.values():
                    builder.setColumnFamily(self._families.of(family))
                try:
                    if splits:
                        keys = self._byte_arrays([self._bytes(key) for key in splits])
                        admin.createTable(builder.build(), keys)
                    else:
                        admin.createTable(builder.build())
                except self._java_exception as error:
                    if not is_a(error, "TableExistsException"):
                        raise
            if not admin.isTableAvailable(name):
                raise StoreUnavailable(f"{table}: its regions are not yet assigned")

    def drop_table(self, table: str) -> None:
        """Remove the table; an absent one is no error."""
        with self._translating(table), self._connection.getAdmin() as admin:
            name = self._name(table)
            try:
                if admin.isTableEnabled(name):
                    admin.disableTable(name)
                admin.deleteTable(name)
            except self._java_exception as error:
                if not is_a(error, "TableNotFoundException"):
                    raise

    # --- reads ----------------------------------------------------------------------------------

    def get(self, table: str, keys: Sequence[bytes], family: FamilyName) -> list[Row | None]:
        """Rows in the order asked."""
        gets = self._list()
        for key in keys:
            get = self._get(self._bytes(key))
            self._select(get, family)
            gets.add(get)
        with self._translating(table):
            return [row_of(self._cells(found), family) for found in self._table(table).get(gets)]

    def scan(self, table: str, keys: KeyRange, family: FamilyName, deadline_s: float) -> list[Row]:
        """Rows of the range. Raises: StoreUnavailable also after the deadline, of ``monotonic``."""
        if family is FamilyName.PENDING:
            return self._scan_pending(table, keys, deadline_s)
        scan = self._scan().setFilter(self._live)
        self._select(scan, family)
        results = self._results(table, scan, keys, deadline_s)
        rows = (row_of(self._cells(result), family) for result in results)
        return [row for row in rows if row is not None]

    def _scan_pending(self, table: str, keys: KeyRange, deadline_s: float) -> list[Row]:
        """Rows with pending cells: their keys from that family alone, which is small whatever the
        other holds, and then the rows themselves, whole."""
        found: list[Row] = []
        start, stop = keys.start, keys.stop
        while len(found) < keys.limit and not (stop and start >= stop):
            limit = min(keys.limit - len(found), SCAN_ROWS_AT_ONCE)
            scan = self._scan().addFamily(self._family[FamilyName.PENDING])
            scan.setFilter(self._first_cell)
            part = KeyRange(start, stop, limit, keys.reverse)
            results = self._results(table, scan, part, deadline_s)
            names = [self._cells(result)[0].row for result in results]
            rows = self.get(table, names, FamilyName.PENDING) if names else []
            found += [row for row in rows if row is not None and row.cells]
            if len(names) < limit:
                break
            if keys.reverse:
                stop = names[-1]
            else:
                start = names[-1] + b"\0"
        return found

    def _results(self, table: str, scan: Any, keys: KeyRange, deadline_s: float) -> Iterator[Any]:
        start, stop = self._bytes(keys.start), self._bytes(keys.stop)
        if keys.reverse:
            scan.withStartRow(stop, False).withStopRow(start, True).setReversed(True)
            # Else HBase would read the other family only for live rows, which it refuses backwards.
            scan.setLoadColumnFamiliesOnDemand(False)
        else:
            scan.withStartRow(start, True).withStopRow(stop, False)
        scan.setLimit(keys.limit).setCaching(min(keys.limit, SCAN_ROWS_AT_ONCE))
        found = 0
        with self._translating(table), self._table(table).getScanner(scan) as scanner:
            while (result := scanner.next()) is not None:
                yield result
                found += 1
                if monotonic() > deadline_s:
                    raise StoreUnavailable(f"{table}: {found} rows were read in time")

    # --- writes ---------------------------------------------------------------------------------

    def write(self, table: str, attempts: Sequence[Attempt]) -> list[int | RowState | TalosError]:
        """Try each mutation once, by itself.

        Returns: for each the row's new version; or the state that the row has instead of the one
        it was thought to have; or what befell it.
        """
        outcomes: list[int | RowState | TalosError]
        if len(attempts) == 1:
            outcomes = [self._write_one(table, attempts[0])]
        else:
            outcomes = self._write_batch(table, attempts)
        missed = [number for number, outcome in enumerate(outcomes) if outcome == 0]
        if missed:
            keys = [attempts[number].mutation.key for number in missed]
            for number, found in zip(missed, self._found(table, keys), strict=True):
                outcomes[number] = found
        return outcomes

    def _write_one(self, table: str, attempt: Attempt) -> int | RowState | TalosError:
        try:
            result = self._table(table).checkAndMutate(self._conditional(attempt))
        except self._java_exception as error:
            return translated(error, table, changes=True)
        return attempt.version if result.isSuccess() else 0

    def _write_batch(
        self, table: str, attempts: Sequence[Attempt]
    ) -> list[int | RowState | TalosError]:
        actions = self._list()
        for attempt in attempts:
            actions.add(self._conditional(attempt))
        results = self._objects(len(attempts))
        failure: TalosError = StoreUnavailable(table)
        try:
            self._table(table).batch(actions, results)
        except self._java_exception as error:
            failure = translated(error, table, changes=True)
        outcomes: list[int | RowState | TalosError] = []
        for attempt, result in zip(attempts, results, strict=True):
            if isinstance(result, self._check_result):
                outcomes.append(attempt.version if result.isSuccess() else 0)
            elif isinstance(result, self._java_exception):
                outcomes.append(translated(result, table, changes=True))
            else:
                outcomes.append(failure)
        return outcomes

    def _found(self, table: str, keys: Sequence[bytes]) -> Sequence[RowState | TalosError]:
        gets = self._list()
        for key in keys:
            get = self._get(self._bytes(key))
            gets.add(get.addColumn(self._data, self._state).addColumn(self._data, self._write))
        try:
            return [state_of(self._cells(found)) for found in self._table(table).get(gets)]
        except self._java_exception as error:
            return [translated(error, table, changes=False)] * len(keys)

    def _conditional(self, attempt: Attempt) -> Any:
        """The mutation, under the condition that the row has the state it is thought to have."""
        mutation, current = attempt
        key = self._bytes(mutation.key)
        check = self._check_and_mutate.newBuilder(key)
        if current.version:
            expected = self._bytes(encode_state(current.version, current.deleted))
            check.ifEquals(self._data, self._state, expected)
        else:
            check.ifNotExists(self._data, self._state)
        version, delete = attempt.version, self._delete(key)
        put = self._put(key, self._long(version))
        if version != current.version:
            state = encode_state(version, mutation.delete)
            put.addColumn(self._data, self._state, self._bytes(state))
            put.addColumn(self._data, self._write, self._bytes(mutation.write_id))
        former = self._long(current.version)
        for name, changes in (
            (FamilyName.DATA, mutation.data),
            (FamilyName.PENDING, mutation.pending),
        ):
            family = self._family[name]
            for column, cell in changes.items():
                full_column = self._bytes(COLUMN_PREFIX + column)
                if cell is not None:
                    put.addColumn(family, full_column, self._bytes(cell))
                elif not current.deleted:
                    delete.addColumns(family, full_column, former)
            if mutation.delete:
                delete.addFamily(family, former)
        if delete.isEmpty():
            return check.build(put)
        if put.isEmpty():
            return check.build(delete)
        both = self._row_mutations(key)
        both.add(put)
        both.add(delete)
        return check.build(both)

    # --- the rest -------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection to HBase."""
        with self._translating("close"):
            self._connection.close()

    def _select(self, query: Any, family: FamilyName) -> None:
        """What a reader needs: the family's columns and the row's state."""
        if family is not FamilyName.DATA:
            query.addColumn(self._data, self._state)
        query.addFamily(self._family[family])

    def _cells(self, result: Any) -> list[Cell]:
        cells = result.rawCells()
        return [decode_cell(bytes(self._copy_cell(cell))) for cell in cells or ()]

    def _name(self, table: str) -> Any:
        return self._table_name.valueOf(self._namespace, table)

    def _table(self, table: str) -> Any:
        return self._connection.getTable(self._name(table))

    @contextmanager
    def _translating(self, name: str) -> Iterator[None]:
        try:
            yield
        except self._java_exception as error:
            raise translated(error, name, changes=False) from error
        except RuntimeError as error:  # the JVM is shutting down
            raise StoreUnavailable(f"{name}: {error}") from error


def _print_no_traces(classes: Any) -> None:
    """Silence System.err: HBase prints stack traces of some errors that it also throws (HBase 2.6,
    RpcRetryingCallerWithReadReplicas). Loggers keep the real stderr, and log uncaught errors."""
    classes("java.util.logging.Logger").getLogger("").getHandlers()  # they capture stderr now
    threads = classes("org.apache.hadoop.hbase.util.Threads")
    classes("java.lang.Thread").setDefaultUncaughtExceptionHandler(
        threads.LOGGING_EXCEPTION_HANDLER
    )
    nowhere = classes("java.io.OutputStream").nullOutputStream()
    classes("java.lang.System").setErr(classes("java.io.PrintStream")(nowhere))
