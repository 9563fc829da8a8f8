"""Where a pipeline puts invalid messages aside, each with the reason.

On one machine they are Parquet below HOME/side/NAME, a folder per batch. With a lake they are the
table LAKE/side/NAME: tasks write the files, and a batch is committed once, like any table's.

Both refuse a run that was replaced. Spark's tasks, which may outlive such a run, write a folder of
a random name, and only this process gives it the name of its batch.
"""

import logging
import os
import secrets
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from opentalos.adapters.durable_files import sync_descriptor
from opentalos.pipelines.lake.durable_files import sync_folder
from opentalos.pipelines.lake.folder_writers import fence, writing
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import TIME_TYPE, Batch, Layout
from opentalos.pipelines.lake.opening import pipeline_table, table_place
from opentalos.pipelines.lake.sink import batch_of, write_files
from opentalos.pipelines.lake.written_rows import RowsMissing, check_files
from opentalos.pipelines.pipeline import PipelineSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG: Final = logging.getLogger(__name__)
_TIME: Final = "found_at"  # a message's own time may be what is wrong
_STAGED: Final = ".staged"  # below a folder of batches; readers of Parquet pass over it
_STAGED_S_MAX: Final = 24 * 3600.0  # after which a staged batch has no writer any more
_NONCE_BYTES: Final = 6
_SCHEMA: Final = pa.schema(
    [
        pa.field(_TIME, TIME_TYPE, nullable=False),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("value", pa.binary()),
    ]
)


def side_layout(name: str) -> Layout:
    """The columns of the invalid messages of pipeline ``name`` in a lake."""
    return Layout(f"side/{name}", _SCHEMA, _TIME)


class SideOutput:
    """The invalid messages of one pipeline; in a lake, the first one creates the table."""

    def __init__(self, settings: PipelineSettings, name: str) -> None:
        self._home, self._lake, self._name = settings.home, settings.lake, name
        self._table: LakeTable | None = None

    def write(self, bad: "DataFrame", batch_id: int, kind: str = "") -> int:
        """Write messages of one batch and return their number; a repeated batch changes nothing.

        Args:   bad: partition, offset, reason, value; kind: of messages of the same batch that are
                written apart.
        Raises: RowsMissing: executors have written them to disks that this machine does not have;
                as ``LakeTable.commit``.
        """
        if not self._lake:
            return write_side(bad, self._home, self._name, batch_id)
        count = bad.count()
        if count:
            batch = batch_of(bad.sparkSession, batch_id, self._name)
            if kind:
                batch = replace(batch, query=f"{batch.query}-{kind}")
            self._commit(bad, batch, count)
            place = table_place(self._home, self._lake, side_layout(self._name).name)
            _report(self._name, count, batch_id, place)
        return count

    def _commit(self, bad: "DataFrame", batch: Batch, count: int) -> None:
        layout = side_layout(self._name)
        if self._table is None:
            self._table = pipeline_table(self._home, self._lake, layout, create=True)
        writer = self._table.writer()
        timed = bad.withColumn(_TIME, F.current_timestamp()).select(*_SCHEMA.names)
        files = write_files(timed, writer)
        check_files(f"the side output of {self._name}", writer, files)
        written = sum(file.rows for file in files)
        if written != count:
            raise RowsMissing(
                f"the side output of {self._name} did not take the batch: its files have {written} "
                f"of {count} messages; repeat the batch"
            )
        self._table.commit(batch, files)


def side_folder(home: Path, name: str) -> Path:
    """The folder of the invalid messages of pipeline ``name``: Parquet, one folder per batch."""
    return home / "side" / name


def write_side(bad: "DataFrame", home: Path, name: str, batch_id: int) -> int:
    """Write the invalid messages of one batch below HOME/side/NAME and return their number.

    A repeated batch has the same rows and replaces the same folder; the first message's partition
    and offset in its name distinguish it from batches of an older checkpoint.

    Raises: RowsMissing: executors have written them to disks that this machine does not have;
            LeaseNotHeld: a run that has replaced this one has written some; StoreUnavailable,
            OutcomeUnknown, ConfigError: as ``writing`` and ``fence``.
    """
    found = bad.agg(F.count("*"), F.min(F.struct("partition", "offset"))).first()
    assert found is not None  # an aggregate without groups is always one row
    count, first = int(found[0]), found[1]
    if count:
        place = f"batch-{batch_id:010d}-{first['partition']}-{first['offset']}"
        folder = side_folder(home, name)
        staged = folder / _STAGED / secrets.token_hex(_NONCE_BYTES)
        bad.write.parquet(staged.absolute().as_uri())
        files = sorted(staged.glob("*.parquet"))
        stored = sum(pq.read_metadata(path).num_rows for path in files)
        if stored != count:
            raise RowsMissing(
                f"the side output of {name} was not written: {folder} has {stored} of {count} "
                "messages; give a --home that driver and executors share, or run on one machine"
            )
        _publish(staged, place, batch_of(bad.sparkSession, batch_id, name), name)
        _report(name, count, batch_id, folder / place)
    return count


def _publish(staged: Path, place: str, batch: Batch, name: str) -> None:
    """Give a folder of files the name of its batch, unless another run has taken over."""
    folder, what = staged.parent.parent, f"the side output of {name}"
    with writing(folder, what):
        fence(folder, what, batch.query, batch.epoch)
        for path in staged.iterdir():
            with path.open("rb") as file:
                sync_descriptor(file.fileno())
        sync_folder(staged)
        target, former = folder / place, staged.with_suffix(".former")
        if target.exists():  # of an attempt before; the batch is repeated until both are done
            os.rename(target, former)
        os.rename(staged, target)
        sync_folder(folder)
        shutil.rmtree(former, ignore_errors=True)
        oldest = target.stat().st_mtime - _STAGED_S_MAX
        for other in staged.parent.iterdir():
            if other.stat().st_mtime < oldest:
                shutil.rmtree(other, ignore_errors=True)


def _report(name: str, count: int, batch_id: int, place: Path | str) -> None:
    _LOG.warning(
        "invalid messages: pipeline=%s messages=%d batch=%d folder=%s", name, count, batch_id, place
    )
