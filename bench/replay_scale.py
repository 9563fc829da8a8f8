"""Memory of ``sds-replay`` with a large table, in Spark on one machine.

    python -m bench.replay_scale RECORDS FOLDER

The state of the table is written as by a start with a scan, and then takes a batch with changes of
every part. Both run in Spark's Python workers, two at a time; the driver has 1 GiB of heap and may
get 1 MiB of results per job.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from bench.peak_memory import java_peak_mb, peak_mb
from opentalos.model.change import Change, ChangeKind, StreamView
from opentalos.model.datum import DataType
from opentalos.model.table import KeyPart, TableSchema
from opentalos.pipelines.session import open_session
from opentalos.pipelines.tables.pipeline import ReplayWriter
from opentalos.pipelines.tables.replay_state import Replay
from opentalos.sdk.core.table.values import typed_columns
from opentalos.sdk.stream import StoredState
from opentalos.wire.sds.change import encode_change

MASTER: Final = "local[2]"
RESULTS_MAX: Final = "1m"
HEAP: Final = "1g"
CHANGED: Final = 10_000
_SCHEMA: Final = TableSchema(
    primary=(KeyPart("id"),), attributes={"id": DataType.INT64, "text": DataType.STRING}
)
_TEXT: Final = "value of a record, 32 bytes long"
_SAMPLE_S: Final = 0.25


class Workers(threading.Thread):
    """Looks at Spark's Python workers all the time; ``peak_mb``: of the largest one."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_mb = 0.0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(_SAMPLE_S):
            for process in psutil.Process().children(recursive=True):
                try:
                    if process.name() != "java":
                        self.peak_mb = max(self.peak_mb, process.memory_info().rss / 1e6)
                except psutil.Error:
                    continue  # it has ended meanwhile


def scanned(replay: Replay) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Records as a scan has them, by their numbers."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (key for batch in batches for key in batch.column(0).to_pylist())
        record = {"text": _TEXT}
        yield from replay.scanned(
            StoredState({"id": key}, {"id": key, **record}, 1, 1, 0, 0) for key in numbers
        )

    return run


def changes(replay: Replay) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A change of each record of these numbers."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = typed_columns(_SCHEMA.attributes, {"text": "changed"})
        for batch in batches:
            values = [
                encode_change(
                    replay.view,
                    "bench",
                    Change(
                        ChangeKind.PUT, typed_columns(_SCHEMA.attributes, {"id": key}), written, {},
                        written, False, 2, 2,
                    ),
                    None,
                )
                for key in batch.column(0).to_pylist()
            ]  # fmt: skip
            yield pa.RecordBatch.from_pydict(
                {"value": values, "sequence_number": ["2"] * len(values)}
            )

    return run


def measure(spark: SparkSession, records: int, home: Path) -> None:
    """Write the state, apply a batch, check and print."""
    replay = Replay("bench", _SCHEMA, StreamView.MUTATE_LOG)
    writer = ReplayWriter(replay, home)
    workers = Workers()
    workers.start()
    began = time.perf_counter()
    state = from_arrow_schema(replay.state_schema())
    writer.begin(spark.range(0, records, 1, 16).mapInArrow(scanned(replay), state))
    begun = time.perf_counter()
    chosen = spark.range(0, records, max(records // CHANGED, 1), 2)
    writer(chosen.mapInArrow(changes(replay), "value binary, sequence_number string"), 0)
    ended = time.perf_counter()
    workers.ended.set()
    rows = sum(pq.read_metadata(file).num_rows for file in replay.lake(home).files())
    assert rows == records, rows
    print(
        f"sds-replay: {records:,} records in {begun - began:.0f} s "
        f"({(begun - began) / records * 1e6:.1f} us/record), a batch of {CHANGED:,} changes in "
        f"{ended - begun:.0f} s; driver: Python {peak_mb():.0f} MB, Java (also the executor) "
        f"{java_peak_mb(spark):.0f} MB with a heap of {HEAP}; largest worker "
        f"{workers.peak_mb:.0f} MB",
        flush=True,
    )


def main(records: int, folder: Path) -> None:
    """Measure in a session of its own."""
    conf = {
        "spark.driver.memory": HEAP,
        "spark.driver.maxResultSize": RESULTS_MAX,
        "spark.local.dir": str(folder / "local"),
    }
    spark = open_session("replay-scale", master=MASTER, conf=conf)
    try:
        measure(spark, records, folder / "home")
    finally:
        spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
