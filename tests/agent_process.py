"""A real ``talos agent`` process for tests."""

import http.client
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.server_process import ROOT_KEY
from tests.waiting import WaitEnded, ended, limit_s

TALOS = Path(sys.executable).parent / "talos"


@dataclass
class AgentProcess:
    """One agent over one spool; it keeps its port over restarts."""

    folder: Path
    url: str  # of the server
    options: tuple[str, ...] = ("--interval", "1")
    port: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def spool(self) -> Path:
        return self.folder / "spool"

    @property
    def push_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/push"

    def stderr(self) -> str:
        return (self.folder / "agent.stderr").read_text(errors="replace")

    def start(self) -> "AgentProcess":
        """Start and wait for the ready line."""
        assert self.process is None, "already running"
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [
            str(TALOS), "agent", "--url", self.url,
            "--as", f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}",
            "--listen", f"127.0.0.1:{self.port}", "--spool", str(self.spool),
            "--machine", "machine-1", *self.options,
        ]  # fmt: skip
        environment = {
            name: value for name, value in os.environ.items() if "proxy" not in name.lower()
        }
        with (self.folder / "agent.stderr").open("ab") as stderr:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.startswith("ready http://127.0.0.1:"), line + self.stderr()
        self.port = int(line.rsplit(":", 1)[1])
        return self

    def post(self, body: bytes, *, path: str = "/v1/push", method: str = "POST") -> tuple[int, str]:
        """Status and text of one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=limit_s())
        try:
            connection.request(method, path, body, {"Content-type": "application/json"})
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it with SIGTERM; its exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(how)
        try:
            return ended(process, "the agent ends")
        except WaitEnded as error:
            raise WaitEnded(f"{error}\n{self.stderr()}") from None
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
