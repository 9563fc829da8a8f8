"""The output formats of commands: text for people, JSON lines and TSV for programs."""

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, ParamSpec, TypeVar

import click

FORMATS: Final = ("text", "json", "tsv")
_GAP: Final = "  "
_TSV: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_TSV_TABLE: Final = str.maketrans(_TSV)
_P = ParamSpec("_P")
_T = TypeVar("_T")
Row = Mapping[str, Any]


class Output:
    """Writes rows in one format; a row is a flat mapping from column to value."""

    def __init__(self, form: str) -> None:
        self.form = form

    def table(self, columns: Sequence[str], rows: Iterable[Row], *, empty: str = "") -> None:
        """Write rows.

        Args:    columns: shown as text and TSV; JSON has every field of a row;
                 empty: printed on stderr in text format if there are no rows.
        """
        if self.form == "json":
            for row in rows:
                click.echo(json.dumps(row, ensure_ascii=False))
            return
        listed = list(rows)
        if self.form == "tsv":
            click.echo("\t".join(columns))
            for row in listed:
                click.echo("\t".join(escaped(row.get(name)) for name in columns))
        elif listed:
            heads = [name.replace("_", " ").upper() for name in columns]
            cells = [[_cell(row.get(name)) for name in columns] for row in listed]
            click.echo("\n".join(aligned([heads, *cells])))
        elif empty:
            click.echo(empty, err=True)

    def record(self, row: Row) -> None:
        """Write one row with many fields: one field per line as text."""
        if self.form == "text":
            width = max(map(len, row), default=0)
            for name, value in row.items():
                click.echo(f"{name.replace('_', ' ') + ':':<{width + 2}}{_cell(value)}".rstrip())
        else:
            self.table(list(row), [row])

    def done(self, text: str, **fields: Any) -> None:
        """Report what a command did: the sentence as text, the fields for programs."""
        if self.form == "text":
            click.echo(text)
        else:
            self.record(fields)


def with_format(command: Callable[_P, _T]) -> Callable[..., _T]:
    """Add the option ``--format``; the command receives ``output``."""

    @functools.wraps(command)
    def run(*arguments: Any, **named: Any) -> _T:
        output = Output(named.pop("form"))
        return command(*arguments, output=output, **named)  # type: ignore[arg-type]

    return click.option(
        "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True,
        help="Output format; json: one object per line, tsv: a header and escaped values.",
    )(run)  # fmt: skip


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines in which each column has one width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        _GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def escaped(value: Any) -> str:
    r"""A TSV field: backslash, tab and line breaks as ``\\ \t \n \r``; None is empty."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.translate(_TSV_TABLE)


def _cell(value: Any) -> str:
    """A value as text for people; characters that would break the line are escaped."""
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return _cell(", ".join(f"{name}={part}" for name, part in value.items()))
    if isinstance(value, list | tuple):
        return _cell(", ".join(map(str, value)))
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in str(value))
