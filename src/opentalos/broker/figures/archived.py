"""Series from the OLAP store: the tables that the pipeline ``monitoring`` writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from opentalos.broker.figures.metrics import By, Kind, Metric
from opentalos.broker.figures.plan import Plan, Times, archive_plan
from opentalos.broker.figures.rollup import Values
from opentalos.ports.series_archive import ArchivePlace, ArchiveQuery, SeriesArchive

TOPICS_MAX: Final = 500  # that one query names
_SPLITS: Final[Mapping[By, Sequence[str]]] = {
    By.TOTAL: (),
    By.TOPIC: ("tenant", "topic"),
    By.PARTITION: ("partition",),
    By.SERVER: ("server",),
}
_LATE: Final = "the store gets measurements some minutes late; the last values may be missing"


class NotArchived(Exception):
    """The store does not have the metric, or not split so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked. ``names``: of topics, OWNER/NAME; None: all."""

    metric: Metric
    by: By
    names: Sequence[str] | None
    group: str
    limit: int


class Archived(NamedTuple):
    """Labels and values of each line."""

    plan: Plan
    lines: Sequence[tuple[Mapping[str, str], Values]]
    notes: Sequence[str]


async def read(
    archive: SeriesArchive, asked: Asked, times: Times, now_ms: int, sample_ms: int
) -> Archived:
    """The lines, largest first, then the rest.

    Raises: NotArchived; Unavailable; BadRequest: the time range is empty or has too many steps.
    """
    metric, by = asked.metric, asked.by
    if not metric.measure or by not in _SPLITS or asked.group:
        raise NotArchived("the OLAP store has no such series")
    if by is By.TOTAL and asked.names is not None and len(asked.names) > TOPICS_MAX:
        raise NotArchived(f"the OLAP store adds up {TOPICS_MAX} topics at most")
    found = archive_plan(times, now_ms, sample_ms)
    if asked.names is not None and not asked.names:
        return Archived(found, [], [])
    notes = [_LATE] if found.to_ms > now_ms - 10 * 60_000 else []
    of_servers = metric.service or by is By.SERVER
    query = ArchiveQuery(
        measure=metric.measure,
        from_ms=found.from_ms,
        to_ms=found.to_ms,
        split=_SPLITS[by],
        gauge=metric.kind is Kind.GAUGE,
        percent=metric.percent if metric.kind is Kind.PERCENTILE else None,
        places=() if of_servers else _places(asked.names),
    )
    if by is By.TOTAL:
        rows = await archive.read(replace(query, step_ms=found.step_ms))
        amounts = rows.get(ArchivePlace(), {})
        return Archived(found, [({}, _values(found, amounts, metric.kind))], notes)
    totals = await archive.read(query)
    allowed = None if asked.names is None else frozenset(asked.names)
    amounts_by_place = {
        place: max(amounts.values(), default=0.0)
        for place, amounts in totals.items()
        if allowed is None or by is not By.TOPIC or f"{place.tenant}/{place.topic}" in allowed
    }
    chosen = sorted(amounts_by_place, key=lambda place: (-amounts_by_place[place], place))
    rest, chosen = chosen[asked.limit :], chosen[: asked.limit]
    if by is By.TOPIC:
        query = replace(query, places=chosen)
    rows = await archive.read(replace(query, step_ms=found.step_ms)) if chosen else {}
    lines: list[tuple[Mapping[str, str], Values]] = [
        (_labels(by, place), _values(found, rows.get(place, {}), metric.kind)) for place in chosen
    ]
    if rest:
        notes.append(f"{len(rest):,} further series are not shown; use a larger limit")
    return Archived(found, lines, notes)


def _places(names: Sequence[str] | None) -> Sequence[ArchivePlace] | None:
    """None: too many to name, so that rows are chosen afterwards."""
    if names is None or len(names) > TOPICS_MAX:
        return None
    pairs = (name.partition("/") for name in names)
    return [ArchivePlace(tenant, topic) for tenant, _, topic in pairs]


def _labels(by: By, place: ArchivePlace) -> Mapping[str, str]:
    match by:
        case By.TOPIC:
            return {"topic": f"{place.tenant}/{place.topic}"}
        case By.PARTITION:
            return {"partition": str(place.partition)}
    return {"server": place.server}


def _values(found: Plan, amounts: Mapping[int, float], kind: Kind) -> Values:
    """A step without rows had no traffic, or was not measured: not known."""
    return [amounts.get(time_ms) for time_ms in found.times_ms()]
