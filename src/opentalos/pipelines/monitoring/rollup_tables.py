"""The tables of the rollups and their columns; without Spark, since queries need them too."""

from typing import Final

import pyarrow as pa

from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.olap.store import BUCKET, COUNT, SKETCHES, TIME
from opentalos.pipelines.olap.table_set import TableSet

DIMENSIONS: Final = ("service", "cluster", "machine", "tenant", "topic", "partition")
LEVELS: Final = {"metrics_10s": 10_000, "metrics_1m": 60_000, "metrics_1h": HOUR_MS}
MEASURE: Final = "measure"
KIND: Final = "kind"  # of a measure: sum or gauge
# Of rows in a file: compresses well and keeps a measure's values together.
ORDER: Final = (MEASURE, "service", "tenant", "topic", TIME)

_KEY: Final = (
    (TIME, pa.timestamp("us", tz="UTC")),
    *((name, pa.string()) for name in DIMENSIONS[:-1]),
    (DIMENSIONS[-1], pa.int32()),
    (MEASURE, pa.string()),
)
MEASURES: Final = pa.schema(
    [
        *_KEY,
        (KIND, pa.string()),
        ("total", pa.float64()),
        ("samples", pa.int64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("last", pa.float64()),
    ]
)
SKETCH_COUNTS: Final = pa.schema([*_KEY, (BUCKET, pa.int32()), (COUNT, pa.int64())])


def sketch_table(level: str) -> str:
    """The table of sketches of a level."""
    return level + SKETCHES


METRICS: Final = TableSet(
    "metrics",
    {
        name: columns
        for level in LEVELS
        for name, columns in ((level, MEASURES), (sketch_table(level), SKETCH_COUNTS))
    },
)
