"""Measuring: writes what this server did in each interval to the topic ``__metrics``, and keeps it
in memory for series.

Intervals end at multiples of their length by the wall clock. The last interval of a process is
stored on disk as a full one and published by the next start; its end is stored too, so that a
quick restart does not write the same interval twice.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from opentalos.adapters.io_threads import IoThreads
from opentalos.adapters.machine import DiskSpace, ProcessMeter, ProcessUse, space_of
from opentalos.adapters.spool import Outbox, Spool, read_last_step, write_last_step
from opentalos.broker.broker import Broker
from opentalos.broker.figures.current import LogFigures, topic_by_uuid
from opentalos.gateway.http.server import HttpServer
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.gateway.metrics.sources import QUOTA_ERRORS
from opentalos.gateway.rest.gateway import RestGateway
from opentalos.gateway.sds_http.gateway import SdsGateway
from opentalos.gateway.thrift_http.gateway import ThriftGateway
from opentalos.model.errors import TalosError
from opentalos.model.limits import MeasuringSettings
from opentalos.model.names import METRICS_TOPIC, SYSTEM_TENANT
from opentalos.server.measuring.intervals import Intervals
from opentalos.server.measuring.loop_watch import LoopWatch
from opentalos.server.measuring.rows import ServerRows, Snapshot
from opentalos.server.measuring.series import SeriesSampling, open_archive
from opentalos.wire.metrics.measurement import encode_measurement

FOLDER: Final = "measuring"  # in the data directory
STOP_S: Final = 0.5  # to measure the last interval at shutdown
_SYSTEM_S: Final = 1.0  # for figures of the system; if a disk hangs, the former ones are used
_ROWS_AT_ONCE: Final = 50  # encoded before other tasks get a turn
_MS_PER_S: Final = 1_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The parts of the server that are measured."""

    broker: Broker
    thrift: ThriftGateway
    sds: SdsGateway
    rest: RestGateway
    http: HttpServer
    kafka: KafkaPort
    watch: LoopWatch


