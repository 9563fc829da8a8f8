"""Measurement event: what one source measured in one step of time; a message of ``__metrics``.

One line of JSON, version 1:

    {"v":1,"at_ms":END_OF_STEP,"step_ms":10000,"service":"server","cluster":"","machine":"",
     "tenant":"","topic":"","partition":-1,"sums":{"put_requests":1.0},"gauges":{"load_1":0.5},
     "sketches":{"put_ms":{"37":12}}}

Sums are what happened within the step and may be added up over rows and steps; gauges are what was
there at its end; sketches are counts by bucket (``wire/metrics/sketch.py``). A row is known by its
dimensions and ``at_ms``: a row that is sent again has the same key and content. A dimension that
says nothing is empty, a partition -1. Readers skip fields that they do not know.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from opentalos.model.errors import BadRequest, NewerFormat
from opentalos.wire.metrics.sketch import BUCKET_MAX, BUCKET_MIN

VERSION: Final = 1
EVENT_BYTES_MAX: Final = 256 << 10
TEXT_CHARS_MAX: Final = 256  # of a dimension or the name of a measure
MEASURES_MAX: Final = 1_000  # of one kind in one event
COUNT_MAX: Final = (1 << 63) - 1
NO_PARTITION: Final = -1

_Value = TypeVar("_Value")
_SHOWN_CHARS_MAX = 40


class MeasurementError(BadRequest):
    """Bytes that are no measurement event; the text names the field."""


class MeasurementKey(NamedTuple):
    """What a row is known by."""

    service: str
    cluster: str
    machine: str
    tenant: str
    topic: str
    partition: int
    at_ms: int

    def __str__(self) -> str:
        return "|".join(map(str, self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One row of measures. ``at_ms``: end of the step, Unix time, a multiple of ``step_ms``."""

    at_ms: int
    step_ms: int
    service: str  # server, machine, client, ...
    cluster: str = ""
    machine: str = ""
    tenant: str = ""
    topic: str = ""
    partition: int = NO_PARTITION
    sums: Mapping[str, float] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    sketches: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @property
    def key(self) -> MeasurementKey:
        """What the row is known by."""
        return MeasurementKey(
            self.service,
            self.cluster,
            self.machine,
            self.tenant,
            self.topic,
            self.partition,
            self.at_ms,
        )


def encode_measurement(row: Measurement) -> bytes:
    """The event. Equal rows have equal bytes. Raises: ValueError: a value is not finite."""
    event: dict[str, Any] = {
        "v": VERSION,
        "at_ms": row.at_ms,
        "step_ms": row.step_ms,
        "service": row.service,
        "cluster": row.cluster,
        "machine": row.machine,
        "tenant": row.tenant,
        "topic": row.topic,
        "partition": row.partition,
        "sums": _sorted(row.sums),
        "gauges": _sorted(row.gauges),
        "sketches": {
            name: {str(bucket): count for bucket, count in sorted(row.sketches[name].items())}
            for name in sorted(row.sketches)
        },
    }
    return json.dumps(event, separators=(",", ":"), allow_nan=False).encode()


def decode_measurement(data: bytes) -> Measurement:
    """Read an event. Raises: MeasurementError; NewerFormat: made by a newer version."""
    if len(data) > EVENT_BYTES_MAX:
        raise MeasurementError(f"a measurement of {len(data)} bytes, at most {EVENT_BYTES_MAX}")
    try:
        event = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MeasurementError(f"a measurement is not valid JSON: {error}") from error
    if not isinstance(event, dict):
        raise MeasurementError("a measurement is not a JSON object")
    version = _whole(event, "v", 1)
    if version > VERSION:
        raise NewerFormat(f"a measurement of format {version}, this version reads up to {VERSION}")
    return Measurement(
        at_ms=_whole(event, "at_ms", 0),
        step_ms=_whole(event, "step_ms", 1),
        service=_text(event, "service", required=True),
        cluster=_text(event, "cluster"),
        machine=_text(event, "machine"),
        tenant=_text(event, "tenant"),
        topic=_text(event, "topic"),
        partition=_whole(event, "partition", NO_PARTITION, default=NO_PARTITION),
        sums=_measures(event, "sums", _amount),
        gauges=_measures(event, "gauges", _number),
        sketches=_measures(event, "sketches", _counts),
    )


def _sorted(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(values[name]) for name in sorted(values)}


def _whole(event: Mapping[str, Any], name: str, least: int, default: int | None = None) -> int:
    value = event.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= COUNT_MAX:
        raise _wrong(name, f"a whole number of {least} or more", value)
    return value


def _text(event: Mapping[str, Any], name: str, *, required: bool = False) -> str:
    value = event.get(name, "")
    if not isinstance(value, str) or len(value) > TEXT_CHARS_MAX or (required and not value):
        raise _wrong(name, f"a text of at most {TEXT_CHARS_MAX} characters", value)
    return value


def _measures(
    event: Mapping[str, Any], name: str, read: Callable[[str, object], _Value]
) -> dict[str, _Value]:
    values = event.get(name, {})
    if not isinstance(values, dict) or len(values) > MEASURES_MAX:
        raise _wrong(name, f"an object of at most {MEASURES_MAX} measures", values)
    for measure in values:
        if not 0 < len(measure) <= TEXT_CHARS_MAX:
            raise _wrong(name, f"names of 1 to {TEXT_CHARS_MAX} characters", measure)
    return {measure: read(f"{name}.{measure}", value) for measure, value in values.items()}


def _number(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong(name, "a number", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _wrong(name, "a finite number", value)
    return number


def _amount(name: str, value: object) -> float:
    number = _number(name, value)
    if number < 0:
        raise _wrong(name, "a number of 0 or more", value)
    return number


def _counts(name: str, value: object) -> dict[int, int]:
    if not isinstance(value, dict):
        raise _wrong(name, "an object of counts by bucket", value)
    counts: dict[int, int] = {}
    for bucket, count in value.items():
        if not _is_bucket(bucket):
            raise _wrong(name, f"buckets in {BUCKET_MIN}..{BUCKET_MAX}", bucket)
        if not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= COUNT_MAX:
            raise _wrong(name, "counts of 1 or more", count)
        counts[int(bucket)] = count
    return counts


def _is_bucket(text: str) -> bool:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 4:
        return False
    return str(int(text)) == text and BUCKET_MIN <= int(text) <= BUCKET_MAX


def _wrong(name: str, wanted: str, value: object) -> MeasurementError:
    shown = repr(value)[:_SHOWN_CHARS_MAX]
    return MeasurementError(f"{name[:_SHOWN_CHARS_MAX]} of a measurement must be {wanted}: {shown}")
