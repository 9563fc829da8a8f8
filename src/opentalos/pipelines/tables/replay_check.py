"""Compares the state made by ``sds-replay`` with the table itself, both as of a mark.

The table and its replay may change meanwhile: every row on both sides has the time and number of
its last change, so rows that were changed after the mark are recognized and skipped. Used by
``talos table check``.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from opentalos.model.errors import ConfigError, Unavailable
from opentalos.model.table import NEVER
from opentalos.pipelines.datasource.source.batch_range import BatchRange
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.tables.pipeline import TABLE, TOPIC, checkpoint, followed_by
from opentalos.pipelines.tables.replay_start import stored
from opentalos.pipelines.tables.replay_state import PART, Replay
from opentalos.sdk.stream import StoredState, StreamMark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S: Final = 0.5  # between two polls of the replay's progress
_MS: Final = 1000
_VALUE_CHARS: Final = 1_000  # of a record that is shown
_FOUND: Final = pa.schema(
    [
        pa.field("key", pa.string()),  # None: the counts of a part
        pa.field("problem", pa.string()),
        pa.field("state", pa.string()),
        pa.field("table", pa.string()),
        pa.field("records", pa.int64()),
        pa.field("newer", pa.int64()),
        pa.field("misfits", pa.int64()),
        pa.field("differing", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SdsCheck:
    """The result of a comparison. ``rows``: some of those that differ, as flat fields."""

    mark_ms: int
    records: int  # compared, including removed ones
    newer: int  # changed after the mark, so not compared
    misfits: int  # increments whose amount does not give the value in the change
    differing: int
    rows: Sequence[Mapping[str, Any]]


def check(
    spark: "SparkSession", settings: PipelineSettings, *, wait_s: float, rows_max: int
) -> SdsCheck:
    """Compare all records of a table up to the current mark of its stream.

    Args:   settings: with the option ``table``; wait_s: for the replay, if it lags;
            rows_max: maximum number of differing rows in the result.
    Raises: ConfigError: there is no replay below ``home``; TableNotExist, ChangeMissing: it is of
            another table, or the stream was disabled meanwhile; Unavailable: it lags.
    """
    table, home = settings.options[TABLE], settings.home
    begun = stored(home, table)
    if begun is None:
        raise ConfigError(f"{home} has no replay of {table}; run sds-replay with this --home")
    followed = followed_by(replace(settings, options={TABLE: table, TOPIC: begun.topic}))
    begun.check(table, followed.begun)
    mark = followed.mark()
    _wait(checkpoint(settings, table), mark, wait_s)
    replay = followed.replay
    states = replay.lake(home).read(spark)
    both = states.groupBy(PART).cogroup(followed.scanned(spark).groupBy(PART))
    compared = _compared(replay, mark.timestamp_ms, rows_max)
    found = both.applyInArrow(compared, from_arrow_schema(_FOUND)).toArrow().to_pylist()
    counts = [row for row in found if row["key"] is None]
    shown = ({name: row[name] for name in _FOUND.names[:4]} for row in found if row["key"])
    totals = {
        name: sum(row[name] for row in counts)
        for name in ("records", "newer", "misfits", "differing")
    }
    rows = sorted(shown, key=lambda row: str(row["key"]))[:rows_max]
    return SdsCheck(mark_ms=mark.timestamp_ms, rows=rows, **totals)


def _wait(place: Path, mark: StreamMark, wait_s: float) -> None:
    """Wait until the state has every change up to the mark. Raises: Unavailable: timeout."""
    until_s = time.monotonic() + wait_s
    while lag := _lag(place, mark):
        if time.monotonic() > until_s:
            raise Unavailable(f"the replay lags by {lag} messages; let sds-replay continue")
        time.sleep(_POLL_S)


def _lag(place: Path, mark: StreamMark) -> int:
    reached = _reached(place)
    return sum(max(0, end - reached.get(partition, 0)) for partition, end in mark.offsets.items())


def _reached(place: Path) -> Mapping[int, int]:
    """The next offset by partition, after the last committed batch."""
    commits = place / "commits"
    done = [int(commit.name) for commit in commits.glob("*") if commit.name.isdigit()]
    if not done:
        return {}
    line = (place / "offsets" / str(max(done))).read_text().splitlines()[-1]
    ends = BatchRange.parse(json.loads(line)).end
    return next(iter(ends.values()), {}) if len(ends) == 1 else {}


def _compared(replay: Replay, mark_ms: int, rows_max: int) -> Any:
    def run(key: tuple[Any, ...], states: pa.Table, scanned: pa.Table) -> pa.Table:
        return compared(replay, mark_ms, rows_max, (states, scanned))

    return run


def compared(
    replay: Replay, mark_ms: int, rows_max: int, sides: tuple[pa.Table, pa.Table]
) -> pa.Table:
    """One part's differences, at most ``rows_max``, and its counts. ``sides``: state, table."""
    states, scanned = (
        {tuple(state.key.values()): state for state in replay.states(s)} for s in sides
    )
    counts = dict.fromkeys(("records", "newer", "misfits", "differing"), 0)
    counts["misfits"] = sum(state.misfits for state in states.values())
    rows: list[dict[str, Any]] = []
    for key in sorted(states.keys() | scanned.keys(), key=repr):
        state, row = states.get(key), scanned.get(key)
        known = [side for side in (state, row) if side is not None]
        same = state is not None and row is not None and state.timestamp_ms == row.timestamp_ms
        if not same and max(side.timestamp_ms for side in known) > mark_ms:
            counts["newer"] += 1
            continue
        counts["records"] += 1
        problem = _problem(replay, state, row, mark_ms)
        if problem:
            counts["differing"] += 1
            if len(rows) < rows_max:
                shown = {"state": _shown(state), "table": _shown(row)}
                rows.append({"key": _short(_text(known[0].key)), "problem": problem, **shown})
    return pa.Table.from_pylist([*rows, counts], _FOUND)


def _problem(
    replay: Replay, state: StoredState | None, row: StoredState | None, mark_ms: int
) -> str:
    """Why state and table differ; empty if they do not."""
    if row is None:
        assert state is not None
        ttl_s = replay.schema.ttl_s
        expired = ttl_s != NEVER and state.timestamp_ms + ttl_s * _MS <= mark_ms
        exists = state.record is not None and not expired
        return "the table has no such record" if exists else ""
    if state is None:
        return "" if row.record is None else "the state has no such record"
    if state.timestamp_ms < row.timestamp_ms:
        return f"the state lacks change {row.sequence}"
    if state.timestamp_ms > row.timestamp_ms:
        return f"the table does not have change {state.sequence}"
    # Compared as text, since NaN is not equal to itself.
    return "" if _text(state.record) == _text(row.record) else "the values differ"


def _shown(state: StoredState | None) -> str:
    if state is None:
        return ""
    record = "removed" if state.record is None else _short(_text(state.record))
    return f"#{state.sequence} {record}"


def _text(record: Mapping[str, Any] | None) -> str:
    return " ".join(f"{name}={value!r}" for name, value in sorted((record or {}).items()))


def _short(text: str) -> str:
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]} ..."
