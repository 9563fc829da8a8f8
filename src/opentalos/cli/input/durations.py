"""Durations as options take them: a number of seconds, or with a unit, such as ``12h``."""

from typing import Any, Final

import click

from opentalos.cli.input.times import parse_span

METAVAR: Final = "DURATION"
_SPAN_UNITS: Final = "smhd"


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic for type checkers only
    """Seconds within a range, from ``90``, ``90s``, ``10m``, ``2h`` or ``7d``."""

    name = "duration"

    def __init__(self, seconds: "click.IntRange | click.FloatRange") -> None:
        """``seconds``: the range; an IntRange makes whole seconds."""
        self._seconds = seconds

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | int:
        """The seconds. Raises: click.BadParameter."""
        if isinstance(value, str) and value[-1:].lower() in _SPAN_UNITS and value[:-1]:
            try:
                value = int(parse_span(value).total_seconds())
            except (ValueError, OverflowError) as error:
                self.fail(str(error), param, ctx)
        try:
            found: float | int = self._seconds.convert(value, param, ctx)
        except click.BadParameter as error:
            if "is not in the range" in error.message:
                raise
            self.fail(f"{value!r} is not a duration; examples: 90, 90s, 10m, 2h, 7d", param, ctx)
        return found
