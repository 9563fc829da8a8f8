"""Programs that end with the one that started them, however that one ends.

The system closes the pipes of a process with it, also after SIGKILL: a child whose stdin is a pipe
of its parent notices by the end of that. Where there is no such pipe, the number of the parent
changes.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Final

_POLL_S: Final = 0.5
_READ_BYTES: Final = 4 << 10
_STDIN: Final = 0


def end_with_stdin() -> None:
    """From now on send SIGTERM to this process once its stdin ends."""
    _end_after(_stdin_ended)


def end_with_parent(parent: int) -> None:
    """From now on send SIGTERM to this process once its parent is not ``parent``, or its terminal
    is closed: make waits for its child then, and does not pass the signal on."""
    terminal = os.isatty(_STDIN)

    def left() -> None:
        while os.getppid() == parent and os.isatty(_STDIN) == terminal:
            time.sleep(_POLL_S)

    _end_after(left)


def _stdin_ended() -> None:
    try:
        while os.read(_STDIN, _READ_BYTES):
            pass
    except OSError:  # a terminal that is gone, or no stdin at all
        pass


def _end_after(wait: Callable[[], None]) -> None:
    def run() -> None:
        wait()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=run, name="parent-watch", daemon=True).start()
