"""A daemon with a pid file; any process can start, stop, kill or pause it."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opentalos.backends.places import BackendError

STOP_TIMEOUT_S = 30.0  # a busy HBase needs 20 s; after this time the daemon is killed
PAUSE_TIMEOUT_S = 10.0  # for its threads; on a busy machine some run on for a moment
_POLL_S = 0.05
_REST_POLL_S = 0.001
_RESTING = frozenset("TtZX")  # stopped, traced, or ended
# The shell starts the daemon in its own session, leaves it to init and prints its pid.
_LAUNCHER = 'log=$1; shift; setsid "$@" </dev/null >>"$log" 2>&1 & echo $!'


@dataclass(frozen=True, slots=True)
class Launch:
    """A command and its additional environment variables."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Record:
    pid: int
    began: int  # clock ticks since boot; differs for a later process with the same pid
    log_position: int


class Daemon:
    """A process with a pid file and a log below ``home``."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self.log = home / "logs" / f"{name}.log"
        self._pid_file = home / f"{name}.pid"

    @property
    def pid(self) -> int | None:
        """The process id while the daemon runs, also if paused."""
        record = self._record()
        return record.pid if record and _began(record.pid) == record.began else None

    @property
    def rss_mb(self) -> int:
        """Resident memory in MiB; 0 if not running."""
        pid = self.pid
        try:
            text = Path(f"/proc/{pid}/statm").read_text() if pid else "0 0"
        except OSError:
            return 0
        return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

    def log_text(self) -> str:
        """The log since the last start."""
        record = self._record()
        if record is None or not self.log.exists():
            return ""
        with self.log.open(errors="replace") as log:
            log.seek(record.log_position)
            return log.read()

    def start(self, launch: Launch) -> None:
        """Start the daemon unless it is running."""
        if self.pid is not None:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        position = self.log.stat().st_size if self.log.exists() else 0
        launched = subprocess.run(
            ["/bin/sh", "-c", _LAUNCHER, "sh", str(self.log), *launch.argv],
            env={**os.environ, **launch.environment},
            capture_output=True,
            text=True,
        )
        pid = int(launched.stdout)
        record = {"pid": pid, "began": _began(pid), "log_position": position}
        self._pid_file.write_text(json.dumps(record))

    def stop(self) -> None:
        """Stop the daemon; kill it if it does not exit in time."""
        self.resume()  # a paused process does not handle SIGTERM
        self._signal(signal.SIGTERM)
        self.wait_exited()

    def wait_exited(self) -> None:
        """Wait until the daemon exits after ``terminate``; kill it if it does not."""
        if not self._exited_within(STOP_TIMEOUT_S):
            self.kill()
        self._pid_file.unlink(missing_ok=True)

    def terminate(self) -> None:
        """Send SIGTERM, without waiting."""
        self.resume()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, which simulates a crash, and wait."""
        self._signal(signal.SIGKILL)
        if not self._exited_within(STOP_TIMEOUT_S):
            raise BackendError(f"{self.name} (pid {self.pid}) did not exit after SIGKILL")

    def pause(self) -> None:
        """Pause the daemon (SIGSTOP) and wait until it rests; its connections stay open."""
        self._signal(signal.SIGSTOP)
        deadline = time.monotonic() + PAUSE_TIMEOUT_S
        while (pid := self.pid) is not None and not _rests(pid):
            if time.monotonic() > deadline:
                raise BackendError(f"{self.name} (pid {pid}) did not rest after SIGSTOP")
            time.sleep(_REST_POLL_S)

    def resume(self) -> None:
        """Resume a paused daemon (SIGCONT)."""
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
                os.killpg(pid, number)  # the whole session, including child processes
            except ProcessLookupError:
                return

    def _exited_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True


def _rests(pid: int) -> bool:
    """Whether every thread is stopped or gone; true where the system does not say it."""
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            state = thread.read_text().rpartition(") ")[2][:1]
        except OSError:  # it ended
            continue
        if state not in _RESTING:
            return False
    return True


def _began(pid: int) -> int:
    """The start time of a process in clock ticks since boot; 0 if it has exited."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    state, *numbers = text.rpartition(")")[2].split()
    return 0 if state in "ZX" else int(numbers[18])
