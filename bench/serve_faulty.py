"""``talos serve`` with injected disk faults; for benchmarks only.

usage: python -m bench.serve_faulty [--sync-delay-s S] [--hang-file FILE] OPTIONS OF talos serve

Each sync takes S additional seconds. Once FILE exists, commits of paths that start with its content
(a topic's uuid) hang.
"""

import argparse
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from opentalos.adapters.local import LocalFaults, open_local_file_store
from opentalos.cli.main import main as talos
from opentalos.server import stores

POLL_S = 0.05


def _hang_on_request(file: Path, faults: LocalFaults) -> None:
    while faults.hang_prefix is None:
        time.sleep(POLL_S)
        if file.exists() and (prefix := file.read_text().strip()):
            faults.hang_prefix = prefix


def main() -> None:
    """Wire the faults into the server's file store, then hand over to the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sync-delay-s", type=float, default=0.0)
    parser.add_argument("--hang-file", type=Path)
    own, rest = parser.parse_known_args()
    faults = LocalFaults(sync_delay_s=own.sync_delay_s)
    faulty: Callable[..., Awaitable[object]] = partial(open_local_file_store, faults=faults)
    vars(stores)["open_local_file_store"] = faulty
    if own.hang_file is not None:
        arguments = (own.hang_file, faults)
        threading.Thread(target=_hang_on_request, args=arguments, daemon=True).start()
    sys.argv = ["talos", "serve", *rest]
    talos()


if __name__ == "__main__":
    main()
