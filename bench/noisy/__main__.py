"""One attacking process: ``python -m bench.noisy NAME PORT KEY_ID SECRET SECONDS``."""

import json
import os
import sys

from bench.client import Key
from bench.noisy.behaviours import attack


def main() -> None:
    """Behave as named, then print the count of each status as JSON."""
    name, port, key_id, secret, seconds = sys.argv[1:]
    seen = attack(name, int(port), Key(key_id, secret), float(seconds))
    print(json.dumps(seen), flush=True)
    os._exit(0)  # threads may still wait for replies


if __name__ == "__main__":
    main()
