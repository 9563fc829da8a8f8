"""One attacking process: ``python -m bench.noisy NAME PORT KEY_ID SECRET SECONDS``.

With the name ``bare`` it does not attack: PORT is the share of a processor to use, in percent.
"""

import json
import os
import sys
import time

from bench.client import Key
from bench.noisy.behaviours import attack

BARE = "bare"
PERIOD_S = 0.02


def main() -> None:
    """Behave as named, then print the processor time and the count of each status as JSON."""
    name, port, key_id, secret, seconds = sys.argv[1:]
    began_s = time.process_time()
    if name == BARE:
        burn(int(port) / 100, float(seconds))
        seen = {}
    else:
        seen = dict(attack(name, int(port), Key(key_id, secret), float(seconds)))
    print(json.dumps({"seen": seen, "cpu_s": time.process_time() - began_s}), flush=True)
    os._exit(0)  # threads may still wait for replies


def burn(share: float, seconds: float) -> None:
    """Use this share of a processor, and nothing else."""
    until_s = time.monotonic() + seconds
    while (begin_s := time.monotonic()) < until_s:
        while time.monotonic() < begin_s + share * PERIOD_S:
            pass
        time.sleep(max(0.0, (1 - share) * PERIOD_S))


if __name__ == "__main__":
    main()
