"""A lake's usage as metering leaves it, made up."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from opentalos.pipelines.lake.tables import HOUR_MS, HourTable
from opentalos.pipelines.metering.usage_table import SCHEMA, TABLE

MINUTE_MS = 60_000


class Use(NamedTuple):
    """What one partition took in one minute of an hour."""

    tenant: str
    topic: str
    partition: int
    bytes: int
    minute: int = 0


def write_hour(home: Path, hour_ms: int, uses: Iterable[Use]) -> None:
    """All usage of an hour."""
    rows = [
        {
            "tenant": use.tenant,
            "topic": use.topic,
            "name": f"of {use.topic}",
            "partition": use.partition,
            "minute": datetime.fromtimestamp((hour_ms + use.minute * MINUTE_MS) / 1000, UTC),
            "records": 1,
            "bytes": use.bytes,
            "first_offset": 0,
            "next_offset": 1,
        }
        for use in uses
    ]
    assert hour_ms % HOUR_MS == 0
    HourTable(home, TABLE, SCHEMA).replace(hour_ms, pa.Table.from_pylist(rows, schema=SCHEMA))
