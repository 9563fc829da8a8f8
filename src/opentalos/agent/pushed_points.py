"""What programs pushed to an agent within a step, as rows of service "client"."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from opentalos.model.errors import RequestError
from opentalos.wire.metrics.falcon import Point, PushError
from opentalos.wire.metrics.measurement import NO_PARTITION, Measurement
from opentalos.wire.metrics.measures import CLIENT

SERIES_MAX: Final = 20_000  # values of a step, and counters whose last value is remembered
ROW_MEASURES_MAX: Final = 200  # names in one row: so an event stays small
NAME_CHARS_MAX: Final = 128  # of a measure, with the tags that belong to its name
COUNTER_STEPS_MAX: Final = 360  # a counter that was not pushed for so long begins anew
# Tags that are dimensions of a row, and one that official clients set for their alerts.
_CLUSTER, _TOPIC, _PARTITION, _MACHINE = "clusterName", "topicName", "partitionId", "ip"
_OWN_TAGS: Final = frozenset({_CLUSTER, _TOPIC, _PARTITION, _MACHINE, "type"})
_PARTITION_DIGITS_MAX: Final = 9


class TooManySeries(RequestError):
    """The agent has no room for so many values; nothing of the push counts."""


class Place(NamedTuple):
    """The dimensions of a row."""

    cluster: str
    machine: str
    topic: str
    partition: int


@dataclass(slots=True)
class _Row:
    sums: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    # The endpoint that a gauge is of, since several may push the same one.
    sources: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sums) + len(self.gauges)


@dataclass(slots=True)
class _Counter:
    value: float
    step: int  # in which it was pushed last


class PushedPoints:
    """Counters become sums of what they grew by, the first value of each telling nothing. Of one
    gauge the last value counts; of several endpoints with the same one, the largest."""

    def __init__(self) -> None:
        self._rows: dict[Place, _Row] = {}
        self._values = 0
        self._counters: dict[tuple[str, Place, str], _Counter] = {}
        self._step = 0
        self.points = 0  # ever

    def add(self, points: Sequence[Point]) -> None:
        """Take a whole push, or nothing of it. Raises: PushError, TooManySeries."""
        placed = [
            (place_of(point, number), name_of(point, number), point)
            for number, point in enumerate(points)
        ]
        self._check_room(placed)
        for place, name, point in placed:
            row = self._rows.setdefault(place, _Row())
            before = len(row)
            if point.counter:
                self._grow(row, place, name, point)
            else:
                _set(row, name, point)
            self._values += len(row) - before
        self.points += len(points)

    def take(self, at_ms: int, step_ms: int) -> Iterator[Measurement]:
        """The rows of the step, which is over."""
        rows, self._rows, self._values = self._rows, {}, 0
        self._step += 1
        oldest = self._step - COUNTER_STEPS_MAX
        self._counters = {key: one for key, one in self._counters.items() if one.step >= oldest}
        for place, row in rows.items():
            yield Measurement(
                at_ms=at_ms,
                step_ms=step_ms,
                service=CLIENT,
                cluster=place.cluster,
                machine=place.machine,
                topic=place.topic,
                partition=place.partition,
                sums=row.sums,
                gauges=row.gauges,
            )

    def _check_room(self, placed: Sequence[tuple[Place, str, Point]]) -> None:
        fresh: dict[Place, set[str]] = {}
        counters: set[tuple[str, Place, str]] = set()
        for place, name, point in placed:
            row = self._rows.get(place)
            if row is None or (name not in row.sums and name not in row.gauges):
                fresh.setdefault(place, set()).add(name)
            if point.counter and (point.endpoint, place, name) not in self._counters:
                counters.add((point.endpoint, place, name))
        if self._values + sum(map(len, fresh.values())) > SERIES_MAX:
            raise TooManySeries(f"more than {SERIES_MAX} values within one step")
        if len(self._counters) + len(counters) > SERIES_MAX:
            raise TooManySeries(f"more than {SERIES_MAX} counters")
        for place, names in fresh.items():
            if len(self._rows.get(place, ())) + len(names) > ROW_MEASURES_MAX:
                raise TooManySeries(f"more than {ROW_MEASURES_MAX} metrics of one source: {place}")

    def _grow(self, row: _Row, place: Place, name: str, point: Point) -> None:
        key = (point.endpoint, place, name)
        counter = self._counters.get(key)
        if counter is None:
            self._counters[key] = _Counter(point.value, self._step)
            return
        # A counter that fell belongs to a program that was started anew.
        fell = point.value < counter.value
        grown = point.value if fell else point.value - counter.value
        row.sums[name] = row.sums.get(name, 0.0) + grown
        counter.value, counter.step = point.value, self._step


def _set(row: _Row, name: str, point: Point) -> None:
    same = row.sources.get(name, point.endpoint) == point.endpoint
    if same or point.value >= row.gauges.get(name, 0.0):
        row.gauges[name], row.sources[name] = point.value, point.endpoint


def place_of(point: Point, number: int) -> Place:
    """The row of a point. Raises: PushError: its partition is no number."""
    tags = point.tags
    text = tags.get(_PARTITION, "")
    if text and not (text.isascii() and text.isdigit() and len(text) <= _PARTITION_DIGITS_MAX):
        raise PushError(f"partitionId of point {number} must be a number: {text[:40]!r}")
    return Place(
        tags.get(_CLUSTER, ""),
        tags.get(_MACHINE) or point.endpoint,
        tags.get(_TOPIC, ""),
        int(text) if text else NO_PARTITION,
    )


def name_of(point: Point, number: int) -> str:
    """The measure of a point: its metric, and the tags that are no dimensions.

    Raises: PushError: it is too long.
    """
    others: Mapping[str, str] = {
        name: value for name, value in point.tags.items() if name not in _OWN_TAGS
    }
    name = "/".join([point.metric, *(f"{key}={others[key]}" for key in sorted(others))])
    if len(name) > NAME_CHARS_MAX:
        raise PushError(
            f"metric and tags of point {number} have {len(name)} characters together, at most "
            f"{NAME_CHARS_MAX}"
        )
    return name
