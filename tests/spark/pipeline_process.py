"""A real ``talos pipeline`` process for tests: started, read, killed."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from tests.server_process import TALOS
from tests.spark.conftest import TalosServer
from tests.spark.java_classes import quick_java
from tests.waiting import eventually


def small() -> tuple[str, ...]:
    """Options of a command with a session of little memory that starts quickly."""
    quick = (part for name, value in quick_java().items() for part in ("--conf", f"{name}={value}"))
    return ("--master", "local[2]", "--conf", "spark.driver.memory=512m", *quick)


class SaidProcess:
    """A process; what it says goes to a file in ``folder``."""

    def __init__(
        self,
        folder: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.said_file = folder / f"said-{time.monotonic_ns()}"
        with self.said_file.open("wb") as said:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=dict(environment),
                cwd=cwd,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self) -> str:
        return self.said_file.read_text(errors="replace")

    def report(self, first: str) -> dict[str, Any]:
        """The object of JSON in what it said, by the name of its first field."""
        said = self.said()
        found: dict[str, Any] = json.JSONDecoder().raw_decode(said, said.index(f'{{"{first}": '))[0]
        return found

    def wait_for(self, text: str, *, times: int = 1) -> None:
        """Until it has said so."""

        def seen() -> bool:
            if self.said().count(text) >= times:
                return True
            assert self.process.poll() is None, f"ended before {text!r}:\n{self.said()}"
            return False

        eventually(f"process {self.pid} says {text!r}, {times} times", seen, state=self.said)

    def wait(self) -> int:
        """Its exit status, when it has ended by itself.

        As long as it says more the wait may last: a submission to a cluster is many waits.
        """
        while self.process.poll() is None:
            before = self.said_file.stat().st_size

            def goes_on(before: int = before) -> bool:
                return self.process.poll() is not None or self.said_file.stat().st_size > before

            eventually(f"process {self.pid} ends or says more", goes_on, state=self.said)
        return int(self.process.returncode)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """SIGKILL; nothing happens if it ended already."""
        self.process.kill()
        self.process.wait()


class PipelineProcess(SaidProcess):
    """``talos pipeline COMMAND ...``.

    Args: program: runs in place of ``talos``.
    """

    def __init__(
        self,
        server: TalosServer,
        home: Path,
        *argv: str,
        program: Sequence[str] = (str(TALOS),),
    ) -> None:
        command = [*program, "pipeline", *argv, "--home", str(home), *small()]
        environment = {**os.environ, "TALOS_URL": server.url, "TALOS_KEY": server.key}
        super().__init__(home, command, environment)

    def verdict(self) -> str:
        """The one line with which it ended. Spark's own worker processes write to the same place,
        and may complain last that their machine is gone."""
        (line,) = [line for line in self.said().splitlines() if line.startswith("talos: ")]
        return line


def runs(process: psutil.Process) -> bool:
    """Whether it has not ended; its parent may not have asked for its status."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
