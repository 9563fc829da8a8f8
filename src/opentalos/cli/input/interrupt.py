"""Ctrl-C in a command that has to end something first."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import click

EXIT_INTERRUPTED: Final = 130  # as a shell reports an interrupt


class Interrupted(click.ClickException):
    """Ctrl-C; the text says what was done until then."""

    exit_code = EXIT_INTERRUPTED


class Stop:
    """Notes the first Ctrl-C, and raises KeyboardInterrupt at once only while ``waiting`` and from
    the second one on."""

    def __init__(self) -> None:
        self.asked = False
        self._waiting = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Code that may be left at any place, such as a read."""
        if self.asked:
            raise KeyboardInterrupt
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Takes SIGINT."""
        again, self.asked = self.asked, True
        if again or self._waiting:
            raise KeyboardInterrupt


@contextmanager
def stopping() -> Iterator[Stop]:
    """Ctrl-C goes to a Stop inside."""
    stop = Stop()
    before: Any = signal.signal(signal.SIGINT, stop.on_signal)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
