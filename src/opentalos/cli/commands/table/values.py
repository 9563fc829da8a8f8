"""Rows and conditions as users type them, converted to JSON by the types of the columns."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import click

from opentalos.model.checks import json_value
from opentalos.model.errors import BadRequest

Types = Mapping[str, str]  # by column, as REST names them
_CONDITION: Final = re.compile(r"([^\s=!<>]++)\s*+(=|!=|>=|<=|>|<)(.*)")
_NULL: Final = "null"
_BOOLS: Final = {"true": True, "false": False}
ROW_HELP: Final = (
    "ROW is COLUMN=VALUE for each column, or one JSON object. Binary values are base64, sets are "
    "JSON arrays, null is an unset value."
)


def row_of(given: Sequence[str], types: Types) -> dict[str, Any]:
    """Parse the arguments of a row. Raises: click.UsageError."""
    if len(given) == 1 and given[0].lstrip().startswith("{"):
        return _object(given[0], "the row")
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"{text!r} is neither COLUMN=VALUE nor a JSON object")
        if name in found:
            raise click.UsageError(f"duplicate column {name}")
        found[name] = _value(name, value, types)
    if not found:
        raise click.UsageError("missing ROW: pass COLUMN=VALUE or a JSON object")
    return found


def condition_of(text: str, types: Types) -> dict[str, Any]:
    """Parse a condition like ``n >= 5``. Raises: click.BadParameter."""
    found = _CONDITION.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(f"{text!r} is not COLUMN OPERATOR VALUE", param_hint="--if")
    column, operator, value = found.groups()
    return {"column": column, "operator": operator, "value": _value(column, value.strip(), types)}


def rows_of(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Parse lines with one JSON object each. Raises: BadRequest: names the line."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _object(line, f"line {number}")
            except click.UsageError as error:
                raise BadRequest(error.message) from None


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        found = json_value(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{what} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise click.UsageError(f"{what} is not a JSON object")
    return found


def _value(name: str, text: str, types: Types) -> Any:
    kind = types.get(name)
    if kind is None:
        known = ", ".join(types)
        raise click.UsageError(f"the table has no column {name!r}; it has {known}")
    if text == _NULL:
        return None
    if kind in ("string", "binary", "rawbinary"):
        return text
    try:
        if kind == "bool":
            return _BOOLS[text]
        if kind in ("float", "double"):
            return text if text in ("Infinity", "-Infinity") else float(text)
        if kind.endswith("_set"):
            return json_value(text)
        return int(text)
    except (ValueError, KeyError, RecursionError):
        raise click.UsageError(f"column {name} has type {kind}, {text!r} is not valid") from None
