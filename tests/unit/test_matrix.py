"""A matrix reports each failing cell, with its name, its line and pytest's explanation."""

import inspect
from pathlib import Path

import pytest
from tests.unit.matrix import matrix


@matrix(("number", "square"), [(1, 1), (2, 5), (3, 9), (4, 15)])
def squares(number: int, square: int) -> None:
    assert number**2 == square


def failure_of(test: object) -> str:
    assert callable(test)
    with pytest.raises(pytest.fail.Exception) as caught:
        test()
    return str(caught.value)


def test_every_failing_cell_is_reported_with_its_explanation() -> None:
    text = failure_of(squares)
    assert text.startswith("2 of 4 cells failed: 1 [2-5], 3 [4-15]\n")
    assert text.count("test_matrix.py:") == text.count(" in squares\n") == 2
    assert "assert (2 ** 2) == 5" in text
    assert "assert (4 ** 2) == 15" in text


def test_a_cell_that_raises_nothing_breaks_or_skips_is_a_failing_cell() -> None:
    def outcome(case: str) -> None:
        if case == "breaks":
            raise KeyError(case)
        if case == "passes":
            raise ValueError(case)

    @matrix("case", ["none", "breaks", "skips", "passes"])
    def outcomes(case: str) -> None:
        if case == "skips":
            pytest.skip("not here")
        with pytest.raises(ValueError, match="passes"):
            outcome(case)

    text = failure_of(outcomes)
    assert text.startswith("3 of 4 cells failed: 0 [none], 1 [breaks], 2 [skips]\n")
    assert "DID NOT RAISE ValueError" in text
    assert "KeyError: 'breaks'" in text
    assert "not here" in text


def test_a_limit_of_time_ends_the_whole_test() -> None:
    seen = []

    @matrix("number", range(3))
    def slow(number: int) -> None:
        seen.append(number)
        pytest.fail("more than 20 s of processor time")

    assert failure_of(slow) == "more than 20 s of processor time"
    assert seen == [0]


def test_names_given_are_used_and_long_ones_cut() -> None:
    @matrix("text", ["ab", "c"], ids=["first", "second"])
    def named(text: str) -> None:
        assert not text

    @matrix("text", ["x" * 100])
    def long(text: str) -> None:
        assert not text

    assert failure_of(named).startswith("2 of 2 cells failed: 0 [first], 1 [second]\n")
    assert f"0 [{'x' * 59}…]\n" in failure_of(long)


@matrix("number", range(3))
def test_fixtures_are_given_to_all_cells(tmp_path: Path, number: int) -> None:
    (tmp_path / str(number)).touch()
    assert len([*tmp_path.iterdir()]) == number + 1


def test_a_matrix_that_checks_nothing_is_refused() -> None:
    with pytest.raises(AssertionError, match="without cells"):
        matrix("number", [])
    with pytest.raises(AssertionError, match="one name"):
        matrix("number", [1, 2], ids=["one"])
    with pytest.raises(AssertionError, match="does not take"):
        matrix("other", [1])(lambda number: None)


def test_an_asynchronous_test_is_refused() -> None:
    async def waits(number: int) -> None:
        assert number

    with pytest.raises(AssertionError, match="its own loop"):
        matrix("number", [1])(waits)  # type: ignore[arg-type]  # as mypy says too
    assert list(inspect.signature(waits).parameters) == ["number"]
