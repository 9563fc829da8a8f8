"""Reconciliation by DuckDB finds what plain Python finds, whatever is wrong with table and log."""

from collections.abc import Iterator, Sequence
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.pipelines.billing.both_reconciliations import Place, Row, reconciled

from opentalos.pipelines.billing.partition_reconciliation import LogUsage
from opentalos.pipelines.metering import chain_bucket, usage_chains, usage_lake
from opentalos.pipelines.metering.usage_lake import MinuteUse

MINUTE_MS: Final = 60_000
PLACES: Final = [(topic, partition) for topic in "ab" for partition in (0, 1)]
GONE: Final = ("c", 0)  # a topic that was deleted
_FAULTS: Final = ("gap", "overlap", "restart", "late", "twice", "same minute", "empty", "backward",
                  "records", "bytes", "missing")  # fmt: skip


@pytest.fixture(autouse=True, scope="module", params=(0, 4))
def _small(request: pytest.FixtureRequest) -> Iterator[None]:
    """Slices, runs and pieces end everywhere; slices are not sorted, or mostly are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(usage_chains, "_SORT_BELOW", request.param)
        patch.setattr(usage_lake, "_ROWS_PER_BATCH", 2)
        patch.setattr(usage_chains, "_SLICE_ROWS", 5)
        patch.setattr(chain_bucket, "_MINUTES_AT_ONCE", 3)
        patch.setattr(chain_bucket, "_ROWS_AT_ONCE", 2)
        yield


@st.composite
def whole_chains(draw: st.DrawFn) -> list[MinuteUse]:
    """A partition as it should be; minutes without records have no row."""
    found, at_ms, end = [], 0, draw(st.sampled_from((0, 0, 7)))
    for _ in range(draw(st.integers(2, 8))):
        at_ms += MINUTE_MS * draw(st.integers(1, 3))
        records = draw(st.integers(1, 5))
        found.append(MinuteUse(at_ms, records, 10 * records, end, end + records))
        end += records
    return found


def broken(row: MinuteUse, fault: str, more: int) -> list[MinuteUse]:
    """What the table has instead of a row."""
    first, end = row.first_offset, row.next_offset
    return {
        "gap": [row._replace(first_offset=first + more, next_offset=end + more)],
        "overlap": [row._replace(first_offset=first - more)],
        "restart": [row._replace(first_offset=0, next_offset=end - first)],
        "late": [row._replace(minute_ms=row.minute_ms + more * MINUTE_MS)],
        "twice": [row, row],
        "same minute": [row, row._replace(first_offset=end, next_offset=end + row.records)],
        "empty": [row, row._replace(minute_ms=row.minute_ms + 1_000 * more, records=0,
                                    first_offset=end - more + 1, next_offset=end - more + 1)],
        "backward": [row._replace(first_offset=end, next_offset=first)],
        "records": [row._replace(records=row.records + more)],
        "bytes": [row._replace(bytes=row.bytes + more)],
        "missing": [],
    }[fault]  # fmt: skip


@st.composite
def tables(draw: st.DrawFn, chain: Sequence[MinuteUse]) -> list[MinuteUse]:
    """The rows of a partition: complete, or behind, or with faults."""
    rows = list(chain[: draw(st.one_of(st.just(len(chain)), st.integers(0, len(chain))))])
    for _ in range(draw(st.sampled_from((0, 1, 1, 2, 4)))):
        if rows:
            at = draw(st.integers(0, len(rows) - 1))
            fault, more = draw(st.sampled_from(_FAULTS)), draw(st.integers(1, 4))
            rows[at : at + 1] = broken(rows[at], fault, more)
    return rows


@st.composite
def logs(draw: st.DrawFn, place: Place, chain: Sequence[MinuteUse]) -> LogUsage:
    """The log of a partition: whole, expired in part within a minute, or shorter than the table."""
    end = chain[-1].next_offset if chain else 0
    begin = chain[0].first_offset if chain else 0
    start = draw(st.one_of(st.just(begin), st.integers(begin, end)))
    minutes = []
    for item in chain:
        if item.next_offset > start:
            first = max(item.first_offset, start)
            kept = item.next_offset - first
            minutes.append(item._replace(records=kept, bytes=10 * kept, first_offset=first))
    ahead = draw(st.sampled_from((0, 0, 0, 3)))  # of the table, which is a defect
    return LogUsage(
        topic=place[0], name=place[0], tenant="t", partition=place[1], start_offset=start,
        next_offset=max(0, end - ahead), metered_offset=draw(st.sampled_from((-1, end))),
        metered_since=draw(st.sampled_from((0, 0, begin, start, end))),
        total_bytes=draw(st.sampled_from((10 * end, 10 * end - 1, 20 * end + 100))),
        minutes=minutes,
    )  # fmt: skip


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[LogUsage], list[Row]]:
    """Logs and the rows of the table, in any order: by partition, by time, or mixed."""
    rows: list[Row] = []
    kept: list[LogUsage] = []
    for place in (*PLACES, GONE):
        chain = draw(whole_chains())
        if place != GONE:
            kept.append(draw(logs(place, chain)))
        rows += [(place, row) for row in draw(tables(chain))]
    order = draw(st.sampled_from(("partition", "time", "mixed")))
    if order == "time":
        rows.sort(key=lambda row: row[1].minute_ms)
    elif order == "mixed":
        rows = draw(st.permutations(rows))
    return kept, rows


@settings(max_examples=12, deadline=None, derandomize=True,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(clusters())
def test_duckdb_finds_what_the_reference_finds(
    cluster: tuple[list[LogUsage], list[Row]],
) -> None:
    kept, rows = cluster
    reconciled(kept, rows)