class Measuring:
    """Runs from ``start`` to ``stop``; failures here never affect the server.

    Args: data: the server's data directory; cluster: the cluster's id, empty for a single server.
    """

    def __init__(
        self, settings: MeasuringSettings, measured: Measured, data: Path, cluster: str
    ) -> None:
        self._settings, self._measured, self._data = settings, measured, data
        server = measured.broker.context.config.server
        self._key = f"{cluster}/{server}"
        self._rows = ServerRows(cluster, server, settings.rows_max)
        self._series = SeriesSampling(measured.broker.observing.series.rollup)
        measured.broker.observing.series.archive = open_archive(settings.olap)
        self._publishes = settings.enabled
        self._intervals = Intervals(int(settings.step_s * _MS_PER_S))
        self._outbox = Outbox(Spool(data / FOLDER, settings.spool_bytes_max), self._put)
        self._threads = IoThreads("measuring", threads=1, threads_max=1)
        self._process = ProcessMeter()
        self._use = ProcessUse(0.0, 0)
        self._space = DiskSpace(0, 0)
        self._started_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the first interval; publish what an earlier process left on disk."""
        if not (self._publishes or self._series.enabled):
            return
        self._started_s = asyncio.get_running_loop().time()
        if self._publishes:
            try:
                await self._outbox.start()
                last_ms = await self._threads.run(read_last_step, self._data / FOLDER)
                self._intervals.resume(last_ms, _now_ms())
            except TalosError as error:
                _log.warning("nothing is written to __metrics until the next start: %s", error)
                self._publishes = False
        # In a cluster the first put creates it.
        if self._publishes and self._measured.broker.membership is None:
            await self._create_topic()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Store the last interval on disk for the next start: a put could open a partition while
        this server closes its own. Takes little more than twice ``STOP_S``."""
        if self._task is None:
            return
        last: Sequence[bytes] = ()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if not self._publishes:
            await self._threads.close(deadline_s=0.1)
            return
        try:
            async with asyncio.timeout(STOP_S):
                last = await self._measure(*self._intervals.cut(_now_ms()))
                await self._threads.run(
                    write_last_step, self._data / FOLDER, self._intervals.last_ms
                )
        except (TimeoutError, TalosError, OSError) as error:
            _log.warning("could not measure the last interval: %s", str(error) or "timeout")
        await self._outbox.close(STOP_S / 2, last)
        await self._threads.close(deadline_s=0.1)

    async def _create_topic(self) -> None:
        try:
            async with asyncio.timeout(_SYSTEM_S):
                await self._measured.broker.system_topics.ensure(METRICS_TOPIC)
        except (TimeoutError, TalosError) as error:
            reason = str(error) or "timeout"
            _log.warning("could not create topic %s yet: %s; retrying", METRICS_TOPIC, reason)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._intervals.wait_s(_now_ms()))
            ended = self._intervals.end(_now_ms())
            if ended is None:
                continue
            try:
                events = await self._measure(*ended)
                if self._publishes:
                    self._outbox.offer(events)
            except Exception:  # the task's root: the next interval must be measured
                _log.exception("could not measure an interval")

    async def _measure(self, at_ms: int, step_ms: int) -> Sequence[bytes]:
        """The events of an interval."""
        await self._read_system()
        broker = self._measured.broker
        lags = await broker.group_lags.read()
        broker.hot_partitions.check(at_ms)
        context, thrift = broker.context, self._measured.thrift
        log = context.log.figures
        snapshot = Snapshot(
            counters=self._counters(),
            gauges=self._gauges(log),
            latencies={"put_ms": thrift.put_s, "get_ms": thrift.get_s},
            traffic=log.traffic,
            topic_of=partial(topic_by_uuid, context.topics),
            lags=lags,
        )
        events: list[bytes] = []
        rows = self._rows.step(at_ms, step_ms, snapshot)
        await self._add_to_series(at_ms)
        if not self._publishes:
            return events
        for row in rows:
            if len(events) % _ROWS_AT_ONCE == _ROWS_AT_ONCE - 1:
                await asyncio.sleep(0)
            events.append(encode_measurement(row))
        return events

    async def _add_to_series(self, at_ms: int) -> None:
        measured = self._measured
        failures = measured.http.traffic.failures + measured.kafka.failures_by_error
        latencies = {
            "put": measured.thrift.put_s,
            "fetch": measured.thrift.get_s,
            "table_read": measured.sds.read_s,
            "table_write": measured.sds.write_s,
            "rest_read": measured.rest.read_s,
            "rest_write": measured.rest.write_s,
        }
        lags = measured.broker.group_lags.by_partition
        await self._series.add(at_ms, self._rows.grown, failures, latencies, lags)

    async def _put(self, events: Sequence[bytes]) -> None:
        await self._measured.broker.system_topics.put(METRICS_TOPIC, events, key=self._key)

    async def _read_system(self) -> None:
        try:
            async with asyncio.timeout(_SYSTEM_S):
                self._use = await self._threads.run(self._process.look)
                self._space = await self._threads.run(space_of, self._data)
        except (TimeoutError, OSError) as error:
            _log.debug("could not read figures of the system: %s", str(error) or "timeout")

    def _counters(self) -> dict[str, float]:
        thrift, http, watch = self._measured.thrift, self._measured.http, self._measured.watch
        broker, failures = self._measured.broker, http.traffic.failures
        messages, log = broker.messages.counters, broker.context.log.counters
        found = {
            "requests": thrift.puts + thrift.gets + thrift.calls,
            "errors": failures.total(),
            "put_requests": messages.puts,
            "put_bytes": messages.put_bytes,
            "get_requests": messages.gets,
            "get_messages": messages.get_messages,
            "get_bytes": messages.get_bytes,
            "quota_holds": messages.puts_throttled + messages.gets_throttled,
            "quota_rejections": sum(failures[error] for error in QUOTA_ERRORS),
            "denials": broker.context.authorizer.denials,
            "log_commits": log.commits,
            "log_commit_failures": log.commit_failures,
            "log_bytes": log.bytes,
            "log_stalls": log.stalls,
            "cache_hits": log.cache_hits,
            "cache_misses": log.cache_misses,
            "loop_blocked_ms": watch.blocked_s * _MS_PER_S,
            "cpu_ms": self._use.cpu_ms,
        }
        return {name: float(value) for name, value in found.items()}

    def _gauges(self, now: LogFigures) -> dict[str, float]:
        spool, topics = self._outbox.figures, self._measured.broker.context.topics
        groups = self._measured.broker.groups.directory.figures
        found = {
            "loop_blocked_max_ms": self._measured.watch.take_longest_s() * _MS_PER_S,
            "lane_depth": now.lane_depth,
            "lanes": now.lanes,
            "lanes_stalled": now.lanes_stalled,
            "pending_bytes": now.pending_bytes,
            "cache_bytes": now.cache_bytes,
            "connections": self._measured.http.connections,
            "partitions": now.partitions,
            "partitions_open": now.open_partitions,
            "topics": len(topics.all()) - len(topics.owned_by(SYSTEM_TENANT)),
            "groups": groups.groups,
            "group_workers": groups.workers,
            "memory_bytes": self._use.memory_bytes,
            "disk_free_bytes": self._space.free_bytes,
            "disk_total_bytes": self._space.total_bytes,
            "uptime_s": asyncio.get_running_loop().time() - self._started_s,
            "spool_bytes": spool.bytes_count,
            "spool_dropped": spool.dropped,
            "spool_corrupt": spool.corrupt,
        }
        return {name: float(value) for name, value in found.items()}


def _now_ms() -> int:
    return int(time.time() * _MS_PER_S)
