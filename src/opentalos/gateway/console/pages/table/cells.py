"""Values of rows as a page shows them: like payloads of messages, with the same views and masks."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentalos.gateway.console.pages.topic import payload

VIEWS: Final = payload.VIEWS
CELL_BYTES_MAX: Final = 512
WHOLE_BYTES_MAX: Final = 64 << 10


class Cell(NamedTuple):
    """One value. ``view``: json, text, hex, withheld, or the type's name for what is no text."""

    column: str
    text: str
    view: str
    cut: bool = False
    masked: bool = False
    absent: bool = False


class Looks(NamedTuple):
    """How values are shown. ``masked``: names of columns and of JSON fields, in small letters."""

    view: str
    masked: frozenset[str]
    bytes_max: int


def cells_of(
    row: Mapping[str, Any], names: Sequence[str], types: Mapping[str, str], looks: Looks
) -> Sequence[Cell]:
    """A cell for each column."""
    return [_cell(name, row, types.get(name, ""), looks) for name in names]


def _cell(name: str, row: Mapping[str, Any], kind: str, looks: Looks) -> Cell:
    value = row.get(name)
    if value is None:
        return Cell(name, "", kind, absent=True)
    if name.casefold() in looks.masked:
        return Cell(name, payload.MASK, kind, masked=True)
    data = _data(value, kind)
    if data is None:
        text = json.dumps(value, ensure_ascii=False)
        return Cell(name, text[: looks.bytes_max], kind, len(text) > looks.bytes_max)
    named = kind == "string"  # a column is a field, but binary data may have more of its own
    shown = payload.shown(data, looks.view, looks.masked, looks.bytes_max, named=named)
    return Cell(name, shown.text, shown.view, shown.cut, shown.hidden > 0)


def _data(value: Any, kind: str) -> bytes | None:
    """The bytes of a text or of binary data; None: a number, a truth value or a set."""
    if not isinstance(value, str):
        return None
    if kind.endswith("binary"):
        return base64.b64decode(value)
    return value.encode() if kind == "string" else None
