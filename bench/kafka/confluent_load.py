"""A process of confluent-kafka: a producer at a pace, or many with small batches.

usage: python -m bench.kafka.confluent_load JSON     prints one line of JSON
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import confluent_kafka

FLUSH_S: Final = 60.0
TURN_S: Final = 0.0005  # between two looks at what is due
WARM_SHARE: Final = 4  # of the time before the part that counts


class Delivered:
    """What became of messages."""

    def __init__(self) -> None:
        self.latencies_s: list[float] = []
        self.count = self.failed = 0

    def after(self, due_s: float, counts: bool) -> Callable[[Any, Any], None]:
        """A callback for the message that was due then."""

        def done(error: Any, _message: Any) -> None:
            if error is not None:
                self.failed += 1
            elif counts:
                self.latencies_s.append(time.perf_counter() - due_s)

        return done

    def counted(self, error: Any, _message: Any) -> None:
        """A callback that only counts."""
        if error is None:
            self.count += 1
        else:
            self.failed += 1


def paced(given: dict[str, Any]) -> dict[str, float]:
    """Latency from the time each message was due, also if the client was late itself."""
    producer = confluent_kafka.Producer(given["settings"] | given["producer"])
    payload, topic, rate = bytes(given["size"]), given["topic"], given["per_s"]
    seconds, partitions = given["seconds"], given["partitions"]
    warm, delivered = seconds / WARM_SHARE, Delivered()
    begin, number = time.perf_counter(), 0
    total = int((warm + seconds) * rate)
    while number < total:
        due = min(total, int((time.perf_counter() - begin) * rate) + 1)
        for each in range(number, due):
            due_s = begin + each / rate
            callback = delivered.after(due_s, each >= warm * rate)
            producer.produce(topic, payload, partition=each % partitions, on_delivery=callback)
        number = due
        producer.poll(0)
        time.sleep(TURN_S)
    producer.flush(FLUSH_S)
    found = sorted(delivered.latencies_s)
    return {
        "failed": delivered.failed + len(producer),
        **{f"p{part}": _at(found, part) for part in (50, 99, 99.9)},
    }


def _at(values: list[float], part: float) -> float:
    """A percentile in milliseconds."""
    return values[min(len(values) - 1, int(len(values) * part / 100))] * 1e3


def many(given: dict[str, Any]) -> dict[str, float]:
    """Producers that each have a few messages on their way; messages a second that were stored."""
    settings = given["settings"] | given["producer"]
    producers = [confluent_kafka.Producer(settings) for _ in range(given["producers"])]
    payload, topic = bytes(given["size"]), given["topic"]
    seconds, partitions, waiting = given["seconds"], given["partitions"], given["waiting"]
    delivered = Delivered()
    begin = time.perf_counter()
    warm_s, end_s = begin + seconds / WARM_SHARE, begin + seconds * (1 + 1 / WARM_SHARE)
    at_warm: int | None = None
    number, now_s = 0, begin
    while now_s < end_s:
        for producer in producers:
            for _ in range(waiting - len(producer)):
                number += 1
                producer.produce(
                    topic, payload, partition=number % partitions, on_delivery=delivered.counted
                )
            producer.poll(0)
        now_s = time.perf_counter()
        if at_warm is None and now_s >= warm_s:
            at_warm, warm_s = delivered.count, now_s
    rate = (delivered.count - (at_warm or 0)) / (now_s - warm_s)
    for producer in producers:
        producer.flush(FLUSH_S)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "per_s": rate,
        "stored": delivered.count,
        "failed": delivered.failed,
        "client_cpus": (used.ru_utime + used.ru_stime) / (time.perf_counter() - begin),
    }


PROGRAMS: Final = {"paced": paced, "many": many}

if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    print(json.dumps(PROGRAMS[request["program"]](request)))
