"""Bars that the server draws."""

from opentalos.gateway.console.pages.bill.bars import Bar, Bars
from opentalos.gateway.console.pages.bill.bills import money


def bars(*amounts: tuple[float, ...]) -> Bars:
    return Bars([Bar(f"{index}", parts, "") for index, parts in enumerate(amounts)])


def test_parts_are_on_top_of_each_other_and_never_invisible() -> None:
    (_, first), (_, second), (_, third) = bars((60, 40), (0, 0), (0.001,)).pieces
    assert [(piece.y, piece.height, piece.kind) for piece in first] == [(40, 60, 0), (0, 40, 1)]
    assert second == []
    assert third[0].height == 1


def test_a_drawing_without_bars() -> None:
    assert (bars().pieces, bars().ends, bars().width) == ([], [], 10)


def test_labels_are_those_of_both_ends_and_between() -> None:
    assert bars(*[(1,)] * 31).ends == ["0", "8", "15", "22", "30"]
    assert bars((1,), (2,)).ends == ["0", "1"]


def test_amounts_are_never_rounded_by_a_float() -> None:
    assert money("0.1000", 4, "EUR") == "0.1000 EUR"
    assert money("-12345678901234567890.05") == "-12,345,678,901,234,567,890.05"
    assert (money(None), money("x")) == ("-", "x")
