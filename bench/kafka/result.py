"""What was measured, to be written, read again and shown."""

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.kafka.systems import KAFKA, OURS


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure of both systems, taken in turn: one value per round.

    ``table``: "disk", "memory", or "" where acknowledging does not matter; ``more``: whether more
    is better.
    """

    table: str
    group: str
    name: str
    unit: str
    more: bool
    settings: str  # of the client and of Kafka's topic
    values: dict[str, list[float]] = field(default_factory=dict)
    cpu_s_per_million: dict[str, list[float]] = field(default_factory=dict)

    def add(self, system: str, value: float) -> None:
        """Add a round of a system."""
        self.values.setdefault(system, []).append(value)

    def add_cpu(self, system: str, seconds: float, records: float) -> None:
        """Add the CPU of the server in a round."""
        self.cpu_s_per_million.setdefault(system, []).append(seconds / records * 1e6)

    def ratio(self) -> float:
        """Ours to Kafka's, the median of the rounds; above 1 we are better."""
        pairs = zip(self.values[OURS], self.values[KAFKA], strict=True)
        parts = [ours / kafka if self.more else kafka / ours for ours, kafka in pairs]
        return statistics.median(parts)


def span(values: Sequence[float]) -> str:
    """Median, and the range in brackets."""
    if not values:
        return "-"
    low, high = min(values), max(values)
    middle = number(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({number(low)} .. {number(high)})"


def number(value: float) -> str:
    """With three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def machine(rounds: int) -> dict[str, Any]:
    """Where it was measured."""
    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load_average_15_min": round(os.getloadavg()[2], 2),
        "rounds": rounds,
    }


def write(path: Path, rows: Sequence[Row], rounds: int, failed: Sequence[str]) -> None:
    """Write all rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "machine": machine(rounds),
        "failed": list(failed),
        "rows": [asdict(row) for row in rows],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def read(path: Path) -> tuple[dict[str, Any], list[Row]]:
    """The machine and the rows."""
    document = json.loads(path.read_text())
    return document["machine"], [Row(**row) for row in document["rows"]]
