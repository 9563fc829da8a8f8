"""The values that programs pushed to an agent within a step, as rows of service "client"."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from opentalos.model.errors import RequestError
from opentalos.wire.metrics.falcon import Point, PushError
from opentalos.wire.metrics.measurement import NO_PARTITION, Measurement
from opentalos.wire.metrics.measures import CLIENT

SERIES_MAX: Final = 20_000  # values per step, and counters whose last value is remembered
ROW_MEASURES_MAX: Final = 200  # names per row, which keeps an event small
NAME_CHARS_MAX: Final = 128  # of a measure, including the tags in its name
COUNTER_STEPS_MAX: Final = 360  # after this many steps without a push a counter starts again
# Tags that are dimensions of a row; "type" is set by official clients for their alerts.
_CLUSTER, _TOPIC, _PARTITION, _MACHINE = "clusterName", "topicName", "partitionId", "ip"
_OWN_TAGS: Final = frozenset({_CLUSTER, _TOPIC, _PARTITION, _MACHINE, "type"})
_PARTITION_DIGITS_MAX: Final = 9


class TooManySeries(RequestError):
    """The push has too many values; the whole push is rejected."""


class RowKey(NamedTuple):
    """The dimensions of a row."""

    cluster: str
    machine: str
    topic: str
    partition: int


@dataclass(slots=True)
class _Row:
    sums: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    # The endpoint of each gauge, because several endpoints may push the same gauge.
    sources: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sums) + len(self.gauges)


@dataclass(slots=True)
class _Counter:
    value: float
    step: int  # of its last push


class PushedPoints:
    """Aggregates pushed values into rows.

    A counter becomes the sum of its increments; its first value only sets the base. For a gauge the
    last value counts, and the largest one if several endpoints push the same gauge.
    """

    def __init__(self) -> None:
        self._rows: dict[RowKey, _Row] = {}
        self._values = 0
        self._counters: dict[tuple[str, RowKey, str], _Counter] = {}
        self._step = 0
        self.points = 0  # since the start

    def add(self, points: Sequence[Point]) -> None:
        """Accept a push as a whole, or reject it. Raises: PushError, TooManySeries."""
        keyed = [
            (key_of(point, number), name_of(point, number), point)
            for number, point in enumerate(points)
        ]
        self._check_room(keyed)
        for key, name, point in keyed:
            row = self._rows.setdefault(key, _Row())
            before = len(row)
            if point.counter:
                self._grow(row, key, name, point)
            else:
                _set(row, name, point)
            self._values += len(row) - before
        self.points += len(points)

    def take(self, at_ms: int, step_ms: int) -> Iterator[Measurement]:
        """Take the rows of the step that has ended."""
        rows, self._rows, self._values = self._rows, {}, 0
        self._step += 1
        oldest = self._step - COUNTER_STEPS_MAX
        self._counters = {
            key: counter for key, counter in self._counters.items() if counter.step >= oldest
        }
        for key, row in rows.items():
            yield Measurement(
                at_ms=at_ms,
                step_ms=step_ms,
                service=CLIENT,
                cluster=key.cluster,
                machine=key.machine,
                topic=key.topic,
                partition=key.partition,
                sums=row.sums,
                gauges=row.gauges,
            )

    def _check_room(self, keyed: Sequence[tuple[RowKey, str, Point]]) -> None:
        fresh: dict[RowKey, set[str]] = {}
        counters: set[tuple[str, RowKey, str]] = set()
        for key, name, point in keyed:
            row = self._rows.get(key)
            if row is None or (name not in row.sums and name not in row.gauges):
                fresh.setdefault(key, set()).add(name)
            if point.counter and (point.endpoint, key, name) not in self._counters:
                counters.add((point.endpoint, key, name))
        if self._values + sum(map(len, fresh.values())) > SERIES_MAX:
            raise TooManySeries(f"more than {SERIES_MAX} values in one step")
        if len(self._counters) + len(counters) > SERIES_MAX:
            raise TooManySeries(f"more than {SERIES_MAX} counters")
        for key, names in fresh.items():
            if len(self._rows.get(key, ())) + len(names) > ROW_MEASURES_MAX:
                raise TooManySeries(
                    f"more than {ROW_MEASURES_MAX} metrics of one source: {_shown(key)}"
                )

    def _grow(self, row: _Row, row_key: RowKey, name: str, point: Point) -> None:
        key = (point.endpoint, row_key, name)
        counter = self._counters.get(key)
        if counter is None:
            self._counters[key] = _Counter(point.value, self._step)
            return
        # A counter decreases when its program was restarted.
        fell = point.value < counter.value
        grown = point.value if fell else point.value - counter.value
        row.sums[name] = row.sums.get(name, 0.0) + grown
        counter.value, counter.step = point.value, self._step


def _set(row: _Row, name: str, point: Point) -> None:
    same = row.sources.get(name, point.endpoint) == point.endpoint
    if same or point.value >= row.gauges.get(name, 0.0):
        row.gauges[name], row.sources[name] = point.value, point.endpoint


def _shown(key: RowKey) -> str:
    fields = key._asdict().items()
    return ", ".join(f"{name}={value}" for name, value in fields if value not in ("", NO_PARTITION))


def key_of(point: Point, number: int) -> RowKey:
    """The row of a point. Raises: PushError: its partition is not a number."""
    tags = point.tags
    text = tags.get(_PARTITION, "")
    if text and not (text.isascii() and text.isdigit() and len(text) <= _PARTITION_DIGITS_MAX):
        raise PushError(f"partitionId of point {number} must be a number: {text[:40]!r}")
    return RowKey(
        tags.get(_CLUSTER, ""),
        tags.get(_MACHINE) or point.endpoint,
        tags.get(_TOPIC, ""),
        int(text) if text else NO_PARTITION,
    )


def name_of(point: Point, number: int) -> str:
    """The measure of a point: its metric, and the tags that are not dimensions.

    Raises: PushError: it is too long.
    """
    others: Mapping[str, str] = {
        name: value for name, value in point.tags.items() if name not in _OWN_TAGS
    }
    name = "/".join([point.metric, *(f"{key}={others[key]}" for key in sorted(others))])
    if len(name) > NAME_CHARS_MAX:
        raise PushError(
            f"metric and tags of point {number} have {len(name)} characters; the limit is "
            f"{NAME_CHARS_MAX}"
        )
    return name
