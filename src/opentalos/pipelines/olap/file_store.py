"""The port of an OLAP store whose rows are files, which any process may write."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from opentalos.pipelines.lake.file_writer import FileWriter
from opentalos.pipelines.lake.layout import DataFile
from opentalos.pipelines.olap.store import NO_LEASE, OlapStore, Writer
from opentalos.pipelines.olap.table_set import TableSet


@runtime_checkable
class FileStore(OlapStore, Protocol):
    """A store of files, which are written where the rows are; a commit takes their names.

    ``writer``: may be sent to other processes; it writes rows of ``TableSet.layout``, those of an
    hour of a table one after the other. ``files_of_hour_max``: of one table, by several writers.
    ``publish``: replaces these hours of all tables of a set by the rows of files; an hour or table
    without a file has no rows then. Files that are never published are invisible. It may be
    repeated, raises as ``replace``, and RowsMissing if this process does not see a file.
    """

    @property
    def files_of_hour_max(self) -> int: ...
    def writer(self, tables: TableSet) -> FileWriter: ...
    def publish(
        self,
        tables: TableSet,
        hours: Sequence[int],
        files: Sequence[DataFile],
        writer: Writer = NO_LEASE,
    ) -> None: ...
