"""The shared stores of a cluster whose only server was killed, and damages to them.

HDFS hands out no flipped byte and no file there can be changed, so a damaged file is another one
under its name. ZooKeeper has a folder on this disk. A row of HBase gets the cells that it had, with
the versions that they had; or none.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.cluster_processes import ClusterProcesses
from tests.conftest import RunningBackends
from tests.faults.damages.choice import Damage, Kind, Target, changed
from tests.faults.damages.contents import LOG, Contents, read_contents
from tests.faults.damages.evidence import is_last
from tests.faults.damages.judge import Evidence
from tests.faults.damages.known import KEY_FACT, Known
from tests.faults.damages.workload import Workload, config_of
from tests.open_files import hdfs_client
from tests.waiting import completed, eventually

from opentalos.adapters.hbase.client import HbaseClient
from opentalos.adapters.hbase.configuration import parse_hbase_url
from opentalos.adapters.hdfs.client import HdfsClient, ReadPlace
from opentalos.backends.places import BackendError
from opentalos.model.errors import NotFound
from opentalos.model.limits import HbaseLimits

HDFS_FILE, HBASE_ROW = "file in HDFS", "row in HBase"  # groups of damages
ZOOKEEPER_FILE, ZOOKEEPER = "file of ZooKeeper", "all of ZooKeeper"
SERVER = "s1"
DAEMON = "zookeeper"
FILE_BYTES_MAX = 1 << 20
RowKey = tuple[str, bytes]  # table and key


class Cell(NamedTuple):
    """One cell of a row; its timestamp is the version of the row that wrote it."""

    family: bytes
    column: bytes
    version: int
    value: bytes


class Moment(NamedTuple):
    """What the stores had at one moment."""

    files: Mapping[str, bytes]  # in HDFS
    zookeeper: Path  # a copy of its folder
    rows: Mapping[RowKey, tuple[Cell, ...]]


class Stores:
    """One cluster's part of the backends."""

    def __init__(self, backends: RunningBackends, name: str) -> None:
        self.fleet = backends.fleet
        self.hdfs: HdfsClient = hdfs_client(backends, f"{backends.hdfs_url}/{name}")
        location = parse_hbase_url(f"{backends.hbase_url}/{name}")
        self.hbase = HbaseClient(location, None, HbaseLimits())
        self._name = name

    @property
    def zookeeper(self) -> Path:
        """The folder of ZooKeeper's snapshots and transaction logs."""
        return self.fleet.zookeeper.home / "data" / "version-2"

    def close(self) -> None:
        """Close the clients."""
        self.hdfs.close()
        self.hbase.close()

    def moment(self, folder: Path) -> Moment:
        """Everything as it is now; ``folder`` takes the copy of ZooKeeper's."""
        daemon = self.fleet.zookeeper.daemon(DAEMON)
        daemon.pause()
        try:
            copy_sparse(self.zookeeper, folder)
        finally:
            daemon.resume()
        files = {}
        for name in self.hdfs.list(""):
            with suppress(NotFound):  # a server that runs deletes some
                files[name] = self._read(name)
        return Moment(files, folder, self._rows())

    def _read(self, name: str) -> bytes:
        reader = self.hdfs.open_reader(name)
        try:
            return self.hdfs.read(reader, ReadPlace(name, 0, FILE_BYTES_MAX, fresh=True)) or b""
        finally:
            reader.stream.close()

    def put_file(self, name: str, content: bytes | None) -> None:
        """Another file under this name; None: no file."""
        eventually(f"{name} is closed", lambda: self.hdfs.recover(name) is not None)
        self.hdfs.delete(name)
        if content is not None:
            stream = self.hdfs.create(name).stream
            stream.write(content)
            stream.close()

    def remove(self) -> None:
        """What is left of many clusters would fill the memory of an HBase."""
        for table in self._tables():
            self.hbase.drop_table(table)

    def _tables(self) -> list[str]:
        with self.hbase._connection.getAdmin() as admin:
            tables = admin.listTableNamesByNamespace(self._name)
            return [str(table.getQualifierAsString()) for table in tables]

    def _rows(self) -> dict[RowKey, tuple[Cell, ...]]:
        found: dict[RowKey, tuple[Cell, ...]] = {}
        hbase = self.hbase
        for table in self._tables():
            with hbase._table(table).getScanner(hbase._scan()) as scanner:
                while (result := scanner.next()) is not None:
                    read = hbase._cells(result)
                    versions = [int(cell.getTimestamp()) for cell in result.rawCells()]
                    found[table, read[0].row] = tuple(
                        Cell(cell.family, cell.column, version, cell.value)
                        for cell, version in zip(read, versions, strict=True)
                    )
        return found

    def put_row(self, row: RowKey, now: Sequence[Cell], cells: Sequence[Cell]) -> None:
        """These cells instead of those that it has now, without a mark that would hide others."""
        table, key = row
        hbase = self.hbase
        delete, put = hbase._delete(hbase._bytes(key)), hbase._put(hbase._bytes(key))
        for cell in now:
            names = hbase._bytes(cell.family), hbase._bytes(cell.column)
            delete.addColumn(*names, hbase._long(cell.version))
        for cell in cells:
            names = hbase._bytes(cell.family), hbase._bytes(cell.column)
            put.addColumn(*names, hbase._long(cell.version), hbase._bytes(cell.value))
        with hbase._translating(table):
            hbase._table(table).delete(delete)
            if cells:
                hbase._table(table).put(put)


