"""Checks of single values from outside: one predicate and one sentence for each kind of value.

The REST schemas, the server's configuration and the TOML settings of pipelines call these, so the
three accept the same values and reject them in the same words. Each function returns the value or
raises a ValueError that says what is allowed, without naming the value: ``must be true or false``.
The caller adds the place: a field of the body, a key of a section, a line of a file.

JSON from outside loses nothing: every digit of a number is kept, and an object that has a field
twice is refused.
"""

import json
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

_SHOWN_CHARS_MAX = 60
_SHORTEST = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_SAFE_CHARS = 16  # a decimal of 15 digits and a point is what the shortest text of its double says


def integer(value: object, minimum: int = 0, maximum: int | None = None) -> int:
    """An integer within the bounds; neither a bool nor a float."""
    # The type decides: bool is a subclass of int.
    if type(value) is int and minimum <= value and (maximum is None or value <= maximum):
        return value
    bounds = f"of {minimum:,} or more" if maximum is None else f"from {minimum:,} to {maximum:,}"
    raise ValueError(f"must be an integer {bounds}")


def number(value: object, minimum: int = 0) -> float:
    """A finite number, integer or float, of at least ``minimum``."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if minimum <= value < math.inf:  # false for NaN too
            return value
    raise ValueError(f"must be a number of {minimum:,} or more")


def boolean(value: object) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    raise ValueError("must be true or false")


def null(value: object) -> None:
    """Nothing but null."""
    if value is not None:
        raise ValueError("must be null")


def string(value: object) -> str:
    """A string of any length."""
    if isinstance(value, str):
        return value
    raise ValueError("must be a string")


def choice(value: object, allowed: Iterable[str]) -> str:
    """One of the allowed strings."""
    if isinstance(value, str) and value in allowed:
        return value
    raise ValueError(f"must be one of {', '.join(allowed)}")


def size(count: int, unit: str, minimum: int = 0, maximum: int | None = None) -> None:
    """A number of ``unit``, in the singular: items of an array, characters of a string."""
    if count < minimum or (maximum is not None and count > maximum):
        bounds = f"{minimum:,} or more" if maximum is None else f"{minimum:,} to {maximum:,}"
        raise ValueError(f"must have {bounds} {plural(unit, maximum or 2)}, not {count:,}")


class ExactNumber(float):
    """A JSON number that a double cannot hold: the nearest one, with the ``text`` that was sent."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def is_integer(self) -> bool:
        """False: the double may be a whole number where the text is none."""
        return False


def json_number(text: str) -> float:
    """A JSON number with a fraction or an exponent, for ``parse_float``.

    Raises: ValueError: it is too large for a double.
    """
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:40]} is too large")
    if len(text) <= _SAFE_CHARS and "e" not in text and "E" not in text:
        return value
    try:
        same = Decimal(text) == Decimal(repr(value))
    except InvalidOperation:  # an exponent beyond all bounds
        same = False
    return value if same else ExactNumber(text)


def unique_fields(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, for ``object_pairs_hook``.

    Raises: ValueError: a field is given twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the field {shown_value(name)} is given twice")
            seen.add(name)
    return found


def json_value(text: str | bytes) -> Any:
    """A JSON text. Raises: ValueError: also if a field is given twice, or a number is too large;
    RecursionError."""
    return json.loads(text, parse_float=json_number, object_pairs_hook=unique_fields)


def json_text(value: Any) -> str:
    """The shortest text; numbers that ``json_value`` kept exact are written as they were sent.

    Raises: ValueError: it is nested too deeply; RecursionError.
    """
    if not _has_exact(value):
        return _SHORTEST.encode(value)
    try:
        return _exact_text(value)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _has_exact(value: Any) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, ExactNumber):
            return True
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item
    return False


def _exact_text(value: Any) -> str:
    if isinstance(value, dict):
        fields = (f"{_SHORTEST.encode(str(key))}:{_exact_text(it)}" for key, it in value.items())
        return f"{{{','.join(fields)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_exact_text, value))}]"
    return value.text if isinstance(value, ExactNumber) else _SHORTEST.encode(value)


def shown_value(value: object) -> str:
    """A rejected value as TOML and JSON write it, cut to a length that fits a line."""
    text = (
        str(value)
        if isinstance(value, Decimal | float)
        else json.dumps(value, ensure_ascii=False, default=str)
    )
    return text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}..."


def plural(unit: str, count: int) -> str:
    """The unit's name for this count: ``item`` for 1, else ``items``."""
    return unit if count == 1 else f"{unit}s"


def without_body(detail: str) -> str:
    """A rejection by REST for a reader who sent no body: of a command, of a page.

    ``body.name must be a string`` becomes ``name must be a string``.
    """
    for start in ("", "each name in "):
        if detail.startswith(f"{start}body."):
            return start + detail.removeprefix(f"{start}body.")
    return detail.replace("body", "the request", 1) if detail.startswith("body ") else detail
