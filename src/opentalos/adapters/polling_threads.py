"""Daemon threads that each repeat a short step until they are ended.

For programs without an event loop, such as runs of pipelines, whose main thread is busy for long.
"""

import threading
from collections.abc import Callable


class PollingThreads:
    """One thread per step, so a step that hangs holds up no other. An exception ends its thread.

    Args: poll_s: between the end of a step and its next beginning.
    """

    def __init__(self, poll_s: float) -> None:
        self._poll_s = poll_s
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, **steps: Callable[[], None]) -> None:
        """Start a thread of each name."""
        for name, step in steps.items():
            thread = threading.Thread(target=self._run, args=(step,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def ended_within(self, seconds: float) -> bool:
        """Wait so long for ``end``; for a step that waits."""
        return self._ended.wait(seconds)

    def end(self, join_s: float) -> None:
        """End all, and wait so long for each; one that hangs ends with the process."""
        self._ended.set()
        for thread in self._threads:
            thread.join(join_s)

    def _run(self, step: Callable[[], None]) -> None:
        while not self._ended.wait(self._poll_s):
            step()