def copy_sparse(source: Path, target: Path) -> None:
    """A folder whose files were made longer than what is written to them."""
    completed(["cp", "--archive", "--sparse=always", source, target], check=True)


def row_name(row: RowKey) -> str:
    """A row as the name of a file."""
    table, key = row
    return f"{table}/{key.hex()}"


@dataclass
class ClusterWorld:
    """What was acknowledged, and what the stores have of it."""

    cluster: ClusterProcesses
    stores: Stores
    known: Known
    now: Moment
    earlier: Sequence[Moment]
    contents: dict[str, Contents] = field(default_factory=dict)  # of files in HDFS, below LOG

    def __post_init__(self) -> None:
        for name, content in self.now.files.items():
            self.contents[LOG + name] = read_contents(LOG + name, content)

    def targets(self) -> list[Target]:
        """Everything that may be damaged."""
        return [*self._files(), *self._rows(), *self._zookeeper()]

    def _files(self) -> Iterator[Target]:
        for name, content in self.now.files.items():
            older = self._differs([moment.files.get(name) for moment in self.earlier], content)
            label = self.known.label(LOG + name, self.contents)
            ends = tuple(self.contents[LOG + name].ends)
            yield Target(HDFS_FILE, label, (name,), len(content), ends, older)

    def _rows(self) -> Iterator[Target]:
        for row, cells in self.now.rows.items():
            older = self._differs([self._row(number, row) for number in self._copies()], cells)
            yield Target(HBASE_ROW, row_name(row), (row_name(row),), older=older)

    def _copies(self) -> range:
        """Numbers of the earlier moments, and of one more in which no row was there."""
        return range(len(self.earlier) + 1)

    def _row(self, number: int, row: RowKey) -> tuple[Cell, ...]:
        return self.earlier[number].rows.get(row, ()) if number < len(self.earlier) else ()

    def _zookeeper(self) -> Iterator[Target]:
        names = sorted(path.name for path in self.now.zookeeper.iterdir())
        yield Target(ZOOKEEPER, ZOOKEEPER, tuple(names), older=tuple(range(len(self.earlier))))
        for name in names:
            written = (self.now.zookeeper / name).read_bytes().rstrip(b"\0")
            yield Target(ZOOKEEPER_FILE, name, (name,), len(written))

    def _differs(self, former: Sequence[object], now: object) -> tuple[int, ...]:
        return tuple(number for number, each in enumerate(former) if each != now)

    def damage(self, damage: Damage) -> str:
        """Do it to the stores; what ZooKeeper says if it does not start any more."""
        (name, *_) = damage.target.files
        if damage.target.group == HDFS_FILE:
            self.stores.put_file(name, self._left_of(damage))
        elif damage.target.group == HBASE_ROW:
            row = next(row for row in self.now.rows if row_name(row) == name)
            self.stores.put_row(row, self.now.rows[row], self._row(damage.copy, row))
        else:
            return self._with_zookeeper_away(partial(self._damage_zookeeper, damage))
        return ""

    def _left_of(self, damage: Damage) -> bytes | None:
        """The content of a damaged file in HDFS; None: it is missing."""
        (name,) = damage.target.files
        return changed(damage, self.now.files[name], self.earlier[damage.copy].files.get(name))

    def _damage_zookeeper(self, damage: Damage) -> None:
        folder = self.stores.zookeeper
        if damage.kind is Kind.OLDER:
            self._restore_zookeeper(self.earlier[damage.copy])
            return
        (name,) = damage.target.files
        path = folder / name
        path.write_bytes(changed(damage, path.read_bytes(), None) or b"")

    def _restore_zookeeper(self, moment: Moment) -> None:
        shutil.rmtree(self.stores.zookeeper)
        copy_sparse(moment.zookeeper, self.stores.zookeeper)

    def _with_zookeeper_away(self, change: Callable[[], None]) -> str:
        zookeeper = self.stores.fleet.zookeeper
        zookeeper.daemon(DAEMON).kill()
        change()
        zookeeper.start_daemon(DAEMON)
        try:
            zookeeper.wait_ready(lambda _text: None)
        except BackendError as error:
            return str(error)
        return ""

    def close(self) -> None:
        """End the server, and leave a ZooKeeper that runs."""
        self.cluster.close()
        if self.stores.fleet.zookeeper.daemon(DAEMON).pid is None:
            problem = self._with_zookeeper_away(partial(self._restore_zookeeper, self.now))
            assert not problem, problem
        self.stores.remove()
        self.stores.close()

    def evidence(self, damage: Damage) -> Evidence:
        """What names the damage, and what is left that proves messages."""
        positions = Contents()
        self.known.prove_positions(positions)
        left, facts = {**self.contents, "": positions}, self.known.expected.facts
        unproven = frozenset[str]()
        if damage.target.group == HDFS_FILE:
            (name,) = damage.target.files
            found = read_contents(LOG + name, self._left_of(damage) or b"")
            left[LOG + name] = found
            whole = found.whole and is_last(LOG + name, self.contents)
            names = [name, name.rpartition("/")[2]]
        elif damage.target.group == HBASE_ROW:
            whole, names = True, [damage.target.label.partition("/")[0]]
            unproven = frozenset(fact for fact in facts if fact.startswith(("row ", "position ")))
        else:
            whole, names = damage.kind is not Kind.FLIP, [f"{DAEMON} of {DAEMON}", "coordination"]
            unproven = frozenset((KEY_FACT,))
        known = self.known
        named = known.partition_names(), known.fact_names()
        return Evidence(tuple(names), *named, whole, known.proven(left.values()), unproven)


def make_cluster_world(folder: Path, backends: RunningBackends, journal: str) -> ClusterWorld:
    """Takes about half a minute."""
    cluster = ClusterProcesses(folder / "cluster", backends, (SERVER,), config_of(journal))
    stores = Stores(backends, cluster.name)
    work = Workload(cluster.servers[SERVER])
    try:
        with work.running():
            cluster.wait_settled()
            work.make()
            work.work()
            earlier = [stores.moment(folder / "moment-0")]
            work.make_late()
            work.work()
            work.settle()
            earlier.append(stores.moment(folder / "moment-1"))
            work.last_puts()
        now = stores.moment(folder / "moment-2")
        return ClusterWorld(cluster, stores, work.known(), now, earlier)
    except BaseException:
        cluster.close()
        stores.close()
        raise
