"""From two looks at a server's counters to the rows of a step; pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    """Messages behind on a partition: ``broker/groups/lags.py``."""

    @property
    def total(self) -> int: ...
    @property
    def largest(self) -> int: ...


class PartitionId(NamedTuple):
    """Names a partition for ever."""

    topic_uuid: str
    partition: int


class Topic(Protocol):
    """Whose topic it is: ``catalog/topics/topic.py``."""

    @property
    def owner(self) -> str: ...
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A server at one moment: counters since its start, and what is there."""

    counters: Mapping[str, float]
    gauges: Mapping[str, float]
    latencies: Mapping[str, Latency]
    traffic: Mapping[str, Mapping[int, Traffic]]  # by topic uuid and partition
    topic_of: Callable[[str], Topic | None]  # by uuid
    lags: Mapping[tuple[str, int], Lag]  # by topic uuid and partition


_SUMS = ("put_blocks", "put_messages", "put_bytes", "get_requests", "get_messages", "get_bytes")
_Counts = tuple[int, ...]  # in that order
_NOTHING: _Counts = (0,) * len(_SUMS)
_PUT_MESSAGES = _SUMS.index("put_messages")
_BYTES = (_SUMS.index("put_bytes"), _SUMS.index("get_bytes"))


class ServerRows:
    """Rows of one server. Args: rows_max: partitions with a row of their own in a step."""

    def __init__(self, cluster: str, server: str, rows_max: int) -> None:
        self._cluster, self._server, self._rows_max = cluster, server, rows_max
        self._counters: dict[str, float] = {}
        self._counts: dict[PartitionId, _Counts] = {}
        self._latencies: dict[str, Sequence[int]] = {}

    def step(self, at_ms: int, step_ms: int, look: Look) -> list[Measurement]:
        """What happened since the last call, or since the start: the server's row goes first."""
        grown = self._grown(look)
        topics = self._topics(grown, look)
        lines, merged = self._chosen(grown, look, topics)
        counters = self._counted(look.counters)
        counters["put_messages"] = float(sum(one[_PUT_MESSAGES] for one in grown.values()))
        counters["rows_merged"] = float(len(merged))
        gauges = {
            **look.gauges,
            "consumer_lag": float(sum(one.total for one in look.lags.values())),
            "consumer_lag_max": float(max((one.largest for one in look.lags.values()), default=0)),
        }
        rows = [
            self._row((at_ms, step_ms), sums=counters, gauges=gauges, sketches=self._sketches(look))
        ]
        for one in lines:
            topic = topics[one.topic_uuid]
            place = (topic.owner, topic.name, one.partition)
            rows.append(
                self._row(
                    (at_ms, step_ms),
                    place,
                    sums=_sums(grown.get(one, _NOTHING)),
                    gauges=_lags(look.lags.get(one)),
                )
            )
        if merged:
            total = _NOTHING
            for one in merged:
                total = _added(total, grown.get(one, _NOTHING))
            place = ("", OTHER, NO_PARTITION)
            rows.append(self._row((at_ms, step_ms), place, sums=_sums(total)))
        return rows

    def _grown(self, look: Look) -> dict[PartitionId, _Counts]:
        """What partitions of tenants took in and gave back since the last look."""
        grown: dict[PartitionId, _Counts] = {}
        seen: dict[PartitionId, _Counts] = {}
        for one, now in _counts(look.traffic):
            before = self._counts.get(one, _NOTHING)
            seen[one] = now
            if now != before:
                # Counters that fell belong to a topic that was forgotten and found again.
                grown[one] = tuple(
                    new - old if new >= old else new for new, old in zip(now, before, strict=True)
                )
        self._counts = seen
        for one in list(grown):
            topic = look.topic_of(one.topic_uuid)
            if topic is not None and topic.owner == SYSTEM_TENANT:
                del grown[one]
        return grown

    def _topics(self, grown: Mapping[PartitionId, _Counts], look: Look) -> dict[str, Topic]:
        uuids = {one.topic_uuid for one in grown} | {topic_uuid for topic_uuid, _ in look.lags}
        found = {uuid: look.topic_of(uuid) for uuid in uuids}
        return {uuid: topic for uuid, topic in found.items() if topic is not None}

    def _chosen(
        self, grown: Mapping[PartitionId, _Counts], look: Look, topics: Mapping[str, Topic]
    ) -> tuple[list[PartitionId], list[PartitionId]]:
        """Partitions with a row of their own, and those that share one; the busiest first."""
        behind = {PartitionId(*one) for one, lag in look.lags.items() if lag.total}
        known = [one for one in grown.keys() | behind if one.topic_uuid in topics]

        def busiest(one: PartitionId) -> tuple[int, PartitionId]:
            counts = grown.get(one, _NOTHING)
            return -sum(counts[index] for index in _BYTES), one

        known.sort(key=busiest)
        return known[: self._rows_max], known[self._rows_max :]

    def _counted(self, now: Mapping[str, float]) -> dict[str, float]:
        before, self._counters = self._counters, dict(now)
        return {name: max(0.0, value - before.get(name, 0.0)) for name, value in now.items()}

    def _sketches(self, look: Look) -> dict[str, dict[int, int]]:
        sketches: dict[str, dict[int, int]] = {}
        for name, latency in look.latencies.items():
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
        for number, one in partitions.items():
            yield (
                PartitionId(topic_uuid, number),
                (
                    one.blocks_in,
                    one.messages_in,
                    one.payload_in,
                    one.gets,
                    one.messages_out,
                    one.bytes_out,
                ),
            )


def _sums(counts: _Counts) -> dict[str, float]:
    return dict(zip(_SUMS, map(float, counts), strict=True))


def _added(left: _Counts, right: _Counts) -> _Counts:
    return tuple(one + other for one, other in zip(left, right, strict=True))


def _lags(lag: Lag | None) -> dict[str, float]:
    if lag is None:
        return {}
    return {"consumer_lag": float(lag.total), "consumer_lag_max": float(lag.largest)}
