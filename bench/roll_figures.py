"""What a put costs that meets a roll, or is the first of its partition, beside a plain one."""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from bench.client import BenchTopic, Client
from bench.plan import Plan
from bench.report import Figure, at_most
from bench.server import ServerProcess

MESSAGE_BYTES = 1024
SEGMENT_BYTES = 256 << 10  # about 220 puts
ROLLS = 30
PARTITIONS = 200
FIRST_PUT_GOAL_MS = 8.0
_MS_PER_S = 1e3
_PERCENT = 100


def rolls(plan: Plan) -> Iterator[Figure]:
    """One connection, one put after the other, so nothing waits in a queue."""
    data = plan.folder("rolls")
    plain_ms: list[float] = []
    roll_ms: list[float] = []
    first_ms: list[float] = []
    with ServerProcess(data, settings={"log": {"segment_bytes_max": SEGMENT_BYTES}}) as server:
        client = Client(server.port)
        topic = client.create_topic("rolls", 1)
        _put_ms(client, topic, 0)
        segments = _segments(data)
        wanted = max(ROLLS * plan.repeats // 3, 5)
        while len(roll_ms) < wanted:
            took_ms = _put_ms(client, topic, 0)
            now = _segments(data)
            (roll_ms if now > segments else plain_ms).append(took_ms)
            segments = now
        new = client.create_topic("first", PARTITIONS)
        first_ms += [_put_ms(client, new, number) for number in range(PARTITIONS)]
    plain = statistics.median(plain_ms)
    yield Figure(name="plain put", unit="ms", values=[plain], notes={"p99": _p99(plain_ms)})
    yield Figure(
        name="put that rolls",
        unit="ms",
        values=[statistics.median(roll_ms)],
        notes={"p99": _p99(roll_ms), "plain puts": statistics.median(roll_ms) / plain},
    )
    yield at_most(
        "first put of a partition",
        "ms",
        FIRST_PUT_GOAL_MS,
        [statistics.median(first_ms)],
        p99=_p99(first_ms),
    )


def _put_ms(client: Client, topic: BenchTopic, partition: int) -> float:
    body = topic.put_body(partition, MESSAGE_BYTES)
    began_s = time.perf_counter()
    client.raw_put(body)
    return (time.perf_counter() - began_s) * _MS_PER_S


def _segments(data: Path) -> int:
    """Segment files with messages; the one made ahead is empty."""
    return sum(1 for path in data.rglob("*-*.log") if path.stat().st_size)


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=_PERCENT, method="inclusive")[-1]
