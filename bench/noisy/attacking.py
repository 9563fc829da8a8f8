"""Runs an attacking process beside what is measured."""

import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.client import Key

END_S = 40.0  # after the deadline, for threads that wait for a reply
ATTACKING_S = 0.7  # until the process sends


@dataclass
class Seen:
    """What the process saw by status, and the processor time it took; known at its end."""

    statuses: Counter[int] = field(default_factory=Counter)
    cpu_s: float = 0.0


@contextlib.contextmanager
def attacking(name: str, port: int, key: Key, seconds: float, *, nicer: int = 0) -> Iterator[Seen]:
    """A process beside what runs meanwhile. Args: nicer: steps of its priority below our own.

    Raises: RuntimeError: it failed.
    """
    command = ["nice", "-n", str(nicer), sys.executable, "-m", "bench.noisy"]
    process = subprocess.Popen(
        [*command, name, str(port), key.id, key.secret, str(seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen = Seen()
    try:
        yield seen
        output, errors = process.communicate(timeout=END_S + seconds)
        if process.returncode:
            raise RuntimeError(f"the attacker failed: {errors[-2000:]}")
        document = json.loads(output)
        seen.cpu_s = document["cpu_s"]
        counts = {int(status): count for status, count in document["seen"].items()}
        seen.statuses.update(counts)
    finally:
        process.kill()
        process.communicate()  # closes its pipes
