"""Long computations in steps, between which a server does other work. Pure.

A computation is a generator that yields between its steps and returns its result. It decides alone
where a step ends, by counting its work, so that the same input takes the same steps everywhere.
"""

from collections.abc import Generator, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]

ITEMS_A_STEP = 1_500  # of about a microsecond each


class Pace:
    """Counts the work of one computation; a small one ends within its first step."""

    def __init__(self) -> None:
        self._left = ITEMS_A_STEP

    def due(self, items: int = 1) -> bool:
        """Whether the step ends after so many more items."""
        self._left -= items
        if self._left > 0:
            return False
        self._left = ITEMS_A_STEP
        return True


class Run(Generic[T]):
    """Iterates over the steps; ``result`` is there afterwards."""

    result: T

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps

    def __iter__(self) -> Iterator[None]:
        self.result = yield from self._steps


def finished(steps: Steps[T]) -> T:
    """The result, without other work in between."""
    run = Run(steps)
    for _ in run:
        pass
    return run.result
