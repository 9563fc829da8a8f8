"""What the garbage collector does to the process that measures itself."""

import gc
import time


class Collections:
    """Counts collections by generation, and the CPU time of each, from its creation on."""

    def __init__(self) -> None:
        self.counts = [0, 0, 0]
        self.total_ms = self.longest_ms = 0.0
        self._began_ns = 0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_ns = time.thread_time_ns()
            return
        took_ms = (time.thread_time_ns() - self._began_ns) / 1e6
        self.counts[info["generation"]] += 1
        self.total_ms += took_ms
        self.longest_ms = max(self.longest_ms, took_ms)
