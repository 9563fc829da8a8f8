"""The table "kept" for reconciliation: read by PyArrow, without Spark."""

from collections.abc import Mapping
from pathlib import Path

from opentalos.model.errors import NotFound
from opentalos.pipelines.lake.layout import ALL
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.metering.kept_table import LAYOUT

KeptStarts = Mapping[tuple[str, int], int]  # by uuid of the topic and partition
_COLUMNS = ["topic", "partition", "start_offset"]


def kept_starts_of(home: Path, lake: str = "") -> KeptStarts:
    """The largest start offset that a report of each partition has. Raises: StoreUnavailable."""
    try:
        table = pipeline_table(home, lake, LAYOUT)
    except NotFound:
        return {}
    rows = table.scan(ALL).to_table(columns=_COLUMNS)
    found = rows.group_by(_COLUMNS[:2]).aggregate([("start_offset", "max")]).to_pylist()
    return {(row["topic"], row["partition"]): row["start_offset_max"] for row in found}
