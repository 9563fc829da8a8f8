"""The process of a supervised run: started, watched by its heartbeats, and stopped."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from opentalos.pipelines.runtime.progress import ENDED, IN_A_RUN, STARTING, Beat, read_beat

_STOP_S: Final = 30.0  # from SIGTERM to SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeSigns:
    """How long a run may go without a heartbeat before it counts as hung, in seconds."""

    start_s: float = 180.0  # until the Spark session and the queries are started
    stall_s: float = 300.0  # a stream between two batches, or within one
    run_s: float = 3600.0  # one run of a batch pipeline


class Ending(NamedTuple):
    """Why a run has ended, or must be ended, although it should continue."""

    reason: str
    worked_s: float  # from its start to its end; if it hangs, only to its last progress


class Child:
    """A run in a process group of its own, which ends at the end of its stdin.

    So no process of it outlives its supervisor, however that ends, nor a call of ``end``.
    """

    def __init__(self, argv: Sequence[str], home: Path, names: Sequence[str]) -> None:
        self._home, self._names = home, names
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True)
        self._seen: dict[str, Beat | None] = dict.fromkeys(names)
        self._began_s = time.monotonic()
        self._since = dict.fromkeys(names, self._began_s)

    @property
    def pid(self) -> int:
        """The pid of the Python process, which leads the group."""
        return self._process.pid

    def ended(self) -> Ending | None:
        """That it has exited, with an empty reason for success; None while it runs."""
        status = self._process.poll()
        if status is None:
            return None
        return Ending(_reason(status), time.monotonic() - self._began_s)

    def stuck(self, signs: LifeSigns) -> Ending | None:
        """Which pipeline has no heartbeat, and for how long; None if all have one.

        The time in which it made no progress is not work: to notice a hang takes so long that
        every run that hangs at its start would pass for a long one.
        """
        now = time.monotonic()
        in_a_run = False
        for name in self._names:
            beat = read_beat(self._home, name)
            if beat is not None and beat.pid == self.pid and beat != self._seen[name]:
                self._seen[name], self._since[name] = beat, now
            in_a_run = in_a_run or self._state(name) == IN_A_RUN
        for name in self._names:
            state = self._state(name)
            allowed_s = signs.start_s if state == STARTING else signs.stall_s
            if in_a_run:  # the others wait for it
                allowed_s = max(allowed_s, signs.run_s)
            silent_s = now - self._since[name]
            if state != ENDED and silent_s > allowed_s:
                reason = f"{name} ({state}) made no progress for {silent_s:.0f} s"
                return Ending(reason, self._since[name] - self._began_s)
        return None

    def end(self) -> None:
        """Stop it with SIGTERM, then with SIGKILL, with all processes of its group."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def kill(self) -> None:
        """Kill all processes of the group at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _state(self, name: str) -> str:
        beat = self._seen[name]
        return beat.state if beat is not None else STARTING


def _reason(status: int) -> str:
    if status == 0:
        return ""
    if status < 0:
        return f"the run was killed by {signal.Signals(-status).name}"
    return f"the run exited with status {status}"
