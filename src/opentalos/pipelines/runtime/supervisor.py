"""Keeps a run of pipelines alive: restarts it when it exits or hangs, and raises an alarm.

Several supervisors of the same pipelines and home may be started: one of them is active, the others
stand by until its lock is free.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from opentalos.model.errors import ConfigError
from opentalos.pipelines.runtime.alarm import Alarm
from opentalos.pipelines.runtime.run_lock import RunLock
from opentalos.pipelines.runtime.run_plan import Event, PipelineFailed, Say
from opentalos.pipelines.runtime.supervised_child import Child, Ending, LifeSigns

_POLL_S: Final = 0.2
_ORPHAN_S: Final = 30.0  # time for a run whose supervisor was killed to stop by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """The run to keep alive, and when to give up. ``argv``: the command of the supervised run."""

    home: Path
    names: tuple[str, ...]
    argv: tuple[str, ...]
    signs: LifeSigns = field(default_factory=LifeSigns)
    restarts_max: int = 10  # in a row, each after a run that worked for less than calm_s
    calm_s: float = 300.0
    backoff_s: float = 1.0  # before the first restart; doubles each time
    backoff_s_max: float = 60.0


class Supervisor:
    """One supervisor: standing by, active, or ended. SIGTERM and SIGINT end it with its run."""

    def __init__(self, supervision: Supervision, alarm: Alarm, say: Say) -> None:
        self._of, self._alarm, self._say = supervision, alarm, say
        self._stopping = False

    def run(self) -> None:
        """Run until the supervised run succeeds, or a signal arrives.

        Raises: PipelineFailed: ``restarts_max`` restarts did not help. ConfigError: one of the
                pipelines already runs without a supervisor.
        """
        with ExitStack() as stack:
            stack.enter_context(self._signals())
            for name in sorted(self._of.names):  # in one order, to avoid a deadlock of two
                lock = RunLock(self._of.home, f"{name}.supervisor")
                if not self._stand_by(lock, name):
                    return
                stack.callback(lock.release)
            self._keep_alive()

    def _stand_by(self, lock: RunLock, name: str) -> bool:
        """Wait for the lock; False if a signal arrived."""
        noted = False
        while not self._stopping:
            try:
                lock.take()
            except ConfigError:
                if not noted:
                    pid = (lock.owner() or {}).get("pid", "unknown")
                    self._note(f"standby: {name} is supervised by pid {pid}")
                    noted = True
                self._rest(_POLL_S)
            else:
                if noted:
                    self._note(f"taking over {name}")
                return True
        return False

    def _keep_alive(self) -> None:
        restarts = 0
        while not self._stopping:
            self._end_orphans()
            reason, worked_s = self._one_life()
            if not reason:
                return
            restarts = 1 if worked_s > self._of.calm_s else restarts + 1
            if restarts > self._of.restarts_max:
                text = f"gave up after {self._of.restarts_max} restarts: {reason}"
                self._raise_alarm("gave-up", text, reason, restarts)
                raise PipelineFailed(f"{', '.join(self._of.names)}: {text}")
            pause_s = min(self._of.backoff_s * 2 ** (restarts - 1), self._of.backoff_s_max)
            text = f"{reason}; restart {restarts} of {self._of.restarts_max} in {pause_s:g} s"
            self._raise_alarm("restart", text, reason, restarts)
            self._rest(pause_s)

    def _one_life(self) -> Ending:
        """How the run ended; without a reason on success or after a signal."""
        child = Child(self._of.argv, self._of.home, self._of.names)
        self._note(f"started {', '.join(self._of.names)}, pid {child.pid}")
        try:
            while not self._stopping:
                ending = child.ended() or child.stuck(self._of.signs)
                if ending is not None:
                    return ending
                self._rest(_POLL_S)
            return Ending("", 0.0)
        finally:
            child.end()

    def _end_orphans(self) -> None:
        """Wait until the run of a killed supervisor has ended; kill it if it hangs."""
        deadline = time.monotonic() + _ORPHAN_S
        for name in self._of.names:
            lock = RunLock(self._of.home, name)
            while (owner := lock.owner()) is not None and not self._stopping:
                if not owner.get("supervised", True):
                    pid = owner.get("pid", "unknown")
                    raise ConfigError(f"{name} is already running without a supervisor (pid {pid})")
                if time.monotonic() > deadline:
                    lock.kill_owner()
                self._rest(_POLL_S)

    def _raise_alarm(self, kind: str, text: str, reason: str, restarts: int) -> None:
        fields = {"pipelines": list(self._of.names), "reason": reason, "restarts": restarts}
        self._say(Event(kind, f"ALARM: {', '.join(self._of.names)}: {text}", fields))
        for problem in self._alarm(kind, fields):
            self._note(problem)

    def _rest(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._stopping and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _POLL_S))

    @contextmanager
    def _signals(self) -> Iterator[None]:
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        for number in before:
            signal.signal(number, self._on_signal)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def _note(self, text: str) -> None:
        self._say(Event("note", text))
