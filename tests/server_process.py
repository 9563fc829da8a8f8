"""A real ``talos serve`` process for tests: started, killed, restarted, asked for its port."""

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

TALOS = Path(sys.executable).parent / "talos"
READY_TIMEOUT_S = 60.0  # on a machine that is busy with other tests
STOP_TIMEOUT_S = 60.0
EXIT_S = 30.0  # from the end of its output to the end of the process
STDERR_SHOWN_CHARACTERS = 4_000


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
    ready_timeout_s: float = READY_TIMEOUT_S
    stop_timeout_s: float = STOP_TIMEOUT_S
    environment: dict[str, str] = field(default_factory=dict)  # beside this process's own
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

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

    def stderr(self) -> str:
        """What the server said so far, the end of it."""
        path = self.folder / "server.stderr"
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
        with (self.folder / "server.stderr").open("ab") as stderr:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        line = self._ready_line()
        self.port = int(line.rsplit(":", 1)[1])
        return self

    def _ready_line(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        deadline = time.monotonic() + self.ready_timeout_s
        seen = b""
        while not seen.endswith(b"\n"):
            left = deadline - time.monotonic()
            readable, _, _ = select.select([self.process.stdout], [], [], max(0.0, left))
            chunk = os.read(self.process.stdout.fileno(), 4096) if readable else b""
            if not chunk:
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(EXIT_S if readable else 0.0)
                status = self.process.poll()
                self.kill()
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

    def _end(self, how: signal.Signals) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(how)
        try:
            return process.wait(self.stop_timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(
                f"did not end within {self.stop_timeout_s} s\n{self.stderr()}"
            ) from None
        finally:
            if process.stdout is not None:
                process.stdout.close()
