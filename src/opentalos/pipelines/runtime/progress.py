"""How far a pipeline is: from Spark's own progress, for people and for its supervisor."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

# States of a pipeline of a run.
WAITING: Final = "waiting"  # for a server that is away
STARTING: Final = "starting"
RUNNING: Final = "running"
IN_A_RUN: Final = "in a run"  # of a batch pipeline: nothing else of the process is looked at
ENDED: Final = "ended"


@dataclass(frozen=True, slots=True)
class Progress:
    """One finished batch of a stream, or one run of a batch pipeline."""

    pipeline: str
    at: str  # when the batch began, as Spark says it
    batch: int
    rows: int
    rows_per_s: float
    lag: int  # messages of the sources that no batch has taken yet

    def __str__(self) -> str:
        speed = f"{self.rows_per_s:,.0f} rows/s"
        return f"{self.pipeline}  batch {self.batch}  {self.rows:,} rows  {speed}  lag {self.lag:,}"


def progress_of(pipeline: str, told: Mapping[str, Any]) -> Progress:
    """From what Spark tells of a batch (``StreamingQuery.lastProgress``)."""
    sources = told.get("sources") or []
    speeds = [float(one.get("processedRowsPerSecond") or 0.0) for one in sources]
    return Progress(
        pipeline=pipeline,
        at=str(told.get("timestamp", "")),
        batch=int(told.get("batchId", 0)),
        rows=sum(int(one.get("numInputRows") or 0) for one in sources),
        rows_per_s=round(sum(speeds), 1),
        lag=sum(_ahead(one.get("latestOffset"), one.get("endOffset")) for one in sources),
    )


def _ahead(latest: Any, end: Any) -> int:
    """How many messages lie between two offsets of ``format("talos")``; 0 of other sources."""
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
    """A sign of life of one pipeline: ``count`` grows whenever it got on or had nothing to do."""

    pid: int
    count: int
    state: str

    def write(self, home: Path, name: str) -> None:
        """Leave it for the supervisor, whole or not at all."""
        path = _beat_file(home, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.fresh")
        fresh.write_text(json.dumps(asdict(self)))
        os.replace(fresh, path)


def read_beat(home: Path, name: str) -> Beat | None:
    """The last sign of life; None before the first."""
    try:
        return Beat(**json.loads(_beat_file(home, name).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _beat_file(home: Path, name: str) -> Path:
    return home / "checkpoints" / f"{name}.beat.json"
