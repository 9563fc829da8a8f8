"""End-to-end latency of measurements through ``monitoring`` into the OLAP store.

Measurements of their own machines go to ``__metrics``, each timed from its put; a query polls the
list of machines. A trigger of five seconds alone accounts for up to five seconds of latency.
"""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.put_figures import UNLIMITED
from bench.report import Figure, at_most
from bench.server import KEY_ID, SECRET, ServerProcess
from opentalos.model.names import METRICS_TOPIC
from opentalos.pipelines.monitoring.pipeline import MONITORING
from opentalos.pipelines.olap.opening import open_olap
from opentalos.pipelines.olap.store import Group, Measure, OlapStore, Selection
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.session import open_session
from opentalos.sdk import ClientConfig, SimpleProducer
from opentalos.wire.metrics.measurement import Measurement, encode_measurement

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

TRIGGER_S: Final = 5.0
GOAL_S: Final = 15.0
_COUNT: Final = Measure("rows", "count")
_TABLE: Final = "metrics_10s"
_SERVICE: Final = "bench"
_STEP_MS: Final = 10_000
_PAUSE_S: Final = 0.25  # between two puts, each followed by a question
_LAST_S: Final = 120.0  # for what is under way at the end
_HOUR_MS: Final = 3_600_000


def latency(work: Path, *, seconds: float) -> Iterator[Figure]:
    """P99 from put to query; missing measurements are an error."""
    home = work / "latency"
    with ServerProcess(work / "measured", settings=UNLIMITED) as server:
        spark = open_session("bench", master="local[2]")
        settings = PipelineSettings(
            url=server.url, key=f"{KEY_ID}:{SECRET}", home=home, trigger_s=TRIGGER_S
        )
        config = ClientConfig(endpoints=(server.url,), key_id=KEY_ID, secret=SECRET)
        try:
            with SimpleProducer(config, METRICS_TOPIC) as producer:
                _until_there(producer)
                query = MONITORING.start(spark, settings)
                found = _measure(producer, home, seconds)
                batches = _batches_s(query)
                query.stop()
        finally:
            spark.stop()
    ordered = sorted(found)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    notes = {
        "p50": statistics.median(ordered),
        "max": ordered[-1],
        "events": len(ordered),
        "batch_p50": statistics.median(batches),
        "batch_max": max(batches),
    }
    yield at_most("event to queryable, P99, trigger 5 s", "s", GOAL_S, [p99], **notes)


def _until_there(producer: SimpleProducer) -> None:
    """The server makes the topic with its first measurements."""
    deadline = time.monotonic() + _LAST_S
    while True:
        try:
            producer.put([_event("warm-up")])
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(1.0)
        else:
            return


def _measure(producer: SimpleProducer, home: Path, seconds: float) -> list[float]:
    store = open_olap(home)
    began, sent, seen = time.monotonic(), dict[str, float](), dict[str, float]()
    warm = False
    number = 0
    while not warm or time.monotonic() < began + seconds or len(seen) < len(sent):
        now = time.monotonic()
        if now > began + seconds + _LAST_S:
            raise RuntimeError(f"{len(sent) - len(seen)} of {len(sent)} events cannot be queried")
        if warm and now < began + seconds:
            number += 1
            name = f"machine-{number}"
            sent[name] = now
            producer.put([_event(name)])
        machines = _machines(store)
        if not warm and machines:  # the first batch of a session takes many times as long
            warm, began = True, time.monotonic()
        for name in machines & sent.keys() - seen.keys():
            seen[name] = time.monotonic() - sent[name]
        time.sleep(_PAUSE_S)
    return list(seen.values())


def _batches_s(query: "StreamingQuery") -> list[float]:
    """Duration of each batch with rows after the first one, which nobody waited for."""
    reports = [report for report in query.recentProgress if report["numInputRows"]]
    return [report["durationMs"]["triggerExecution"] / 1000 for report in reports[1:]]


def _machines(store: OlapStore) -> set[str]:
    now_ms = time.time_ns() // 1_000_000
    rows = Selection(table=_TABLE, start_ms=now_ms - _HOUR_MS, end_ms=now_ms + _HOUR_MS)
    if _TABLE not in {table.name for table in store.tables()}:
        return set()
    answer = store.query(Group(rows=rows, by=("service", "machine"), measures=(_COUNT,)))
    services, machines = answer.column("service"), answer.column("machine")
    pairs = zip(services.to_pylist(), machines.to_pylist(), strict=True)
    return {machine for service, machine in pairs if service == _SERVICE}


def _event(machine: str) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    return encode_measurement(
        Measurement(
            at_ms=now_ms - now_ms % _STEP_MS,
            step_ms=_STEP_MS,
            service=_SERVICE,
            machine=machine,
            gauges={"load_1": 1.0},
        )
    )
