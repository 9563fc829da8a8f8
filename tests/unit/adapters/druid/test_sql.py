"""SQL of series: the table that fits, and values only as parameters."""

from typing import Any

import pytest

from opentalos.adapters.druid.sql import statement, table_of
from opentalos.ports.series_archive import ArchivePlace, ArchiveQuery

HOUR_MS = 3_600_000
EVIL = "x' OR '1'='1"


def query(**fields: Any) -> ArchiveQuery:
    given: dict[str, Any] = {"measure": "put_bytes", "from_ms": 0, "to_ms": 24 * HOUR_MS}
    return ArchiveQuery(**given | fields)


@pytest.mark.parametrize(
    ("fields", "table"),
    [
        ({"step_ms": 24 * HOUR_MS}, "metrics_1h"),
        ({"step_ms": HOUR_MS, "from_ms": 60_000}, "metrics_1m"),
        ({"step_ms": 120_000}, "metrics_1m"),
        ({"step_ms": 10_000}, "metrics_10s"),
        ({}, "metrics_1h"),
        ({"to_ms": 70_000}, "metrics_10s"),
        ({"step_ms": HOUR_MS, "percent": 99.0}, "metrics_1h_sketches"),
    ],
)
def test_the_coarsest_table_that_fits_is_read(fields: dict[str, Any], table: str) -> None:
    assert table_of(query(**fields)) == table


def test_values_are_parameters() -> None:
    made = statement(
        query(measure=EVIL, places=[ArchivePlace(EVIL, EVIL)], split=("partition",), step_ms=60_000)
    )
    assert EVIL not in made.text
    assert [each["value"] for each in made.parameters] == ["metrics_1m", EVIL, EVIL, EVIL]
    assert made.text.count("?") == len(made.parameters)


def test_servers_have_rows_without_a_topic_and_topics_leave_them_out() -> None:
    assert "topic = ''" in statement(query(places=(), split=("server",))).text
    assert "topic <> ''" in statement(query()).text
    assert "tenant <> ''" in statement(query(split=("tenant", "topic"))).text


def test_a_gauge_adds_up_the_peaks_of_partitions() -> None:
    made = statement(query(measure="consumer_lag", gauge=True, step_ms=60_000))
    assert "MAX(high)" in made.text
    assert "SUM(high) AS amount" in made.text
    assert "GROUP BY 1, 2, 3, 4)" in made.text
