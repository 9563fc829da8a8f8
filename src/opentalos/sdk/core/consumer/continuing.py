"""Iterations of a consumer that an error does not end: the next request asks again.

A generator that has raised is over for good, so whoever catches the error of one damaged partition
would take the StopIteration that follows for the end of all partitions.
"""

from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, TypeVar

_T = TypeVar("_T")


class Continuing(Generator[_T, None, None]):
    """A generator in whose place ``make`` puts another one when it raises."""

    def __init__(self, make: Callable[[], Generator[_T, None, None]]) -> None:
        self._make, self._inner = make, make()

    def __next__(self) -> _T:
        try:
            return next(self._inner)
        except StopIteration:
            raise
        except BaseException:
            self._inner = self._make()
            raise

    def send(self, value: None) -> _T:
        """The same as ``next``."""
        return next(self)

    def throw(self, *error: Any) -> _T:
        """End the iteration."""
        return self._inner.throw(*error)


class AsyncContinuing(AsyncGenerator[_T, None]):
    """The same for an asynchronous generator; a request that is cancelled does not end it."""

    def __init__(self, make: Callable[[], AsyncGenerator[_T, None]]) -> None:
        self._make, self._inner = make, make()

    async def asend(self, value: None) -> _T:
        """The next item."""
        try:
            return await anext(self._inner)
        except StopAsyncIteration:
            raise
        except BaseException:
            self._inner = self._make()
            raise

    async def athrow(self, *error: Any) -> _T:
        """End the iteration."""
        return await self._inner.athrow(*error)
