"""Pushes in the format of Open-Falcon, as official Talos clients send them to ``/v1/push``.

A body is a JSON array of points:

    {"endpoint":"talos.producer.TOPIC","metric":"putMessage.60sRate","timestamp":1764000000,
     "step":60,"value":12,"counterType":"GAUGE","tags":"clusterName=c,topicName=t,partitionId=0"}

A COUNTER only grows, and what counts is by how much; a GAUGE is what it is.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from opentalos.model.checks import unique_fields
from opentalos.model.errors import BadRequest

POINTS_MAX: Final = 5_000  # of one push
TEXT_CHARS_MAX: Final = 128  # of endpoint, metric, and each tag's name and value
TAGS_MAX: Final = 16
VALUE_MAX: Final = float(1 << 63)
STEP_S_MAX: Final = 86_400
_SHOWN_CHARS_MAX = 40


class PushError(BadRequest):
    """A push that is not taken; the text names the point and the field. Nothing of it counts."""


class Point(NamedTuple):
    """One value. Its time is left out: what counts is when it was pushed."""

    endpoint: str
    metric: str
    value: float
    counter: bool
    tags: Mapping[str, str]


def decode_push(body: bytes) -> list[Point]:
    """All points of a push. Raises: PushError."""
    try:
        points = json.loads(body, object_pairs_hook=unique_fields)
    except (ValueError, RecursionError) as error:
        raise PushError(f"the body is not valid JSON: {str(error)[:_SHOWN_CHARS_MAX]}") from error
    if not isinstance(points, list):
        raise PushError("the body must be an array of points")
    if len(points) > POINTS_MAX:
        raise PushError(f"{len(points)} points, at most {POINTS_MAX} in a push")
    return [_point(number, point) for number, point in enumerate(points)]


def _point(number: int, point: object) -> Point:
    if not isinstance(point, dict):
        raise PushError(f"point {number} must be an object")
    kind = point.get("counterType")
    if kind not in ("GAUGE", "COUNTER"):
        raise _wrong(number, "counterType", "GAUGE or COUNTER", kind)
    _integer(number, point, "timestamp", 0, 1 << 63)
    _integer(number, point, "step", 1, STEP_S_MAX)
    return Point(
        _text(number, point, "endpoint"),
        _text(number, point, "metric"),
        _value(number, point.get("value")),
        kind == "COUNTER",
        _tags(number, point.get("tags", "")),
    )


def _text(number: int, point: Mapping[str, Any], name: str) -> str:
    text = point.get(name)
    if not isinstance(text, str) or not 0 < len(text) <= TEXT_CHARS_MAX:
        raise _wrong(number, name, f"a text of 1 to {TEXT_CHARS_MAX} characters", text)
    return text


def _integer(number: int, point: Mapping[str, Any], name: str, minimum: int, maximum: int) -> None:
    value = point.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise _wrong(number, name, f"an integer from {minimum} to {maximum}", value)


def _value(number: int, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        # Compared before it is converted: a whole number may be too large for a float.
        if 0 <= value <= VALUE_MAX and math.isfinite(value):
            return float(value)
    raise _wrong(number, "value", "a number of 0 or more, below 2 ** 63", value)


def _tags(number: int, tags: object) -> Mapping[str, str]:
    if not isinstance(tags, str):
        raise _wrong(number, "tags", "a text such as k=v,k=v", tags)
    parts = [part for part in tags.split(",") if part]
    found: dict[str, str] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or not name or max(len(name), len(value)) > TEXT_CHARS_MAX:
            wanted = f"k=v,k=v of at most {TEXT_CHARS_MAX} characters each"
            raise _wrong(number, "tags", wanted, part)
        found[name] = value
    if len(found) > TAGS_MAX:
        raise _wrong(number, "tags", f"at most {TAGS_MAX}", len(found))
    return found


def _wrong(number: int, name: str, wanted: str, value: object) -> PushError:
    # A whole number of very many digits cannot be shown.
    shown = "a larger number" if isinstance(value, int) and value > VALUE_MAX else repr(value)
    return PushError(f"{name} of point {number} must be {wanted}: {shown[:_SHOWN_CHARS_MAX]}")
