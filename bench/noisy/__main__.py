"""One attacking process: ``python -m bench.noisy NAME HTTP KAFKA SERVER KEY_ID SECRET SECONDS``.

HTTP and KAFKA are the ports that it attacks, SERVER that of the server for HTTP.
"""

import json
import os
import sys
import time

from bench.client import Key
from bench.noisy.attacker import Ports
from bench.noisy.attacking import STARTED
from bench.noisy.behaviours import attack


def main() -> None:
    """Say that it starts, behave as named, then print the processor time and the count of each
    status as JSON."""
    name, *ports, key_id, secret, seconds = sys.argv[1:]
    http, kafka, server = map(int, ports)
    print(STARTED, flush=True)
    began_s = time.process_time()
    seen = dict(attack(name, Ports(http, kafka, server), Key(key_id, secret), float(seconds)))
    print(json.dumps({"seen": seen, "cpu_s": time.process_time() - began_s}), flush=True)
    os._exit(0)  # threads may still wait for replies


if __name__ == "__main__":
    main()
