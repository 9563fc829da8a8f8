"""Turns two snapshots of a server's counters into the measurements of an interval; pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import NamedTuple, Protocol

from opentalos.model.names import SYSTEM_TENANT
from opentalos.wire.metrics.latency import Latency
from opentalos.wire.metrics.measurement import NO_PARTITION, Measurement
from opentalos.wire.metrics.measures import OTHER, SERVER


class Traffic(Protocol):
    """Counters of a partition: ``log/counters.py``."""

    blocks_in: int
    messages_in: int
    payload_in: int
    gets: int
    messages_out: int
    bytes_out: int


class Lag(Protocol):
    """Lag of a partition's consumer groups: ``broker/groups/lags.py``."""

    @property
    def total(self) -> int: ...
    @property
    def largest(self) -> int: ...


class PartitionId(NamedTuple):
    """Identifies a partition; a recreated topic has another uuid."""

    topic_uuid: str
    partition: int


class Topic(Protocol):
    """Owner and name of a topic: ``catalog/topics/topic.py``."""

    @property
    def owner(self) -> str: ...
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A server at one moment: counters since its start, and gauges."""

    counters: Mapping[str, float]
    gauges: Mapping[str, float]
    latencies: Mapping[str, Latency]
    traffic: Mapping[str, Mapping[int, Traffic]]  # by topic uuid and partition
    topic_of: Callable[[str], Topic | None]  # by uuid
    lags: Mapping[tuple[str, int], Lag]  # by topic uuid and partition


_SUMS = ("put_blocks", "put_messages", "put_bytes", "get_requests", "get_messages", "get_bytes")
_Counts = tuple[int, ...]  # in that order
TRAFFIC_FIRST = 1  # from here on in the order that series have
_NOTHING: _Counts = (0,) * len(_SUMS)
_PUT_MESSAGES = _SUMS.index("put_messages")
_BYTES = (_SUMS.index("put_bytes"), _SUMS.index("get_bytes"))


class ServerRows:
    """The rows of one server. Args: rows_max: partitions with their own row per interval."""

    def __init__(self, cluster: str, server: str, rows_max: int) -> None:
        self._cluster, self._server, self._rows_max = cluster, server, rows_max
        self._counters: dict[str, float] = {}
        self._counts: dict[PartitionId, _Counts] = {}
        self._latencies: dict[str, Sequence[int]] = {}
        self.grown: Mapping[PartitionId, Sequence[int]] = {}  # of the last step; see TRAFFIC_FIRST

    def step(self, at_ms: int, step_ms: int, snapshot: Snapshot) -> list[Measurement]:
        """What happened since the last call, or since the start; the server's row is first."""
        grown = self.grown = self._grown(snapshot)
        topics = self._topics(grown, snapshot)
        own_rows, merged = self._chosen(grown, snapshot, topics)
        counters = self._counted(snapshot.counters)
        counters["put_messages"] = float(sum(counts[_PUT_MESSAGES] for counts in grown.values()))
        counters["rows_merged"] = float(len(merged))
        gauges = {
            **snapshot.gauges,
            "consumer_lag": float(sum(lag.total for lag in snapshot.lags.values())),
            "consumer_lag_max": float(
                max((lag.largest for lag in snapshot.lags.values()), default=0)
            ),
        }
        rows = [
            self._row(
                (at_ms, step_ms), sums=counters, gauges=gauges, sketches=self._sketches(snapshot)
            )
        ]
        for partition in own_rows:
            topic = topics[partition.topic_uuid]
            place = (topic.owner, topic.name, partition.partition)
            rows.append(
                self._row(
                    (at_ms, step_ms),
                    place,
                    sums=_sums(grown.get(partition, _NOTHING)),
                    gauges=_lags(snapshot.lags.get(partition)),
                )
            )
        if merged:
            total = _NOTHING
            for partition in merged:
                total = _added(total, grown.get(partition, _NOTHING))
            place = ("", OTHER, NO_PARTITION)
            rows.append(self._row((at_ms, step_ms), place, sums=_sums(total)))
        return rows

    def _grown(self, snapshot: Snapshot) -> dict[PartitionId, _Counts]:
        """Traffic of tenants' partitions since the last snapshot."""
        grown: dict[PartitionId, _Counts] = {}
        seen: dict[PartitionId, _Counts] = {}
        for partition, now in _counts(snapshot.traffic):
            before = self._counts.get(partition, _NOTHING)
            seen[partition] = now
            if now != before:
                # Counters that fell belong to a topic that was dropped from memory and reopened.
                grown[partition] = tuple(
                    new - old if new >= old else new for new, old in zip(now, before, strict=True)
                )
        self._counts = seen
        for partition in list(grown):
            topic = snapshot.topic_of(partition.topic_uuid)
            if topic is not None and topic.owner == SYSTEM_TENANT:
                del grown[partition]
        return grown

    def _topics(self, grown: Mapping[PartitionId, _Counts], snapshot: Snapshot) -> dict[str, Topic]:
        uuids = {partition.topic_uuid for partition in grown} | {
            topic_uuid for topic_uuid, _ in snapshot.lags
        }
        found = {uuid: snapshot.topic_of(uuid) for uuid in uuids}
        return {uuid: topic for uuid, topic in found.items() if topic is not None}

    def _chosen(
        self, grown: Mapping[PartitionId, _Counts], snapshot: Snapshot, topics: Mapping[str, Topic]
    ) -> tuple[list[PartitionId], list[PartitionId]]:
        """Partitions with their own row, and those that share one; the busiest first."""
        lagging = {PartitionId(*key) for key, lag in snapshot.lags.items() if lag.total}
        known = [
            partition for partition in grown.keys() | lagging if partition.topic_uuid in topics
        ]

        def busiest(partition: PartitionId) -> tuple[int, PartitionId]:
            counts = grown.get(partition, _NOTHING)
            return -sum(counts[index] for index in _BYTES), partition

        known.sort(key=busiest)
        return known[: self._rows_max], known[self._rows_max :]

    def _counted(self, now: Mapping[str, float]) -> dict[str, float]:
        before, self._counters = self._counters, dict(now)
        return {name: max(0.0, value - before.get(name, 0.0)) for name, value in now.items()}

    def _sketches(self, snapshot: Snapshot) -> dict[str, dict[int, int]]:
        sketches: dict[str, dict[int, int]] = {}
        for name, latency in snapshot.latencies.items():
            now = list(latency.counts)
            found = latency.sketch_since(self._latencies.get(name) or [0] * len(now))
            self._latencies[name] = now
            if found:
                sketches[name] = found
        return sketches

    def _row(
        self,
        when: tuple[int, int],
        place: tuple[str, str, int] = ("", "", NO_PARTITION),
        *,
        sums: Mapping[str, float],
        gauges: Mapping[str, float] | None = None,
        sketches: Mapping[str, Mapping[int, int]] | None = None,
    ) -> Measurement:
        tenant, topic, partition = place
        return Measurement(
            at_ms=when[0],
            step_ms=when[1],
            service=SERVER,
            cluster=self._cluster,
            machine=self._server,
            tenant=tenant,
            topic=topic,
            partition=partition,
            sums=sums,
            gauges=gauges or {},
            sketches=sketches or {},
        )


def _counts(traffic: Mapping[str, Mapping[int, Traffic]]) -> Iterator[tuple[PartitionId, _Counts]]:
    for topic_uuid, partitions in traffic.items():
        for number, counters in partitions.items():
            yield (
                PartitionId(topic_uuid, number),
                (
                    counters.blocks_in,
                    counters.messages_in,
                    counters.payload_in,
                    counters.gets,
                    counters.messages_out,
                    counters.bytes_out,
                ),
            )


def _sums(counts: _Counts) -> dict[str, float]:
    return dict(zip(_SUMS, map(float, counts), strict=True))


def _added(left: _Counts, right: _Counts) -> _Counts:
    return tuple(map(add, left, right))


def _lags(lag: Lag | None) -> dict[str, float]:
    if lag is None:
        return {}
    return {"consumer_lag": float(lag.total), "consumer_lag_max": float(lag.largest)}
