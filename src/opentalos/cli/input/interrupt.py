"""Ctrl-C, and other requests to end, in commands that must finish some work before they exit."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from opentalos.cli.exit_status import EXIT_INTERRUPTED


class Interrupted(click.ClickException):
    """Ctrl-C; the text says what was done before it."""

    exit_code = EXIT_INTERRUPTED


class Stop:
    """Records the first Ctrl-C in ``asked``.

    KeyboardInterrupt is raised at once only inside ``waiting``, and by a second Ctrl-C.
    """

    def __init__(self) -> None:
        self.asked = False
        self._waiting = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Code that may be interrupted at any point, such as a read."""
        if self.asked:
            raise KeyboardInterrupt
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Handle SIGINT."""
        again, self.asked = self.asked, True
        if again or self._waiting:
            raise KeyboardInterrupt


@contextmanager
def stopping() -> Iterator[Stop]:
    """Deliver Ctrl-C to a Stop inside the block."""
    stop = Stop()
    before: Any = signal.signal(signal.SIGINT, stop.on_signal)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt also for SIGTERM, and for SIGHUP when the terminal is closed.

    For commands that start other programs and must end them. A signal that this process was started
    to ignore, as by nohup, stays ignored.
    """
    before: dict[signal.Signals, Any] = {
        number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
