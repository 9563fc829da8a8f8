"""A real ``talos serve`` process for tests: started, killed, restarted, asked for its port.

``troubles`` says of all servers of this process what no test may pass over in silence.
"""

import os
import select
import signal
import subprocess
import sys
import weakref
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tests.waiting import WaitEnded, ended, limit_s

TALOS = Path(sys.executable).parent / "talos"
STDERR_SHOWN_CHARACTERS = 4_000
STARTED_MAX = 1_000  # servers that are remembered for ``troubles``
TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Key:
    """A key id and its secret, as a client needs them."""

    key_id: str
    secret: str


ROOT_KEY = Key("AKROOTTEST", "root-secret-of-tests")


@dataclass
class ServerProcess:
    """One server on one data directory; keeps its port over restarts, as clients expect."""

    folder: Path
    config: str = ""  # text of the TOML file
    launcher: tuple[str, ...] = (str(TALOS), "serve")
    port: int = 0
    environment: dict[str, str] = field(default_factory=dict)  # beside this process's own
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _stderr_from: int | None = field(default=None, repr=False)  # where its first start found it
    _crashes: list[int] = field(default_factory=list, repr=False)  # exit statuses
    _started: ClassVar[deque["weakref.ref[ServerProcess]"]] = deque(maxlen=STARTED_MAX)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        scheme = "https" if "cert_file" in self.config else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def _stderr_path(self) -> Path:
        return self.folder / "server.stderr"

    def stderr(self) -> str:
        """What the server said so far, the end of it."""
        path = self._stderr_path
        text = path.read_text(errors="replace") if path.exists() else ""
        return text[-STDERR_SHOWN_CHARACTERS:]

    def start(self) -> "ServerProcess":
        """Start and wait for the ready line."""
        assert self.process is None, "already running"
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "config.toml"
        config.write_text(self.config)
        command = [*self.launcher, "--config", str(config), "--data", str(self.data)]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        command += ["--root-key", f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}"]
        with self._stderr_path.open("ab") as stderr:
            if self._stderr_from is None:
                self._stderr_from = stderr.tell()
                self._started.append(weakref.ref(self))
            self.process = subprocess.Popen(
                command,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        try:
            line = self._ready_line(self.process)
        except BaseException:
            _discard(self.process)
            self.process = None
            raise
        self.port = int(line.rsplit(":", 1)[1])
        return self

    def _ready_line(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None
        seen = b""
        while not seen.endswith(b"\n"):
            if not select.select([process.stdout], [], [], limit_s())[0]:
                raise WaitEnded(f"no ready line, but {seen!r}\n{self.stderr()}")
            chunk = os.read(process.stdout.fileno(), 4096)
            if not chunk:
                status = ended(process, "a server that closed its output ends")
                raise AssertionError(f"not ready (exit {status}): {seen!r}\n{self.stderr()}")
            seen += chunk
        line = seen.decode().strip()
        assert line.startswith(f"ready {self.url.rpartition(':')[0]}:"), line
        return line

    def kill(self) -> None:
        """End the process with SIGKILL, as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End the process with SIGTERM and return its exit status."""
        return self._end(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP: it does nothing, but its connections stay open."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def trouble(self) -> str:
        """A sentence if it ended by itself with an error, or printed a traceback; else nothing.

        A start that fails is the caller's to judge: ``start`` raises. Status 0 is the answer to a
        signal, whoever sent it.
        """
        crashes = [*self._crashes]
        if self.process is not None and self.process.poll():
            crashes.append(self.process.returncode)
        found = [f"ended by itself with status {status}" for status in crashes]
        printed = self._traceback()
        if printed:
            found.append(f"printed a traceback: {printed}")
        return f"the server in {self.folder} {' and '.join(found)}" if found else ""

    def _traceback(self) -> str:
        """The last line of the first traceback since the first start: the error."""
        path = self._stderr_path
        if self._stderr_from is None or not path.exists():
            return ""
        with path.open("rb") as stderr:
            stderr.seek(self._stderr_from)
            _, traceback, rest = stderr.read().decode(errors="replace").partition(TRACEBACK)
        if not traceback:
            return ""
        lines = (line for line in rest.splitlines()[1:] if not line.startswith(" "))
        return next(lines, "its end is missing")

    def _end(self, how: signal.Signals) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        if process.poll():
            self._crashes.append(process.returncode)
        process.send_signal(how)
        try:
            return ended(process)
        except WaitEnded as error:
            raise WaitEnded(f"{error}\n{self.stderr()}") from None
        finally:
            _discard(process)


def _discard(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def troubles() -> list[str]:
    """Of the servers that this Python process started, as long as somebody still has them."""
    servers = [server for started in ServerProcess._started if (server := started()) is not None]
    return [trouble for server in servers if (trouble := server.trouble())]
