"""How many values of a message are read or written at once: a few on an event loop, more elsewhere
in pieces."""

from collections.abc import Callable
from typing import Final

PIECE_VALUES: Final = 600  # read or written without a pause; less than 1 ms
WRITTEN_BYTES_MAX: Final = 100 << 20  # of a message with many items; as much as most clients take


class TooManyItems(Exception):
    """A message has more items than an event loop reads or writes at once."""


class MessageTooLarge(Exception):
    """A message to write has more bytes than ``WRITTEN_BYTES_MAX``."""


class Pace:
    """Counts the values in arrays, and calls ``pause`` after each ``PIECE_VALUES`` of them."""

    __slots__ = ("_left", "_pause")

    def __init__(self, pause: Callable[[], None]) -> None:
        self._left, self._pause = PIECE_VALUES, pause

    def step(self, values: int) -> None:
        """So many values are next. Raises: what ``pause`` raises."""
        self._left -= values
        if self._left < 0:
            self._left = PIECE_VALUES - values
            self._pause()


def give_up() -> None:
    """The pause of who has no time for more than a piece. Raises: TooManyItems."""
    raise TooManyItems


class Paced(bytearray):
    """Where a message with many items is written."""

    __slots__ = ("pace",)

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self.pace = pace
