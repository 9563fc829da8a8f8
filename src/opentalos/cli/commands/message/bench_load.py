"""The put and get load of `talos bench`, through the SDK."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from opentalos.cli.output.progress import Progress
from opentalos.sdk import Client, ProducerSettings, TalosProducer, aio
from opentalos.sdk.core.values import Compression, Record
from opentalos.sdk.errors import TalosError

_BATCH_BYTES: Final = 64 << 10  # per call of the producer
_BATCH_MESSAGES: Final = 200
_BUFFER_BYTES: Final = 8 << 20  # small, to keep the wait in this buffer short
_FETCH_BYTES: Final = 2 << 20
_FLUSH_S: Final = 30.0
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Load:
    """The load; a run ends at the time limit or at the amount, whichever is first."""

    topic: str
    message_bytes: int
    seconds: float
    bytes_max: int
    rate: float | None = None  # messages per second; None: unlimited
    compression: Compression = Compression.SNAPPY


@dataclass(slots=True)
class Figures:
    """The results of a run."""

    load: str
    messages: int
    failed: int
    data_bytes: int
    seconds: float
    cpu_s: float  # of this process
    latencies_s: Sequence[float]

    def row(self) -> dict[str, Any]:
        """The results as an output row."""
        ordered = sorted(self.latencies_s)
        return {
            "load": self.load,
            "messages": self.messages,
            "failed": self.failed,
            "seconds": round(self.seconds, 2),
            "messages_per_s": round(self.messages / self.seconds) if self.seconds else 0,
            "mib_per_s": round(self.data_bytes / _MIB / self.seconds, 1) if self.seconds else 0.0,
            "p50_ms": _percentile(ordered, 0.5),
            "p99_ms": _percentile(ordered, 0.99),
            "max_ms": _percentile(ordered, 1.0),
            "cpu_s": round(self.cpu_s, 2),
        }


def put_load(client: Client, load: Load, stopped: Callable[[], bool]) -> Figures:
    """Put until the time is over, then wait for every acknowledgement.

    Latency is sampled on one message of each batch, from its scheduled time to its acknowledgement.
    """
    settings = ProducerSettings(compression=load.compression, buffer_bytes_max=_BUFFER_BYTES)
    count = max(1, min(_BATCH_MESSAGES, _BATCH_BYTES // load.message_bytes))
    batch = [os.urandom(load.message_bytes) for _ in range(count)]
    latencies_s: list[float] = []
    failed: list[TalosError] = []

    def confirmed(due_s: float, *_: object) -> None:
        latencies_s.append(time.monotonic() - due_s)

    def refused(_message: object, error: TalosError, _outcome: object) -> None:
        failed.append(error)

    producer = TalosProducer(client, load.topic, settings)
    began_s, cpu_s, sent = time.monotonic(), time.process_time(), 0
    with Progress("messages put") as progress:
        try:
            while not (stopped() or failed) and sent * load.message_bytes < load.bytes_max:
                due_s = _due(began_s, sent, load.rate)
                if due_s > began_s + load.seconds:
                    break
                time.sleep(max(0.0, due_s - time.monotonic()))
                producer.put(batch[0], on_success=partial(confirmed, due_s), on_error=refused)
                producer.put_many(batch[1:], on_error=refused)
                sent += count
                progress.show(sent)
            producer.flush(_FLUSH_S)
        except TimeoutError:
            pass  # close() fails the remaining messages, which count as failed
        finally:
            producer.close(0.0)
    stored = sent - len(failed)
    if failed and not stored:
        raise failed[0]
    return Figures(
        "put", stored, len(failed), stored * load.message_bytes,
        time.monotonic() - began_s, time.process_time() - cpu_s, latencies_s,
    )  # fmt: skip


def get_load(client: Client, load: Load, stopped: Callable[[], bool]) -> Figures:
    """Read all partitions once, concurrently; latency is that of one fetch."""
    latencies_s: list[float] = []
    began_s, cpu_s, found = time.monotonic(), time.process_time(), 0

    def running() -> bool:
        return not stopped() and time.monotonic() < began_s + load.seconds

    with Progress("messages read") as progress:

        def read(count: int) -> None:
            nonlocal found
            found += count
            progress.show(found)

        client.run(lambda inner: _read_all(inner, load.topic, running, latencies_s, read))
    return Figures(
        "get", found, 0, found * load.message_bytes,
        time.monotonic() - began_s, time.process_time() - cpu_s, latencies_s,
    )  # fmt: skip


def _due(began_s: float, sent: int, rate: float | None) -> float:
    return time.monotonic() if rate is None else began_s + sent / rate


async def _read_all(
    client: aio.Client,
    topic: str,
    running: Callable[[], bool],
    latencies_s: list[float],
    count: Callable[[int], None],
) -> None:
    consumer = aio.SimpleConsumer(client, topic)

    async def read(partition: int, offset: int, end: int) -> None:
        while offset < end and running():
            asked_s = time.monotonic()
            records: list[Record] = await consumer.fetch(partition, offset, bytes_max=_FETCH_BYTES)
            latencies_s.append(time.monotonic() - asked_s)
            if records:
                offset = records[-1].offset + 1
                count(len(records))

    ranges = await consumer.offsets()
    await asyncio.gather(
        *(read(partition, range_.start, range_.next) for partition, range_ in ranges.items())
    )


def _percentile(ordered: Sequence[float], share: float) -> float | None:
    """A percentile of sorted values, in milliseconds."""
    if not ordered:
        return None
    return round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)
