"""A program that takes as long as it needs, as long as it says what it does."""

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from tests.waiting import eventually


def run_talking(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str]) -> str:
    """What it writes; it must end with status 0. Raises: WaitEnded: it neither writes nor ends."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=stdout, stderr=stderr
        )

        def written() -> int:
            return sum(os.fstat(file.fileno()).st_size for file in (stdout, stderr))

        def said() -> str:
            return content(stdout) + content(stderr)

        def said_more_or_ended(before: int) -> bool:
            return process.poll() is not None or written() > before

        try:
            while process.poll() is None:
                goes_on = partial(said_more_or_ended, written())
                eventually(f"{command[0]} writes something or ends", goes_on, state=said)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, said()
        return content(stdout)


def content(file: IO[bytes]) -> str:
    """All of it. The program shares our position in the file, which stays at the end."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")
