"""One daemon, known by its pid file: started, stopped, killed, paused by any process."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opentalos.backends.places import BackendError

STOP_TIMEOUT_S = 30.0  # a busy HBase needs 20; then the daemon is killed
_POLL_S = 0.05
# The shell leaves the daemon to init, in a session of its own, and tells its pid.
_LAUNCHER = 'log=$1; shift; setsid "$@" </dev/null >>"$log" 2>&1 & echo $!'


@dataclass(frozen=True, slots=True)
class Launch:
    """A command and what its environment has in addition."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Record:
    pid: int
    began: int  # clock ticks since boot: a later process with the same pid is another one
    log_position: int


class Daemon:
    """A process with a pid file and a log below ``home``."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self.log = home / "logs" / f"{name}.log"
        self._pid_file = home / f"{name}.pid"

    @property
    def pid(self) -> int | None:
        """Its process id while it runs, paused or not."""
        record = self._record()
        return record.pid if record and _began(record.pid) == record.began else None

    @property
    def rss_mb(self) -> int:
        """Resident memory in MiB; 0 if it does not run."""
        pid = self.pid
        try:
            text = Path(f"/proc/{pid}/statm").read_text() if pid else "0 0"
        except OSError:
            return 0
        return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

    def said(self) -> str:
        """Its log since it was started."""
        record = self._record()
        if record is None or not self.log.exists():
            return ""
        with self.log.open(errors="replace") as log:
            log.seek(record.log_position)
            return log.read()

    def start(self, launch: Launch) -> None:
        """Start it unless it runs."""
        if self.pid is not None:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        position = self.log.stat().st_size if self.log.exists() else 0
        told = subprocess.run(
            ["/bin/sh", "-c", _LAUNCHER, "sh", str(self.log), *launch.argv],
            env={**os.environ, **launch.environment},
            capture_output=True,
            text=True,
        )
        pid = int(told.stdout)
        record = {"pid": pid, "began": _began(pid), "log_position": position}
        self._pid_file.write_text(json.dumps(record))

    def stop(self) -> None:
        """End it in order; one that does not end in time is killed."""
        self.resume()  # a paused process does not see SIGTERM
        self._signal(signal.SIGTERM)
        self.wait_ended()

    def wait_ended(self) -> None:
        """Wait for the end of a daemon that was told to stop."""
        if not self._ended_within(STOP_TIMEOUT_S):
            self.kill()
        self._pid_file.unlink(missing_ok=True)

    def terminate(self) -> None:
        """Ask it to end, without waiting."""
        self.resume()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL, as a crash does."""
        self._signal(signal.SIGKILL)
        if not self._ended_within(STOP_TIMEOUT_S):
            raise BackendError(f"{self.name} (pid {self.pid}) does not end")

    def pause(self) -> None:
        """Stop it from running (SIGSTOP); its connections stay open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused one go on."""
        self._signal(signal.SIGCONT)

    def _record(self) -> _Record | None:
        try:
            return _Record(**json.loads(self._pid_file.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def _signal(self, number: signal.Signals) -> None:
        pid = self.pid
        if pid is not None:
            try:
                os.killpg(pid, number)  # its session: whatever it started gets it too
            except ProcessLookupError:
                return

    def _ended_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True


def _began(pid: int) -> int:
    """When a process began, in clock ticks since boot; 0 if it runs no more."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    state, *numbers = text.rpartition(")")[2].split()
    return 0 if state in "ZX" else int(numbers[18])
