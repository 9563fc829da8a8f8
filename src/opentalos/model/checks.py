"""Checks of single values from outside: one predicate and one sentence for each kind of value.

The REST schemas, the server's configuration and the TOML settings of pipelines call these, so the
three accept the same values and reject them in the same words. Each function returns the value or
raises a ValueError that says what is allowed, without naming the value: ``must be true or false``.
The caller adds the place: a field of the body, a key of a section, a line of a file.
"""

import json
import math
from collections.abc import Iterable
from decimal import Decimal

_SHOWN_CHARS_MAX = 60


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
