"""SeriesService: series of metrics for a caller, from the memory of all servers or from a store."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.figures import archived
from opentalos.broker.figures.metrics import METRICS, By, Kind, Metric
from opentalos.broker.figures.plan import Plan, Times, plan, span_ms
from opentalos.broker.figures.ring import LEVELS
from opentalos.broker.figures.rollup import (
    PARTITION_LEVELS,
    Label,
    Question,
    Rollup,
    Values,
    merged,
)
from opentalos.broker.figures.scope import Scope, ScopeReader, SeriesRequest
from opentalos.broker.peer_rpc.calls import SERIES
from opentalos.broker.peer_rpc.client import call_peer
from opentalos.broker.peer_rpc.messages import SeriesAnswer, SeriesQuestion
from opentalos.catalog.topics.topics import topic_by_uuid
from opentalos.model.errors import BadRequest, NotSupported, TalosError
from opentalos.model.identity import Principal
from opentalos.ports.series_archive import SeriesArchive

_log = logging.getLogger("opentalos.series")

SERVERS_AT_ONCE: Final = 16  # that are asked
GATHER_S: Final = 2.0  # for all of them together
VALUES_MAX: Final = 200_000  # of one answer
SERIES_MAX: Final = 500
_HOUR_MS: Final = 3_600_000
_NO_LABEL: Label = ("", -1, "")


class Partial(NamedTuple):
    """A server whose measurements are missing, or do not cover the whole time."""

    server: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesLine:
    """One series. ``labels`` is empty for a total; ``rest``: how many series it has together."""

    labels: Mapping[str, str]
    values: Values
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesFound:
    """The answer. ``source``: "memory" or "olap"."""

    metric: Metric
    plan: Plan
    lines: Sequence[SeriesLine]
    source: str
    notes: Sequence[str]
    partial: Sequence[Partial]


class SeriesService:
    """Tenants see topics that they may describe and groups that they may know of; what is about
    servers is for roles that may read metrics.

    Args: live: addresses of the servers of the cluster by name, this one included.
    """

    def __init__(
        self,
        context: BrokerContext,
        scopes: ScopeReader,
        live: Callable[[], Mapping[str, str]],
    ) -> None:
        self._context, self._scopes, self._live = context, scopes, live
        config = context.config
        self.step_ms = config.series_step_ms
        self.rollup: Rollup | None = None
        if config.series_bytes_max:
            self.rollup = Rollup(self.step_ms, config.series_bytes_max)
        self.archive: SeriesArchive | None = None

    async def read(self, caller: Principal, request: SeriesRequest) -> SeriesFound:
        """Series of a metric, largest first, and all others together.

        Raises: PermissionDenied; TopicNotExist, ConsumerGroupNotExist: also if it was not granted;
            BadRequest: the metric cannot be split so, the range is empty or has too many values.
        """
        metric = METRICS[request.metric]
        by = request.by or metric.by[0]
        if by not in metric.by:
            known = ", ".join(metric.by)
            raise BadRequest(f"{metric.name} cannot be split by {by}; it can by {known}")
        scope = await self._scopes.read(caller, request, metric, by)
        notes: list[str] = []
        if self.archive is not None and self._is_old(request.times):
            try:
                return await self._from_archive(request, metric, by, scope)
            except archived.NotArchived as error:
                notes.append(f"memory only: {error}")
            except TalosError as error:
                _log.warning("the OLAP store did not answer: %s", error)
                notes.append(f"memory only: the OLAP store did not answer: {error}")
        return await self._from_memory(request, metric, by, scope, notes)

    async def answer(self, asked: SeriesQuestion) -> SeriesAnswer:
        """The peer call "series". Raises: NotSupported: this server measures at other intervals."""
        question = asked.question()
        rollup = self.rollup
        if rollup is None:
            raise NotSupported("it keeps no series: [measuring] series_bytes_max is 0")
        if asked.sample_ms != rollup.step_ms:
            raise NotSupported(f"it measures every {rollup.step_ms / 1000:g} s")
        if asked.totals:
            return SeriesAnswer.of_totals(rollup.since_ms, rollup.totals(question))
        chosen = None if asked.labels is None else frozenset(asked.labels)
        found = await rollup.read(question, chosen, self._context.work.pause)
        return SeriesAnswer.of(rollup.since_ms, found)

    async def fetches(self, topic_uuid: str, seconds: float) -> Mapping[int, int] | None:
        """Reads by partition in about the last seconds; None: a server did not say, or has not
        measured for so long. Without authorization, for other use cases."""
        found = await self._recent("fetches", By.PARTITION, topic_uuid, "", seconds)
        if found is None:
            return None
        counts = {}
        for (_, partition, _), values in found.items():
            if None in values:
                return None
            counts[partition] = int(sum(value or 0.0 for value in values))
        return counts

    async def lag_per_s(self, topic_uuid: str, group: str, seconds: float) -> float | None:
        """How a group's lag changed in about the last seconds; None: it is not known."""
        found = await self._recent("lag", By.GROUP, topic_uuid, group, seconds)
        lags = found.get((topic_uuid, -1, group)) if found else None
        known = [(at, lag) for at, lag in enumerate(lags or ()) if lag is not None]
        if len(known) < 2:
            return None
        (first, before), (last, now) = known[0], known[-1]
        return (now - before) / ((last - first) * self.step_ms / 1_000)

    # --- inside ---------------------------------------------------------------------------------

    async def _recent(
        self, metric: str, by: By, topic_uuid: str, group: str, seconds: float
    ) -> Mapping[Label, Values] | None:
        """By sample, of all servers; None: one of them is missing, or has dropped series."""
        if self.rollup is None or not self.rollup.until_ms:
            return None
        count = max(2, int(seconds * 1_000) // self.step_ms)
        last = self.rollup.until_ms // self.step_ms
        question = Question(
            metric=metric, by=by, level=0, first=last - count, count=count, step=1,
            topics=frozenset([topic_uuid]), group=group,
        )  # fmt: skip
        times = Plan(0, (last - count) * self.step_ms, count, self.step_ms, 1)
        gathered = _Gathered(METRICS[metric], by, times)
        await self._gather(question, None, gathered, totals=False)
        complete = not gathered.notes and not gathered.silent
        return gathered.values if complete else None

    def _is_old(self, times: Times) -> bool:
        """Whether a range begins before what memory may have."""
        if self.rollup is None or not self.rollup.since_ms:
            return True
        kept_ms = self._context.clock.wall_ms() - span_ms(LEVELS, self.step_ms)
        return bool(times.from_ms) and times.from_ms < max(kept_ms, self.rollup.since_ms)

    async def _from_archive(
        self, request: SeriesRequest, metric: Metric, by: By, scope: Scope
    ) -> SeriesFound:
        assert self.archive is not None
        names = {uuid: self._name(uuid) for uuid in scope.topics or ()}
        asked = archived.Asked(
            metric=metric,
            by=by,
            names=None if scope.topics is None else [name for name in names.values() if name],
            group=request.group,
            limit=request.limit,
        )
        now_ms, step_ms = self._context.clock.wall_ms(), self.step_ms
        found = await archived.read(self.archive, asked, request.times, now_ms, step_ms)
        _check_values(found.plan, request.limit)
        lines = [
            SeriesLine(labels=labels, values=values, total=_total(metric, values))
            for labels, values in found.lines
        ]
        return SeriesFound(
            metric=metric, plan=found.plan, lines=lines, source="olap", notes=found.notes,
            partial=(),
        )  # fmt: skip

    async def _from_memory(
        self, request: SeriesRequest, metric: Metric, by: By, scope: Scope, notes: list[str]
    ) -> SeriesFound:
        levels = PARTITION_LEVELS if by is By.PARTITION else LEVELS
        now_ms = self._context.clock.wall_ms()
        since_ms, until_ms = (0, 0)
        if self.rollup is not None:
            since_ms, until_ms = self.rollup.since_ms, self.rollup.until_ms
        times = plan(request.times, levels, self.step_ms, until_ms or now_ms, since_ms)
        _check_values(times, request.limit)
        kept_ms = span_ms(levels, self.step_ms)
        if times.from_ms + times.step_ms < now_ms - kept_ms:
            notes.append(f"memory has the last {kept_ms / _HOUR_MS:g} hours at most")
        question = Question(
            metric=metric.name,
            by=By.TOTAL if by is By.SERVER else by,
            level=times.level,
            first=times.from_ms // (self.step_ms * levels[times.level].samples),
            count=times.steps,
            step=times.step,
            topics=scope.topics,
            shared=scope.shared,
            tenant=scope.tenant,
            group=scope.group,
        )
        gathered = _Gathered(metric, by, times)
        chosen: frozenset[Label] | None = None
        if by not in (By.TOTAL, By.SERVER):
            await self._gather(question, None, gathered, totals=True)
            chosen = gathered.largest(request.limit, self._is_shown)
        await self._gather(question, chosen, gathered, totals=False)
        if self.rollup is None:
            notes.append("no series are kept: [measuring] series_bytes_max is 0")
        return SeriesFound(
            metric=metric,
            plan=times,
            lines=gathered.lines(self._labels(by), request.limit),
            source="memory",
            notes=[*notes, *dict.fromkeys(gathered.notes)],
            partial=[Partial(*pair) for pair in gathered.partial.items()],
        )

    async def _gather(
        self,
        question: Question,
        chosen: frozenset[Label] | None,
        gathered: "_Gathered",
        *,
        totals: bool,
    ) -> None:
        asked = SeriesQuestion.of(question, self.step_ms, chosen, totals=totals)
        me, turns = self._context.config.server, asyncio.Semaphore(SERVERS_AT_ONCE)

        async def ask(name: str, address: str) -> SeriesAnswer | str:
            try:
                if name == me:
                    return await self.answer(asked)
                async with asyncio.timeout(GATHER_S), turns:
                    return await call_peer(self._context.peers, address, SERIES, asked)
            except TimeoutError:
                return f"did not answer within {GATHER_S:g} s"
            except TalosError as error:
                return str(error)

        live = {me: "", **self._live()}
        answers = await asyncio.gather(*(ask(*server) for server in live.items()))
        for name, answer in zip(live, answers, strict=True):
            if isinstance(answer, str):
                gathered.partial[name] = answer
                gathered.silent = True
            elif totals:
                gathered.add_totals(answer)
            else:
                gathered.add(name, answer)

    def _is_shown(self, label: Label) -> bool:
        """Whether a label can be named: topics may be deleted."""
        return not label[0] or bool(self._name(label[0]))

    def _name(self, uuid: str) -> str:
        topic = topic_by_uuid(self._context.topics, uuid)
        return f"{topic.owner}/{topic.name}" if topic else ""

    def _labels(self, by: By) -> Callable[[Label], Mapping[str, str]]:
        def labels(label: Label) -> Mapping[str, str]:
            uuid, partition, text = label
            match by:
                case By.TOPIC:
                    return {"topic": self._name(uuid)}
                case By.PARTITION:
                    return {"partition": str(partition)}
                case By.GROUP:
                    return {"topic": self._name(uuid), "group": text}
                case By.ERROR:
                    return {"error": text}
                case By.SERVER:
                    return {"server": text}
            return {}

        return labels


class _Gathered:
    """What servers answered, put together."""

    def __init__(self, metric: Metric, by: By, times: Plan) -> None:
        self._metric, self._by, self._times = metric, by, times
        # A group has one coordinator at a time; while it moves, both may have measured it.
        self._adds = metric.kind is Kind.SUM or by in (By.TOTAL, By.TOPIC)
        self._totals: dict[Label, float] = {}
        self.values: dict[Label, Values] = {}
        self._rest: Values | None = None
        self.notes: list[str] = []
        self.partial: dict[str, str] = {}
        self.silent = False  # a server did not answer

    def add_totals(self, answer: SeriesAnswer) -> None:
        """Of one server."""
        for topic, partition, text, amount in answer.totals:
            key = (topic, partition, text)
            self._totals[key] = self._totals.get(key, 0.0) + amount

    def largest(self, limit: int, shown: Callable[[Label], bool]) -> frozenset[Label]:
        """Labels that have a line of their own."""
        found = sorted(filter(shown, self._totals), key=lambda label: (-self._totals[label], label))
        return frozenset(found[:limit])

    def add(self, server: str, answer: SeriesAnswer) -> None:
        """Values of one server."""
        for topic, partition, text, values in answer.series:
            key = ("", -1, server) if self._by is By.SERVER else (topic, partition, text)
            self.values[key] = merged(self.values.get(key), values, add=self._adds)
        if answer.rest is not None:
            self._rest = merged(self._rest, answer.rest, add=True)
        self.notes += answer.notes
        if not answer.since_ms or answer.since_ms >= self._times.from_ms + self._times.step_ms:
            self.partial.setdefault(
                server, f"measured since {answer.since_ms // 1000}, earlier values are not kept"
                if answer.since_ms else "has not measured yet"
            )  # fmt: skip

    def lines(
        self, labels: Callable[[Label], Mapping[str, str]], limit: int
    ) -> Sequence[SeriesLine]:
        """The largest first, then the rest."""
        unknown: Values = [None] * self._times.steps
        if self._by is By.TOTAL and not self.values:
            self.values[_NO_LABEL] = unknown
        found = [
            SeriesLine(labels=labels(label), values=values, total=_total(self._metric, values))
            for label, values in self.values.items()
        ]
        found.sort(key=lambda line: (-line.total, sorted(line.labels.items())))
        others = len(self._totals) - len(self.values) if self._totals else 0
        rest = self._rest
        if rest is not None and (others > 0 or any(rest)):
            shown = {"rest": str(max(0, others))}
            found = found[:limit]
            found.append(SeriesLine(labels=shown, values=rest, total=_total(self._metric, rest)))
        return found


def _total(metric: Metric, values: Values) -> float:
    known = [value for value in values if value is not None]
    return float(sum(known)) if metric.kind is Kind.SUM else max(known, default=0.0)


def _check_values(times: Plan, limit: int) -> None:
    if times.steps * limit > VALUES_MAX:
        raise BadRequest(
            f"{limit} series of {times.steps:,} steps are more than {VALUES_MAX:,} values: use a "
            "longer step or a smaller limit"
        )
