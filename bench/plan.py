"""How long and how often to measure, and where."""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``seconds`` of each load, repeated; ``work`` is an empty folder on the disk under test."""

    work: Path
    seconds: int = 8
    repeats: int = 3
    latency_repeats: int = 5  # a P99 of short runs scatters more than a rate
    cold_blocks: int = 512  # MiB read back from disk
    stall_seconds: int = 600  # the loop is watched for ten minutes
    recovery_share: int = 1  # 1: recover a million messages; 10: a tenth of it

    def folder(self, name: str) -> Path:
        """An empty data directory of that name; what lay there is removed."""
        path = self.work / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def faulty_launcher(
        self, *, sync_delay_s: float = 0.0, hang_file: Path | None = None, hang_s: float = 0.0
    ) -> list[str]:
        """Command line of a server whose disk misbehaves; see serve_faulty.py."""
        command = [sys.executable, "-m", "bench.serve_faulty"]
        command += ["--sync-delay-s", str(sync_delay_s)]
        if hang_file is not None:
            command += ["--hang-file", str(hang_file), "--hang-s", str(hang_s)]
        return command

    @contextlib.contextmanager
    def background_load(self, binary: Path, port: int, requests: Path) -> Iterator[None]:
        """A slow open loop beside what is measured; ended by pid."""
        seconds = str(self.seconds + 5)
        command = [str(binary), "127.0.0.1", str(port), "16", "200", seconds, str(requests)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.kill()
            process.wait(timeout=10)
