"""Rollup: what this server measured in the last hour, day and week, in memory.

``server/measuring`` adds a sample at the end of each interval, from counters that exist anyway, so
the data path does nothing for it. Loss at a restart is accepted: see
``docs/adr/0066-series-in-memory.md``.
"""

import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Final, NamedTuple, TypeVar

from opentalos.broker.figures.metrics import METRICS, PERCENTS, By, Kind
from opentalos.broker.figures.ring import LEVELS, Pool, Ring, Write
from opentalos.group.directory import GroupOnTopic
from opentalos.wire.metrics.latency import Latency
from opentalos.wire.metrics.sketch import percentile

TRAFFIC: Final = ("messages_in", "bytes_in", "fetches", "messages_out", "bytes_out")
PARTITION_LEVELS: Final = LEVELS[:2]  # partitions are many, and a week of one is rarely asked
_SERVICE_SHARE, _TOPICS_SHARE = 8, 2  # the memory is divided by these; partitions get the rest
# Between turns of other work of the loop; each takes about half a millisecond.
_RINGS_A_PIECE: Final = 16  # that are read
_PLACES_A_PIECE: Final = 20  # whose traffic is written
_LAGS_A_PIECE: Final = 100
# Topics, and partitions, that may get a series with one sample, the busiest; it takes 5 ms.
_NEW_MAX: Final = 300


class Key(NamedTuple):
    """A series. ``label``: the kind of an error, or a group as TENANT/NAME."""

    metric: str
    topic: str = ""  # uuid
    partition: int = -1
    label: str = ""


