"""Times and positions as users write them."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from opentalos.cli.input.times import parse_position, parse_time, time_text, unix_ms

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", NOW - timedelta(seconds=90)),
        ("10m", NOW - timedelta(minutes=10)),
        ("2h", NOW - timedelta(hours=2)),
        ("7d", NOW - timedelta(days=7)),
        ("@1772366400", NOW),
        ("@1772366400.5", NOW + timedelta(seconds=0.5)),
        ("2026-03-01T12:00Z", NOW),
        ("2026-03-01T20:00:00+08:00", NOW.astimezone(timezone(timedelta(hours=8)))),
    ],
)
def test_every_form_of_a_time_is_parsed(text: str, expected: datetime) -> None:
    assert parse_time(text, NOW) == expected


def test_a_time_without_a_zone_is_local_time(far_east: None) -> None:
    assert parse_time("2026-03-01T21:00", NOW) == NOW
    assert parse_time("2026-03-01", NOW) == NOW - timedelta(hours=21)


@pytest.mark.parametrize("text", ["", "x", "10", "10y", "@", "2026-13-01", "999999999d", "-5m"])
def test_an_invalid_time_names_the_valid_forms(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid time; examples: 2026-03-01T12:00"):
        parse_time(text, NOW)


def test_a_position_is_an_end_an_offset_or_a_time() -> None:
    assert parse_position("start", NOW) == "start"
    assert parse_position("end", NOW) == "end"
    assert parse_position("12", NOW) == 12
    assert parse_position("2h", NOW) == NOW - timedelta(hours=2)
    with pytest.raises(ValueError, match="is too large"):
        parse_position("9" * 19, NOW)


def test_milliseconds_are_unix_time_and_never_negative() -> None:
    assert unix_ms(NOW) == 1_772_366_400_000
    assert unix_ms(datetime(1960, 1, 1, tzinfo=UTC)) == 0
    assert time_text(1_772_366_400_000) == "2026-03-01T12:00:00+00:00"


@pytest.mark.parametrize(
    ("text", "meant"),
    [("start", "start"), ("earliest", "start"), ("end", "end"), ("latest", "end"), ("5", 5)],
)
def test_the_ends_of_a_partition_have_two_names_each(text: str, meant: int | str) -> None:
    assert parse_position(text, NOW) == meant
