"""Progress of a pipeline, from Spark's own report, and its heartbeat for the supervisor."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

# States of a pipeline in a run.
WAITING: Final = "waiting"  # for an unavailable server
STARTING: Final = "starting"
RUNNING: Final = "running"
IN_A_RUN: Final = "in a run"  # of a batch pipeline, during which the process polls nothing else
ENDED: Final = "ended"


@dataclass(frozen=True, slots=True)
class Progress:
    """One finished batch of a stream, or one run of a batch pipeline."""

    pipeline: str
    at: str  # when the batch began, in Spark's format
    batch: int
    rows: int
    rows_per_s: float
    lag: int  # messages of the sources after the end of the last batch

    def __str__(self) -> str:
        speed = f"{self.rows_per_s:,.0f} rows/s"
        return f"{self.pipeline}  batch {self.batch}  {self.rows:,} rows  {speed}  lag {self.lag:,}"


def progress_of(pipeline: str, report: Mapping[str, Any]) -> Progress:
    """From Spark's report of a batch (``StreamingQuery.lastProgress``)."""
    sources = report.get("sources") or []
    speeds = [float(source.get("processedRowsPerSecond") or 0.0) for source in sources]
    return Progress(
        pipeline=pipeline,
        at=str(report.get("timestamp", "")),
        batch=int(report.get("batchId", 0)),
        rows=sum(int(source.get("numInputRows") or 0) for source in sources),
        rows_per_s=round(sum(speeds), 1),
        lag=sum(_ahead(source.get("latestOffset"), source.get("endOffset")) for source in sources),
    )


def _ahead(latest: Any, end: Any) -> int:
    """The number of messages between two offsets of ``format("talos")``; 0 for other sources."""
    last, taken = _ends(latest), _ends(end)
    return sum(
        max(0, offset - taken.get(resource, {}).get(partition, 0))
        for resource, offsets in last.items()
        for partition, offset in offsets.items()
    )


def _ends(position: Any) -> Mapping[str, Mapping[str, int]]:
    """Next offset by resource and partition."""
    if isinstance(position, str) and position.startswith("{"):
        position = json.loads(position)
    found = position.get("end") if isinstance(position, Mapping) else None
    return found if isinstance(found, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat of one pipeline: ``count`` grows when it makes progress or is idle."""

    pid: int
    count: int
    state: str

    def write(self, home: Path, name: str) -> None:
        """Write it atomically for the supervisor."""
        path = _beat_file(home, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.fresh")
        fresh.write_text(json.dumps(asdict(self)))
        os.replace(fresh, path)


def read_beat(home: Path, name: str) -> Beat | None:
    """The last heartbeat; None before the first."""
    try:
        return Beat(**json.loads(_beat_file(home, name).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _beat_file(home: Path, name: str) -> Path:
    return home / "checkpoints" / f"{name}.beat.json"
