"""Histories of load programs, in the JSON lines that ``opentalos.testing`` reads."""

import json
import sys
import threading
import time
from typing import Any


class History:
    """Writes operations of one process; every line is flushed, so a killed process recorded all."""

    def __init__(self, path: str, process: str) -> None:
        self.file = open(path, "w", buffering=1)  # as long as the process lives
        self.process = process
        self.count = 0

    def invoke(self, action: str, **args: Any) -> int:
        """Before a call is sent; the number ends it later."""
        self.count += 1
        line = {"event": "invoke", "op": self.count, "process": self.process, "action": action}
        self._write({**line, "args": args})
        return self.count

    def ok(self, number: int, **result: Any) -> None:
        self._write({"event": "ok", "op": number, "result": result})

    def fail(self, number: int, error: str) -> None:
        self._write({"event": "fail", "op": number, "error": error})

    def unknown(self, number: int, error: str) -> None:
        self._write({"event": "unknown", "op": number, "error": error})

    def _write(self, line: dict[str, Any]) -> None:
        self.file.write(json.dumps({**line, "at_s": time.monotonic()}) + "\n")


def stop_at_end_of_input() -> threading.Event:
    """An event that is set when whoever started this process closes its stdin."""
    stop = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=wait, daemon=True).start()
    return stop
