"""A consumer of the official SDK in a separate process: the partitions it takes and releases."""

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.server import KEY_ID, SECRET

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".sdk-venv" / "bin" / "python"
PROGRAMS = ROOT / "tests" / "compat"  # run as it is, by its path
STOP_TIMEOUT_S = 40.0


class SdkWorker:
    """A TalosConsumer; a context manager that stops it."""

    def __init__(self, folder: Path, url: str, topic: str, group: str, name: str) -> None:
        arguments = {
            "url": url,
            "key_id": KEY_ID,
            "secret": SECRET,
            "topic": topic,
            "group": group,
            "worker": name,
        }
        program = PROGRAMS / "sdk_programs" / "talos_consumer.py"
        kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        shim = {"PYTHONPATH": str(PROGRAMS / "no_network"), "PYTHONWARNINGS": "ignore"}
        self._report = folder / f"{name}.jsonl"
        with (
            self._report.open("w") as report,
            self._report.with_suffix(".stderr").open("w") as errors,
        ):
            self._process = subprocess.Popen(
                [str(PYTHON), str(program), json.dumps(arguments)],
                env={**kept, **shim},
                stdin=subprocess.PIPE,
                stdout=report,
                stderr=errors,
            )

    def __enter__(self) -> "SdkWorker":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def changes(self) -> int:
        """How often the consumer took or released a partition."""
        return sum(line["event"] in ("taken", "released") for line in self._lines())

    @property
    def messages(self) -> int:
        """The number of messages received."""
        return sum(len(line["offsets"]) for line in self._lines() if line["event"] == "batch")

    def _lines(self) -> list[dict[str, Any]]:
        if self._process.poll() is not None:
            raise RuntimeError(f"the consumer ended, see {self._report.with_suffix('.stderr')}")
        lines = self._report.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]
