"""SeriesArchive: measurements of all servers over months, in a store for analytic queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class ArchivePlace(NamedTuple):
    """What a series is about; fields that a query is not split by are empty, or -1."""

    tenant: str = ""
    topic: str = ""  # name
    partition: int = -1
    server: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveQuery:
    """A measure of ``wire/metrics/measures.py`` within from_ms <= time < to_ms.

    ``split``: fields of ``ArchivePlace``. ``percent``: of a measure that is a sketch; None: of
    others. ``gauge``: the largest value of a step; else amounts are added. ``places``: whose;
    None: all topics; empty: servers themselves. ``step_ms``: 0: the whole time as one step.
    """

    measure: str
    from_ms: int
    to_ms: int
    step_ms: int = 0
    split: Sequence[str] = ()
    gauge: bool = False
    percent: float | None = None
    places: Sequence[ArchivePlace] | None = None


class SeriesArchive(Protocol):
    """``read``: amounts by place and start of the step, Unix ms; without rows there is no amount.

    Raises: Unavailable: the store is down or too slow; BadRequest: it rejects the query.
    """

    async def read(self, query: ArchiveQuery) -> Mapping[ArchivePlace, Mapping[int, float]]: ...
    async def close(self) -> None: ...
