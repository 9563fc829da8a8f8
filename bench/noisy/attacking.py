"""Runs an attacking process beside what is measured."""

import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

from bench.client import Key

END_S = 40.0  # after the deadline, for threads that wait for a reply
ATTACKING_S = 0.7  # until the process sends


@contextlib.contextmanager
def attacking(name: str, port: int, key: Key, seconds: float) -> Iterator[Counter[int]]:
    """What the process saw is in the counter at the end. Raises: RuntimeError: it failed."""
    command = [sys.executable, "-m", "bench.noisy", name, str(port), key.id, key.secret]
    process = subprocess.Popen(
        [*command, str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    seen: Counter[int] = Counter()
    try:
        yield seen
        output, errors = process.communicate(timeout=END_S + seconds)
        if process.returncode:
            raise RuntimeError(f"the attacker failed: {errors[-2000:]}")
        seen.update({int(status): count for status, count in json.loads(output).items()})
    finally:
        process.kill()
        process.communicate()  # closes its pipes
