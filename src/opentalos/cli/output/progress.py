"""A progress line on the terminal for long commands."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Final, Self, TextIO

SHOW_AFTER_S: Final = 2.0  # shorter work shows no progress
_REFRESH_S: Final = 0.2
_BAR_WIDTH: Final = 30
_CLEAR: Final = "\r\033[K"


class Progress:
    """Shows the amount done, the share and the rate if stderr is a terminal; cleared at the end.

    Args: total: None: unknown.
    """

    def __init__(
        self,
        unit: str,
        total: int | None = None,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._unit, self._total, self._clock = unit, total, clock
        self._stream = sys.stderr if stream is None else stream
        self._began_s = clock()
        self._next_s = self._began_s + SHOW_AFTER_S if self._stream.isatty() else float("inf")
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._write(_CLEAR)

    def show(self, done: int, total: int | None = None) -> None:
        """Report the amount done, and ``total`` once it is known. Cheap to call often."""
        self._total = self._total if total is None else total
        now_s = self._clock()
        if now_s < self._next_s:
            return
        self._next_s, self._shown = now_s + _REFRESH_S, True
        rate = done / (now_s - self._began_s)
        self._write(f"{_CLEAR}{self._bar(done)}{done:,} {self._unit}, {rate:,.0f}/s")

    def _bar(self, done: int) -> str:
        if not self._total:
            return ""
        share = min(1.0, done / self._total)
        full = int(share * _BAR_WIDTH)
        return f"[{'#' * full}{' ' * (_BAR_WIDTH - full)}] {100 * share:3.0f} %  "

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class Elapsed:
    """Shows the time that a step takes whose progress is unknown, if stderr is a terminal.

    Args: wait: returns after so many seconds with False, or earlier with True at the end.
    """

    def __init__(
        self,
        what: str,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._what, self._clock = what, clock
        self._stream = sys.stderr if stream is None else stream
        self._ended = threading.Event()
        self._wait = wait or self._ended.wait
        self._thread = threading.Thread(target=self._show, name="elapsed", daemon=True)

    def __enter__(self) -> Self:
        if self._stream.isatty():
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _show(self) -> None:
        began_s = self._clock()
        pause_s = SHOW_AFTER_S
        while not self._wait(pause_s):
            pause_s = 1.0
            self._write(f"{_CLEAR}{self._what}: {self._clock() - began_s:.0f} s")
        if pause_s < SHOW_AFTER_S:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
