"""Reconciles as ``talos bill reconcile`` does, and by the reference; both must find the same."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from tests.unit.pipelines.billing import reconciliation_reference as reference

from opentalos.pipelines.billing.partition_reconciliation import LogUsage, PartitionResult
from opentalos.pipelines.billing.reconcile import reconcile_with
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.tables import HOUR_MS, HourTable
from opentalos.pipelines.metering.usage_lake import MinuteUse
from opentalos.pipelines.metering.usage_table import LAYOUT, SCHEMA

Place = tuple[str, int]  # uuid of a topic, partition
Row = tuple[Place, MinuteUse]
FILES: Final = 3  # of a table


class LogServer:
    """Answers as REST does: each log has one page."""

    def __init__(self, logs: Iterable[LogUsage]) -> None:
        self._logs = {(log.topic, log.partition): log for log in logs}

    def __call__(self, method: str, path: str, *, query: Mapping[str, Any]) -> Any:
        assert method == "GET"
        if path == "topics":
            names = {log.topic: log for log in self._logs.values()}
            return {"topics": [{"name": log.name, "owner": log.tenant, "resource": f"t#n#{uuid}"}
                               for uuid, log in names.items()]}  # fmt: skip
        uuid = unquote(path.split("/")[1]).split("#")[2]
        log = self._logs[uuid, query["partition"]]
        minutes = [item._asdict() for item in log.minutes[: query.get("minutes_max")]]
        partitions = sum(topic == uuid for topic, _ in self._logs)
        return {**asdict(log), "minutes": minutes, "partitions": partitions, "next_page": None}


def fill(home: Path, rows: Sequence[Row]) -> None:
    """The rows, in their order, in a few files."""
    table = HourTable(home, "usage", SCHEMA)
    size = max(1, -(-len(rows) // FILES))
    for number, start in enumerate(range(0, len(rows), size)):
        listed = [
            {"tenant": "t", "topic": topic, "name": topic, "partition": partition,
             "minute": datetime.fromtimestamp(item.minute_ms / 1000, UTC), **item._asdict()}
            for (topic, partition), item in rows[start : start + size]
        ]  # fmt: skip
        table.replace(number * HOUR_MS, pa.Table.from_pylist(listed, SCHEMA))


def by_lake(logs: Iterable[LogUsage], rows: Sequence[Row]) -> list[PartitionResult]:
    """What reconciliation finds."""
    server: Any = LogServer(logs)
    with TemporaryDirectory() as home:
        fill(Path(home), rows)
        return reconcile_with(server, pipeline_table(Path(home), "", LAYOUT)).partitions


def by_reference(logs: Sequence[LogUsage], rows: Sequence[Row]) -> list[PartitionResult]:
    """What the reference finds, partitions in the same order."""
    chains: dict[Place, list[MinuteUse]] = {}
    for place, item in rows:
        chains.setdefault(place, []).append(item)
    for chain in chains.values():
        chain.sort(key=lambda item: (item.minute_ms, *item[3:], *item[1:3]))
    found = [reference.compare(log, chains.pop((log.topic, log.partition), [])) for log in logs]
    return found + [
        reference.compare_deleted(place, place[0], chain) for place, chain in sorted(chains.items())
    ]


def reconciled(logs: Sequence[LogUsage], rows: Sequence[Row]) -> list[PartitionResult]:
    """What both find."""
    found = by_lake(logs, rows)
    assert found == by_reference(logs, rows)
    return found
