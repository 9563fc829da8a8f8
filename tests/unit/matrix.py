"""A matrix is one test: every cell is checked, and every failing cell is reported.

``pytest.mark.parametrize`` makes each cell a case of its own, and setting up and reporting a case
costs milliseconds, more than most cells. It is right for a dozen cases, and where each needs its
own fixtures or loop; ``matrix`` is for larger tables.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any

import pytest

NAME_CHARS_MAX = 60
# How pytest.raises and pytest.warns fail. Limits of time fail as well, and end the whole test.
UNMET = "DID NOT "

Test = Callable[..., None]


def matrix(
    names: str | Sequence[str], cells: Iterable[Any], *, ids: Sequence[str] | None = None
) -> "Matrix":
    """Call the test with each cell; the arguments are those of ``pytest.mark.parametrize``.

    Fixtures are made once, for all cells.
    """
    arguments = [names] if isinstance(names, str) else names
    return Matrix(arguments, [*cells], ids)


class Matrix:
    """Makes one test of a function and its cells."""

    def __init__(
        self, arguments: Sequence[str], cells: Sequence[Any], ids: Sequence[str] | None
    ) -> None:
        assert cells, "a matrix without cells checks nothing"
        assert ids is None or len(ids) == len(cells), "each cell needs one name"
        rows = [(cell,) for cell in cells] if len(arguments) == 1 else cells
        self._arguments = arguments
        self._cells = [dict(zip(arguments, row, strict=True)) for row in rows]
        self._ids = ids

    def __call__(self, test: Test) -> Test:
        assert not inspect.iscoroutinefunction(test), "each asynchronous cell needs its own loop"
        parameters = inspect.signature(test).parameters
        unknown = set(self._arguments) - set(parameters)
        assert not unknown, f"{test.__name__} does not take {unknown}"

        @functools.wraps(test)
        def every_cell(**fixtures: Any) -> None:
            __tracebackhide__ = True
            failed = {
                number: reason
                for number, cell in enumerate(self._cells)
                if (reason := _failure(test, fixtures | cell))
            }
            if failed:
                pytest.fail(self._report(failed), pytrace=False)

        rest = [each for name, each in parameters.items() if name not in self._arguments]
        every_cell.__signature__ = inspect.Signature(rest)  # type: ignore[attr-defined]
        return every_cell

    def _report(self, failed: dict[int, str]) -> str:
        names = {number: f"{number} [{self._name(number)}]" for number in failed}
        first = f"{len(failed)} of {len(self._cells)} cells failed: {', '.join(names.values())}"
        return "\n".join(
            [first, *(f"--- cell {names[number]}\n{failed[number]}" for number in failed)]
        )

    def _name(self, number: int) -> str:
        if self._ids is not None:
            return self._ids[number]
        return "-".join(map(_named, self._cells[number].values()))


def _failure(test: Test, arguments: dict[str, Any]) -> str:
    """Why a cell failed: the lines and pytest's explanation; empty if it passed."""
    __tracebackhide__ = True
    try:
        test(**arguments)
    except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
        if isinstance(error, pytest.fail.Exception) and not str(error).startswith(UNMET):
            raise
        return str(pytest.ExceptionInfo.from_exception(error).getrepr(style="short"))
    return ""


def _named(value: Any) -> str:
    name = value.name if isinstance(value, Enum) else getattr(value, "__name__", None)
    if not isinstance(name, str):
        name = repr(value)[1:-1] if isinstance(value, str) else repr(value)
    return name if len(name) <= NAME_CHARS_MAX else f"{name[: NAME_CHARS_MAX - 1]}…"
