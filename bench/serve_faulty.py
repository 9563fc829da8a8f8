"""``talos serve`` with injected disk faults; for benchmarks only.

usage: python -m bench.serve_faulty [--sync-delay-s S] [--hang-file FILE [--hang-s H]]
    OPTIONS OF talos serve

Each sync takes S additional seconds. While FILE exists, commits of paths that start with its
content (a topic's uuid) hang: each for H seconds, or with H 0 until the server ends.
"""

import argparse
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from opentalos.adapters.local import LocalFaults, open_local_file_store
from opentalos.cli.main import main as talos
from opentalos.server import stores

POLL_S = 0.05


class TimedFaults(LocalFaults):
    """Commits of paths that start with ``timed_prefix`` take ``hang_s`` longer, each of them."""

    def __init__(self, *, sync_delay_s: float, hang_s: float) -> None:
        super().__init__(sync_delay_s=sync_delay_s)
        self.hang_s = hang_s
        self.timed_prefix = ""  # none

    def before_commit(
        self, path: str, fd: int, chunks: Sequence[bytes | memoryview], position: int
    ) -> None:
        """On the I/O thread."""
        prefix = self.timed_prefix
        if prefix and path.startswith(prefix):
            time.sleep(self.hang_s)
        super().before_commit(path, fd, chunks, position)


def _hang_on_request(file: Path, faults: TimedFaults) -> None:
    while True:
        time.sleep(POLL_S)
        try:
            prefix = file.read_text().strip()
        except FileNotFoundError:
            prefix = ""
        if faults.hang_s:
            faults.timed_prefix = prefix
        elif prefix:
            faults.hang_prefix = prefix


def main() -> None:
    """Wire the faults into the server's file store, then hand over to the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sync-delay-s", type=float, default=0.0)
    parser.add_argument("--hang-file", type=Path)
    parser.add_argument("--hang-s", type=float, default=0.0)
    own, rest = parser.parse_known_args()
    faults = TimedFaults(sync_delay_s=own.sync_delay_s, hang_s=own.hang_s)
    faulty: Callable[..., Awaitable[object]] = partial(open_local_file_store, faults=faults)
    vars(stores)["open_local_file_store"] = faulty
    if own.hang_file is not None:
        arguments = (own.hang_file, faults)
        threading.Thread(target=_hang_on_request, args=arguments, daemon=True).start()
    sys.argv = ["talos", "serve", *rest]
    talos()


if __name__ == "__main__":
    main()
