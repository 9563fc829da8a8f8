"""Runs an attacking process beside what is measured."""

import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.client import Key
from bench.noisy.attacker import Ports

END_S = 40.0  # after the deadline, for threads that wait for a reply
ATTACKING_S = 0.7  # until the process has sent what it sends first
STARTED = "attacking"  # its first line


@dataclass
class Seen:
    """What the process saw by status, and the processor time it took; known at its end."""

    statuses: Counter[int] = field(default_factory=Counter)
    cpu_s: float = 0.0


@contextlib.contextmanager
def attacking(
    name: str, ports: Ports, key: Key, seconds: float, *, nicer: int = 0
) -> Iterator[Seen]:
    """A process beside what runs meanwhile; one that attacks no server is killed at the end.

    Args: nicer: steps of its priority below our own.
    Raises: RuntimeError: it failed.
    """
    command = ["nice", "-n", str(nicer), sys.executable, "-m", "bench.noisy"]
    process = subprocess.Popen(
        [*command, name, *map(str, ports), key.id, key.secret, str(seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen = Seen()
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != STARTED:
            raise RuntimeError(f"the attacker did not start: {process.communicate()[1][-2000:]}")
        yield seen
        if ports.http != ports.server:
            return  # it waits for answers that do not come
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
