"""SQL for series of the tables that the pipeline ``monitoring`` writes; pure.

Names are literals of this module; every value that a caller gives is a parameter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, Final

from opentalos.ports.series_archive import ArchiveQuery

ROWS_MAX: Final = 500_000  # of an answer
DATASOURCE: Final = "metrics"
_LEVELS: Final = (("metrics_1h", 3_600_000), ("metrics_1m", 60_000))  # coarsest first
_FINEST: Final = "metrics_10s"
_SKETCHES: Final = "_sketches"
_COLUMNS: Final = {"tenant": "tenant", "topic": "topic", "partition": '"partition"',
                   "server": "machine"}  # fmt: skip
STEP, AMOUNT, BUCKET = "step_ms", "amount", "bucket"  # columns of answers


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with a ``?`` for each parameter, as Druid takes it."""

    text: str
    parameters: Sequence[dict[str, Any]]


def statement(query: ArchiveQuery) -> Statement:
    """One row for each place and step: the columns of the split, step, amount; of a sketch also
    its bucket."""
    sketch = query.percent is not None
    keys = [f"{_COLUMNS[name]} AS {_alias(name)}" for name in query.split]
    if query.step_ms:
        step = int(query.step_ms)
        keys.append(f"(TIMESTAMP_TO_MILLIS(__time) / {step}) * {step} AS {STEP}")
    if sketch:
        keys.append(f"bucket AS {BUCKET}")
    where, values = _where(query)
    source = DATASOURCE
    if query.gauge:
        # Each partition's own peak first; then they add up.
        inner = [*keys, *(f"{_COLUMNS[name]} AS {_alias(name)}" for name in _missing(query))]
        source = (
            f"(SELECT {', '.join(inner)}, MAX(high) AS high FROM {DATASOURCE} WHERE {where} "
            f"GROUP BY {_places(len(inner))})"
        )
        keys = [_alias(name) for name in query.split] + ([STEP] if query.step_ms else [])
        where = ""
    column = "high" if query.gauge else '"count"' if sketch else "total"
    text = f"SELECT {', '.join([*keys, f'SUM({column}) AS {AMOUNT}'])} FROM {source}"
    text += f" WHERE {where}" if where else ""
    text += f" GROUP BY {_places(len(keys))}" if keys else ""
    parameters = [{"type": "VARCHAR", "value": value} for value in values]
    return Statement(f"{text} LIMIT {ROWS_MAX}", parameters)


def table_of(query: ArchiveQuery) -> str:
    """The coarsest table whose intervals fit the steps and the range."""
    grid = gcd(query.step_ms, query.from_ms, query.to_ms)
    level = next((name for name, length_ms in _LEVELS if grid % length_ms == 0), _FINEST)
    return level + _SKETCHES if query.percent is not None else level


def _where(query: ArchiveQuery) -> tuple[str, list[str]]:
    values = [table_of(query), query.measure]
    conditions = [
        "table_name = ?",
        "measure = ?",
        "service = 'server'",
        f"__time >= MILLIS_TO_TIMESTAMP({int(query.from_ms)})",
        f"__time < MILLIS_TO_TIMESTAMP({int(query.to_ms)})",
    ]
    if query.places is None:
        # The row that many partitions share has no tenant.
        conditions.append("tenant <> ''" if "topic" in query.split else "topic <> ''")
    elif query.places:
        pairs = " OR ".join("(tenant = ? AND topic = ?)" for _ in query.places)
        conditions.append(f"({pairs})")
        for place in query.places:
            values += [place.tenant, place.topic]
    else:
        conditions.append("(topic IS NULL OR topic = '')")
    return " AND ".join(conditions), values


def _missing(query: ArchiveQuery) -> Sequence[str]:
    return [name for name in ("tenant", "topic", "partition") if name not in query.split]


def _alias(name: str) -> str:
    return f"of_{name}"


def _places(count: int) -> str:
    return ", ".join(map(str, range(1, count + 1)))
