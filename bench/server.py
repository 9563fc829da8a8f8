"""The server process under test: start with a configuration, CPU and memory usage."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

KEY_ID, SECRET = "AKBENCH", "bench-secret"
READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class ServerProcess:
    """``talos serve`` on a free loopback port; a context manager that stops it."""

    def __init__(
        self,
        data: Path,
        *,
        settings: Mapping[str, Mapping[str, object]] | None = None,
        launcher: list[str] | None = None,
        port: int = 0,
        ready_timeout_s: float = READY_TIMEOUT_S,
    ) -> None:
        self.data = data
        self._settings = settings or {}
        self._launcher = launcher or [sys.executable, "-m", "opentalos.cli.main", "serve"]
        self._process: subprocess.Popen[str] | None = None
        self.port = port
        self._ready_timeout_s = ready_timeout_s
        self.ready_s = 0.0

    def __enter__(self) -> "ServerProcess":
        return self.start()

    def start(self) -> "ServerProcess":
        """Start the server and wait for its ready line."""
        self.data.mkdir(parents=True, exist_ok=True)
        config = self.data.parent / f"{self.data.name}.toml"
        config.write_text(as_toml(self._settings))
        log = (self.data.parent / f"{self.data.name}.log").open("a")
        command = [*self._launcher, "--config", str(config), "--data", str(self.data)]
        command += ["--listen", f"127.0.0.1:{self.port}", "--root-key", f"{KEY_ID}:{SECRET}"]
        command += ["--supervised"]  # it ends with the benchmark, however that ends
        begin = time.perf_counter()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        log.close()
        assert self._process.stdout is not None
        timeout = threading.Timer(self._ready_timeout_s, self._process.kill)
        timeout.start()
        line = self._process.stdout.readline()
        timeout.cancel()
        self.ready_s = time.perf_counter() - begin
        if not line.startswith("ready http://"):
            self.kill()
            raise RuntimeError(f"the server did not start: {line!r}, see {log.name}")
        self.port = int(line.rsplit(":", 1)[1])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send SIGTERM, then SIGKILL after the timeout; does nothing if not running."""
        if not self.running:
            return
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=timeout_s)
            self._close_output()
        except subprocess.TimeoutExpired:
            self.kill()

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(timeout=10)
        self._close_output()

    def _close_output(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None
        return self._process.pid

    @property
    def kafka_port(self) -> int:
        """The port for clients of Kafka."""
        record = json.loads((self.data / "server.json").read_text())
        return int(str(record["kafka"]).rsplit(":", 1)[1])

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        """CPU seconds, user and system, since the start."""
        text = Path(f"/proc/{self.pid}/stat").read_text()
        numbers = text.rsplit(")", 1)[1].split()
        return (int(numbers[11]) + int(numbers[12])) / _TICKS_PER_S

    def rss_bytes(self) -> int:
        """The current resident memory."""
        return self._memory_bytes("VmRSS:")

    def peak_rss_bytes(self) -> int:
        """The highest resident memory since the start."""
        return self._memory_bytes("VmHWM:")

    def _memory_bytes(self, field: str) -> int:
        text = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in text.splitlines() if line.startswith(field))
        return int(line.split()[1]) << 10


def as_toml(settings: Mapping[str, Mapping[str, object]]) -> str:
    """A two-level TOML document; JSON scalars are valid in TOML."""
    lines = []
    for section, keys in settings.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"
