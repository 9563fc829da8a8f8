"""A real ``talos pipeline`` process for tests: started, read, killed."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.server_process import TALOS
from tests.spark.conftest import TalosServer
from tests.spark.java_classes import quick_java

WAIT_S = 240.0  # a session starts in 10 s on a quiet machine, in 60 s on a busy one
_POLL_S = 0.5


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

    def wait_for(self, text: str, *, times: int = 1) -> None:
        """Until it has said so."""

        def seen() -> bool:
            if self.said().count(text) >= times:
                return True
            assert self.process.poll() is None, f"ended before {text!r}:\n{self.said()}"
            return False

        until(seen, lambda: f"no {text!r} in:\n{self.said()}")

    def wait(self) -> int:
        """Its exit status."""
        return self.process.wait(WAIT_S)

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


def until(
    condition: Callable[[], bool], otherwise: Callable[[], str], wait_s: float = WAIT_S
) -> None:
    """Wait until it holds; ``otherwise`` says what is there instead."""
    deadline = time.monotonic() + wait_s
    while not condition():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(_POLL_S)