Place = tuple[str, int]  # uuid of the topic, partition
Lags = Mapping[tuple[GroupOnTopic, int], float]  # messages, by group and partition; NaN: unknown
Label = tuple[str, int, str]  # topic, partition and label, as far as a question is split by them
Values = list[float | None]
Pause = Callable[[], Awaitable[None]]
KeyT = TypeVar("KeyT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What happened within one interval, and the state at its end.

    ``traffic``: growth by partition, in the order of ``TRAFFIC``. ``errors``: growth by kind.
    ``latencies``: ever, by the call's name. ``lags``: messages by group and partition.
    """

    traffic: Mapping[Place, Sequence[int]]
    errors: Mapping[str, int]
    latencies: Mapping[str, Latency]
    lags: Lags


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which series, split by what, and when: ``count`` intervals of ``step`` of the level's.

    ``topics``: their uuids; None: all. Of those in ``shared`` only the groups of ``tenant`` count.
    """

    metric: str
    by: By
    level: int
    first: int
    count: int
    step: int
    topics: frozenset[str] | None = None
    shared: frozenset[str] = frozenset()
    tenant: str = ""
    group: str = ""  # TENANT/NAME; empty: every one

    def wants(self, key: Key) -> bool:
        """Whether a series counts."""
        if key.metric != self.metric or (self.topics is not None and key.topic not in self.topics):
            return False
        if self.group and key.label != self.group:
            return False
        if self.metric == "errors" and bool(key.label) != (self.by is By.ERROR):
            return False  # the total is a series, too
        apart = self.metric == "lag" and key.topic in self.shared
        return not apart or key.label.startswith(f"{self.tenant}/")

    def label(self, key: Key) -> Label:
        """Which line of the answer a series belongs to."""
        match self.by:
            case By.TOPIC:
                return (key.topic, -1, "")
            case By.PARTITION:
                return ("", key.partition, "")
            case By.GROUP:
                return (key.topic, -1, key.label)
            case By.ERROR:
                return ("", -1, key.label)
        return ("", -1, "")


class Series(NamedTuple):
    """Values by label; those of all other labels together; what is left out, in words."""

    values: Mapping[Label, Values]
    rest: Values | None
    notes: Sequence[str]


class Rollup:
    """Args: step_ms: between samples; bytes_max: of all series together."""

    def __init__(self, step_ms: int, bytes_max: int) -> None:
        self.step_ms, self.bytes_max = step_ms, bytes_max
        service = bytes_max // _SERVICE_SHARE
        topics = bytes_max // _TOPICS_SHARE
        self._service: Pool[Key] = Pool(service, LEVELS)
        self._topics: Pool[Key] = Pool(topics, LEVELS)
        self._partitions: Pool[Key] = Pool(bytes_max - service - topics, PARTITION_LEVELS)
        self._sampled: Ring | None = None  # 1 in each interval with a sample
        self._percentiles = {name: _Percentiles() for name in ("put", "fetch")}
        self.since_ms, self.until_ms = 0, 0  # of the samples; 0: none yet

    @property
    def bytes(self) -> int:
        """Memory in use."""
        return sum(pool.bytes for pool in (self._service, self._topics, self._partitions))

    async def add(self, at_ms: int, sample: Sample, pause: Pause) -> None:
        """Add the sample of the interval that ended at ``at_ms``.

        ``pause`` gives other work of the loop a turn; a busy server has thousands of series.
        """
        slots = self.slots(at_ms - self.step_ms)
        for pool in (self._service, self._topics, self._partitions):
            pool.begin(slots)
        await self._add_traffic(slots, sample, pause)
        await self._add_lags(slots, sample, pause)
        self._add_service(slots, sample)
        if self._sampled is None:
            self._sampled, self.since_ms = Ring(slots[0]), at_ms - self.step_ms
        self._sampled.write(slots, [1.0] * len(slots), Write.SET)
        oldest = [slot - level.points for slot, level in zip(slots, LEVELS, strict=True)]
        self._sampled.expire(oldest)
        self.until_ms = at_ms  # now the interval is whole, and read

    def _add_service(self, slots: Sequence[int], sample: Sample) -> None:
        for kind, count in sample.errors.items():
            self._write(self._service, Key("errors", label=kind), slots, count)
        self._write(self._service, Key("errors"), slots, sum(sample.errors.values()))
        for call, latency in sample.latencies.items():
            known = self._percentiles.setdefault(call, _Percentiles())
            for name, values in known.step(slots, latency).items():
                key = Key(f"{call}_{name}")
                if any(values) or key in self._service.rings:
                    self._service.write(key, slots, values, Write.SET)

    def slots(self, time_ms: int) -> Sequence[int]:
        """The interval of a time at each level."""
        return [time_ms // (self.step_ms * level.samples) for level in LEVELS]

    async def _add_traffic(self, slots: Sequence[int], sample: Sample, pause: Pause) -> None:
        totals = [0] * len(TRAFFIC)
        topics: dict[Place, list[int]] = {}
        for (uuid, _), counts in sample.traffic.items():
            of_topic = topics.setdefault((uuid, -1), [0] * len(TRAFFIC))
            for index, count in enumerate(counts):
                totals[index] += count
                of_topic[index] += count
        for pool, found in ((self._partitions, sample.traffic), (self._topics, topics)):
            chosen = _chosen(pool, {place: _busy(found[place]) for place in found})
            for number, place in enumerate(chosen):
                if number % _PLACES_A_PIECE == _PLACES_A_PIECE - 1:
                    await pause()
                for name, count in zip(TRAFFIC, found[place], strict=True):
                    self._write(pool, Key(name, *place), slots, count)
        for name, count in zip(TRAFFIC, totals, strict=True):
            self._write(self._service, Key(name), slots, count)

    async def _add_lags(self, slots: Sequence[int], sample: Sample, pause: Pause) -> None:
        groups: dict[Key, float] = {}
        partitions: dict[Key, float] = {}
        for (group, number), lag in sample.lags.items():
            of_group = Key("lag", group.topic_uuid, -1, group.group)
            groups[of_group] = groups.get(of_group, 0) + lag
            if lag:
                partitions[of_group._replace(partition=number)] = lag
        for pool, found in ((self._partitions, partitions), (self._topics, groups)):
            known = [key for key in found if key in pool.rings]
            chosen = [*_new(pool, found, known), *sorted(known, key=found.__getitem__)]
            for number, key in enumerate(chosen):
                if number % _LAGS_A_PIECE == _LAGS_A_PIECE - 1:
                    await pause()
                self._write(pool, key, slots, found[key], Write.LARGEST)

    def _write(
        self, pool: Pool[Key], key: Key, slots: Sequence[int], amount: float, how: Write = Write.ADD
    ) -> None:
        if amount:
            pool.write(key, slots, [amount] * len(slots), how)

    # --- answers --------------------------------------------------------------------------------

    def totals(self, question: Question) -> Mapping[Label, float]:
        """By label: the sum within the time range, of a gauge or percentile the largest value."""
        pool, found = self._pool(question), dict[Label, float]()
        adds = METRICS[question.metric].kind is Kind.SUM
        for key, ring in pool.rings.items():
            if question.wants(key):
                values = ring.read(question.level, question.first, question.count * question.step)
                known = [value for value in values if not math.isnan(value)]
                amount = sum(known) if adds else max(known, default=0.0)
                label = question.label(key)
                found[label] = found.get(label, 0.0) + amount
        return found

    async def read(
        self,
        question: Question,
        labels: frozenset[Label] | None,
        pause: Pause,
    ) -> Series:
        """The series of these labels, and all others as the rest; None: of every label.

        ``pause`` gives other work of the loop a turn.
        """
        pool, kind = self._pool(question), METRICS[question.metric].kind
        known = self._known(question)
        found: dict[Label, Values] = {}
        rest: Values | None = None
        wanted = [(key, ring) for key, ring in pool.rings.items() if question.wants(key)]
        for number, (key, ring) in enumerate(wanted):
            if number % _RINGS_A_PIECE == _RINGS_A_PIECE - 1:
                await pause()
            values = self._values(question, ring, known, pool.lost, kind)
            label = question.label(key)
            if labels is None or label in labels:
                found[label] = merged(found.get(label), values, add=True)
            else:
                rest = merged(rest, values, add=True)
        if question.by is By.TOPIC and question.topics is None and kind is Kind.SUM:
            rest = self._beyond(question, known, found)
        for label in labels or ():
            if label not in found:  # nothing was written, which is 0 unless it was dropped
                found[label] = [0.0 if at and not pool.lost else None for at in known]
        shown = {label: _shown(values) for label, values in found.items()}
        return Series(shown, None if rest is None else _shown(rest), self._notes(pool))

    def _pool(self, question: Question) -> Pool[Key]:
        if question.by is By.PARTITION:
            return self._partitions
        lag, every = question.metric == "lag", question.topics is None
        if METRICS[question.metric].service or (every and not lag and question.by is By.TOTAL):
            return self._service
        return self._topics

    def _beyond(
        self, question: Question, known: Sequence[bool], found: Mapping[Label, Values]
    ) -> Values:
        """What all topics have beyond those found, also those that have no series."""
        ring = self._service.rings.get(Key(question.metric))
        if ring is None:
            return [0.0 if at else None for at in known]
        values = self._values(question, ring, known, self._service.lost, Kind.SUM)
        for index, total in enumerate(values):
            shown = sum(series[index] or 0.0 for series in found.values())
            values[index] = None if total is None else max(0.0, total - shown)
        return values

    def _known(self, question: Question) -> Sequence[bool]:
        """Which steps have a sample."""
        if self._sampled is None:
            return [False] * question.count
        samples = self._sampled.read(question.level, question.first, question.count * question.step)
        return [any(part) for part in _steps(samples, question.step)]

    def _values(
        self,
        question: Question,
        ring: Ring,
        known: Sequence[bool],
        lost: bool,
        kind: Kind,
    ) -> Values:
        amounts = ring.read(question.level, question.first, question.count * question.step)
        join = sum if kind is Kind.SUM else max
        # What a dropped series had before it returned is not known.
        since = ring.since // LEVELS[question.level].samples if lost else -math.inf
        values: Values = []
        slot = question.first
        for at, part in zip(known, _steps(amounts, question.step), strict=True):
            value = join(part) if at and slot + question.step > since else None
            if kind is Kind.GAUGE and any(map(math.isnan, part)):
                value = math.nan  # nobody knows it, nor a sum with it
            values.append(None if value == 0.0 and kind is Kind.PERCENTILE else value)
            slot += question.step
        return values

    def _notes(self, pool: Pool[Key]) -> Sequence[str]:
        if not pool.lost:
            return ()
        return [
            f"memory for series is full: {pool.dropped:,} series were dropped since the start, "
            f"{pool.left_out:,} of the last sample have no series; more are kept with a larger "
            "[measuring] series_bytes_max"
        ]


class _Percentiles:
    """Percentiles of a call's latency within the current interval of each level, in ms."""

    def __init__(self) -> None:
        self._slots: list[int] = [-1] * len(LEVELS)
        self._before: Sequence[int] = ()  # counts at the last sample
        self._starts: list[Sequence[int]] = [()] * len(LEVELS)

    def step(self, slots: Sequence[int], latency: Latency) -> Mapping[str, Sequence[float]]:
        """By percentile a value for each level; 0: no calls."""
        counts = list(latency.counts)
        before = self._before or [0] * len(counts)
        found: dict[str, list[float]] = {name: [] for name in PERCENTS}
        for level, slot in enumerate(slots):
            if slot != self._slots[level]:
                self._slots[level], self._starts[level] = slot, before
            sketch = latency.sketch_since(self._starts[level])
            for name, percent in PERCENTS.items():
                found[name].append(percentile(sketch, percent) or 0.0)
        self._before = counts
        return found


def merged(first: Values | None, second: Values, *, add: bool) -> Values:
    """Two series as one: added, or the larger of each pair; None: only the other knows."""
    if first is None:
        return second
    found: Values = []
    for left, right in zip(first, second, strict=True):
        if left is None or right is None:
            found.append(right if left is None else left)
        else:
            found.append(left + right if add else max(left, right))
    return found


def _shown(values: Values) -> Values:
    return [None if value is None or math.isnan(value) else value for value in values]


def _steps(amounts: Sequence[float], step: int) -> Sequence[Sequence[float]]:
    return [amounts[start : start + step] for start in range(0, len(amounts), step)]


def _chosen(pool: Pool[Key], amounts: Mapping[Place, int]) -> Sequence[Place]:
    """Places with series and the busiest others, least busy first: those make room for others."""
    having = {(key.topic, key.partition) for key in pool.rings}
    known = [place for place in amounts if place in having]
    return [*_new(pool, amounts, known), *sorted(known, key=amounts.__getitem__)]


def _new(pool: Pool[Key], amounts: Mapping[KeyT, float], known: Collection[KeyT]) -> Sequence[KeyT]:
    """Those that may get a series now, the busiest first."""
    if len(known) == len(amounts):
        return ()
    seen = set(known)
    others = [place for place in amounts if place not in seen]
    found = nlargest(_NEW_MAX, others, key=amounts.__getitem__)
    pool.leave_out(len(others) - len(found))
    return found


def _busy(counts: Sequence[int]) -> int:
    """By bytes in and out."""
    return counts[1] + counts[4]
