"""The two workers of the demo's group: one of our SDK, one of the official SDK in a process."""

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Final, Protocol

from opentalos.sdk import ClientConfig, ConsumerSettings, TalosConsumer

POLL_S: Final = 0.2
END_S: Final = 20.0  # limit for a worker to commit and leave


class Reader(Protocol):
    """A worker of the group that counts the messages it reads."""

    name: str
    read: int  # messages so far
    last_s: float  # when it read the last one, on the monotonic clock

    def stop(self) -> None:
        """Commit and leave the group."""


class OwnReader:
    """A TalosConsumer in a thread."""

    def __init__(self, config: ClientConfig, topic: str, group: str) -> None:
        self.name, self.read, self.last_s = "opentalos.sdk", 0, 0.0
        settings = ConsumerSettings(check_workers_interval_s=1.0, renew_interval_s=1.0)
        self._consumer = TalosConsumer(config, topic, group, settings)
        self._consumer.start()
        self.worker = self._consumer.worker_id
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-reader", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            records = self._consumer.poll(POLL_S)
            if records:
                self.last_s = time.monotonic()
                self.read += len(records)
        self._consumer.close()

    def stop(self) -> None:
        """Commit and leave the group."""
        self._stop.set()
        self._thread.join(END_S)


class OfficialReader:
    """A program with the official SDK, which reports its progress on stdout."""

    def __init__(self, python: Path, program: Path, arguments: list[str]) -> None:
        self.name, self.read, self.last_s = "official SDK", 0, 0.0
        self._process = subprocess.Popen(
            [str(python), str(program), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._follow, name="demo-official", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                report = json.loads(line)
                self.read, self.last_s = int(report["read"]), float(report["last_s"])

    @property
    def alive(self) -> bool:
        """Whether the program is running."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Commit and leave the group."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(END_S)
