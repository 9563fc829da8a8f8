"""A month begins and ends in UTC."""

from datetime import UTC, datetime

import pytest

from opentalos.pipelines.lake.periods.month import Month


def test_a_month_ends_where_the_next_begins() -> None:
    assert Month.parse("2026-12").end == Month.parse("2027-01").begin
    assert Month.parse("2028-02").end_ms == Month.parse("2028-03").begin_ms
    assert (Month(2028, 2).end - Month(2028, 2).begin).days == 29
    assert Month.parse("2026-03").begin == datetime(2026, 3, 1, tzinfo=UTC)


def test_months_are_in_order_of_time() -> None:
    assert Month.parse("2025-12") < Month.parse("2026-01") < Month.parse("2026-11")
    assert str(Month(2026, 3)) == "2026-03"


@pytest.mark.parametrize("text", ["2026", "2026-3", "2026-13", "2026-00", "26-01", "1969-12", ""])
def test_any_other_text_is_not_a_month(text: str) -> None:
    with pytest.raises(ValueError, match="write YYYY-MM"):
        Month.parse(text)
