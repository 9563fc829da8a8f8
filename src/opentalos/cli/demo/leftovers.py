"""Ends all processes of a cluster demo or a benchmark, however that one ends.

Backends are daemons and would outlive a demo that is killed. So the demo starts
``python -m opentalos.cli.demo.leftovers DIR`` beside it, which waits for the end of its stdin, a
pipe that the system closes with the demo. All that the demo starts has its directory in the
environment, and is found by that.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

MARK: Final = "TALOS_ENDS_WITH"
_ROUNDS_MAX: Final = 20  # a process that ends may have started another one meanwhile
_KILL_S: Final = 10.0


@contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """Processes that the block starts end with it, or with this process if that ends first."""
    command = [sys.executable, "-m", "opentalos.cli.demo.leftovers", str(folder)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        start_new_session=True,  # what ends the demo must not end the guard
    ):
        outer = os.environ.get(MARK)
        os.environ[MARK] = str(folder)
        try:
            yield
        finally:
            del os.environ[MARK]
            if outer is not None:
                os.environ[MARK] = outer
            end_all(folder)


def end_all(folder: Path) -> None:
    """Kill the processes that have the folder as their mark, then remove it."""
    for _ in range(_ROUNDS_MAX):
        found = [process for process in psutil.process_iter() if _marked(process, folder)]
        if not found:
            break
        for process in found:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, timeout=_KILL_S)
    shutil.rmtree(folder, ignore_errors=True)


def _marked(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.environ().get(MARK) == str(folder) and process.pid != os.getpid()
    except (psutil.Error, OSError):  # it ended, or belongs to another user
        return False


def main() -> None:
    """Wait for the end of stdin, then end what is left."""
    sys.stdin.read()
    end_all(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
