"""Tables of Delta whose partitions are replaced as a whole, without reading a row of them."""

import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from opentalos.model.errors import StoreUnavailable
from opentalos.pipelines.lake.delta.table import PATH_AND_SIZE, DeltaLakeTable, transaction
from opentalos.pipelines.lake.layout import Batch, DataFile

if TYPE_CHECKING:
    from deltalake import DeltaTable


class DeltaParts(DeltaLakeTable):
    """A ``DeltaLakeTable`` with ``Layout.partition_by``."""

    def replace_parts(
        self, batch: Batch, name: str, values: Collection[str], files: Sequence[DataFile]
    ) -> bool:
        """All rows whose partition column ``name`` has one of these values become those of files.

        Returns and raises: as ``LakeTable.replace``. Without files the rows are removed.
        """
        from deltalake.transaction import RemoveAction

        def swap(table: "DeltaTable") -> None:
            stored = self._parts(table)
            inside = pc.is_in(stored.column(name), pa.array(sorted(values), pa.string()))
            columns = (stored.filter(inside).column(each).to_pylist() for each in PATH_AND_SIZE)
            now_ms = time.time_ns() // 1_000_000
            removed = [
                RemoveAction(path, True, now_ms, size, {})
                for path, size in zip(*columns, strict=True)
            ]
            table.create_write_transaction(
                [*self._added(files), *removed],
                "append",
                table.schema(),
                partition_by=list(self._layout.partition_by),
                # What another writer adds meanwhile was not seen, so nothing is rebased.
                commit_properties=transaction(batch, tries_max=0),
            )

        return self._once(batch, swap)

    def parts(self) -> pa.Table:
        """The files of a partitioned table: path, size_bytes, num_records, the partition columns.

        Raises: StoreUnavailable.
        """
        with self._translated("list files of", StoreUnavailable):
            return self._parts(self._open())

    def _parts(self, table: "DeltaTable") -> pa.Table:
        added = pa.table(table.get_add_actions(flatten=True))
        columns = {name: added.column(name) for name in (*PATH_AND_SIZE, "num_records")}
        for name in self._layout.partition_by:
            columns[name] = added.column(f"partition.{name}")
        return pa.table(columns)
