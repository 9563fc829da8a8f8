"""How pages write numbers, sizes, times."""

import pytest

from opentalos.gateway.console import shown


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (1234567, "1,234,567"), (0.25, "0.2"), (12.6, "13"), (3.0, "3")],
)
def test_numbers(value: float | None, text: str) -> None:
    assert shown.number(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "-"), (0, "0 B"), (1023, "1,023 B"), (1024, "1.0 KiB"), (3 << 20, "3.0 MiB"),
     (1 << 70, "1,048,576.0 PiB")],
)  # fmt: skip
def test_sizes(count: float | None, text: str) -> None:
    assert shown.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0, "0 s"), (59, "59 s"), (60, "1 min"), (3661, "1 h 1 min"),
     (90_000, "1 d 1 h"), (86_405, "1 d")],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    assert shown.duration(seconds) == text


def test_times_are_utc() -> None:
    assert shown.instant(1_790_000_000_123) == "2026-09-21 14:13:20"
    assert shown.machine_time(1_790_000_000_123) == "2026-09-21T14:13:20Z"
    assert (shown.instant(None), shown.instant(-1), shown.instant(1 << 60)) == ("-", "-", "-")
    assert shown.ago(1_000, 1_500) == "now"
    assert shown.ago(0, 7_200_000) == "2 h ago"
    assert shown.ago(60_000, 0) == "in 1 min"
    assert shown.ago(None, 0) == "-"


def test_plurals() -> None:
    assert shown.plural(1, "partition") == "1 partition"
    assert shown.plural(2_000, "partition") == "2,000 partitions"
    assert shown.plural(2, "reply", "replies") == "2 replies"


def test_sparklines_have_gaps_and_need_two_values() -> None:
    assert shown.spark_points([]) == ""
    assert shown.spark_points([None, 1]) == ""
    assert shown.spark_points([0, None, 2]) == "0.0,23.0 100.0,1.0"
    assert shown.spark_points([0, 0]) == "0.0,23.0 100.0,23.0"


def test_shades_of_heat_maps() -> None:
    assert [shown.level(value, 90) for value in (0, 1, 10, 11, 90, 99)] == [0, 1, 1, 2, 9, 9]
    assert shown.level(1, 0) == 0


@pytest.mark.parametrize(
    ("name", "parts"),
    [("", [""]), ("orders", ["orders"]), ("org/some-long.topic_v2",
     ["org/", "some-", "long.", "topic_", "v2"]), ("a--b__", ["a--", "b__"]),
     ("-", ["-"]), ("group g lags 12,000 on t", ["group ", "g ", "lags ", "12,000 ", "on ", "t"])],
)  # fmt: skip
def test_lines_break_after_the_separators_of_names(name: str, parts: list[str]) -> None:
    found = shown.pieces(name)
    assert [piece.text for piece in found] == parts
    assert not any(piece.long for piece in found)


def test_a_word_that_may_have_no_place_is_long() -> None:
    assert [piece.long for piece in shown.pieces("orders.paymentsreconciliation")] == [False, True]
