"""Memory usage of a TalosProducer whose server is down. Started by ``sdk_figures``.

Takes one JSON object as argument. Puts one message, prints a line, waits for a line (the server is
stopped meanwhile), then puts until the buffer has been full for a while; prints the cost.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.sdk_load import config
from bench.sdk_payloads import payloads_of
from opentalos.sdk import BufferFull, ProducerSettings, TalosProducer

FULL_S = 5.0  # how long the buffer stays full, with continuous retries
PAUSE_S = 0.001


def rss_bytes() -> int:
    """The current resident memory of this process."""
    text = Path("/proc/self/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) << 10


def main(arguments: dict[str, Any]) -> None:
    """Fill the buffer of a producer that gets no replies."""
    payloads = payloads_of(arguments["size"])
    settings = ProducerSettings(when_full="raise")
    producer = TalosProducer(config(arguments), arguments["topic"], settings)
    for payload in payloads[:1000]:
        producer.put(payload)
    producer.flush()
    print("ready", flush=True)
    sys.stdin.readline()
    before = rss_bytes()
    taken = refused = buffered = largest = 0
    until_s = None
    while until_s is None or time.monotonic() < until_s:
        try:
            # A separate object for each message, as in an application.
            producer.put(payloads[taken % 1000][:-8] + taken.to_bytes(8, "big"))
            taken += 1
        except BufferFull:
            refused += 1
            until_s = until_s or time.monotonic() + FULL_S
            buffered = max(buffered, producer.buffered_bytes)
            largest = max(largest, rss_bytes())
            time.sleep(PAUSE_S)
    report = {
        "taken": taken,
        "refused": refused,
        "buffered_bytes": buffered,
        "bound_bytes": settings.buffer_bytes_max,
        "grown_bytes": largest - before,
    }
    print(json.dumps(report), flush=True)
    producer.close(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
