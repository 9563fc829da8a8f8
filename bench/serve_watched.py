"""``talos serve`` with a watchdog of its event loop; for benchmarks only.

usage: python -m bench.serve_watched --stalls FILE OPTIONS OF talos serve

A timer fires every millisecond and measures its delay. FILE gets one JSON object per second: the
loop's time and the longest stall of that second, in seconds; the collections of garbage so far, by
generation, their time and that of the longest.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any, TextIO

from bench.garbage import Collections
from opentalos.cli.main import main as talos
from opentalos.server import lifecycle

TICK_S = 0.001
REPORT_S = 1.0


class FineWatch:
    """Measures stalls every millisecond and writes the longest one of each second."""

    def __init__(self, sink: TextIO) -> None:
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._due_s = self._loop.time() + TICK_S
        self._report_s = self._loop.time() + REPORT_S
        self._longest_s = 0.0
        self._collections: Collections | None = None  # from the first report on
        self._loop.call_at(self._due_s, self._look)

    def _look(self) -> None:
        now_s = self._loop.time()
        self._longest_s = max(self._longest_s, now_s - self._due_s)
        if now_s >= self._report_s:
            done = self._collections = self._collections or Collections()
            line = {"at_s": now_s, "stall_s": self._longest_s, "collections": done.counts}
            line |= {"collecting_ms": done.total_ms, "longest_collection_ms": done.longest_ms}
            self._sink.write(json.dumps(line) + "\n")
            self._longest_s, self._report_s = 0.0, now_s + REPORT_S
        self._due_s = now_s + TICK_S
        self._loop.call_at(self._due_s, self._look)


def main() -> None:
    """Start the watch with the server, then hand over to the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stalls", type=Path, required=True)
    own, rest = parser.parse_known_args()
    open_server = lifecycle.open_server
    with own.stalls.open("w", buffering=1) as sink:

        async def open_watched(*arguments: Any) -> lifecycle.Server:
            server = await open_server(*arguments)
            FineWatch(sink)
            return server

        vars(lifecycle)["open_server"] = open_watched
        sys.argv = ["talos", "serve", *rest]
        talos()


if __name__ == "__main__":
    main()
