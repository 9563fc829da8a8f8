"""Paging of lists on the server: which part is shown, and the links to the others."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from opentalos.gateway.console.page import Query

ROWS: Final = 50
ROWS_MAX: Final = 500


class Part(NamedTuple):
    """Rows of a list, and where they lie in it. ``before``, ``after``: links, or ""."""

    rows: Sequence[Any]
    first: int  # number of the first row, from 1; 0: there is none
    last: int
    total: int
    before: str
    after: str


def part(query: Query, found: Sequence[Any], rows: int = ROWS, rows_max: int = ROWS_MAX) -> Part:
    """The rows that ``?page=`` and ``?rows=`` ask for; a page beyond the end is the last one."""
    rows = query.integer("rows", rows, 1, rows_max)
    total = len(found)
    pages = max(1, -(-total // rows))
    page = query.integer("page", 1, 1, pages)
    start = (page - 1) * rows
    shown = found[start : start + rows]
    return Part(
        shown,
        start + 1 if shown else 0,
        start + len(shown),
        total,
        query.link(page=page - 1 if page > 2 else None) if page > 1 else "",  # 1 is the default
        query.link(page=page + 1) if page < pages else "",
    )


def matching(found: Sequence[Any], text: str, *names: str) -> Sequence[Any]:
    """The rows with a text in one of these fields, whatever its case."""
    wanted = text.casefold()
    if not wanted:
        return found
    return [row for row in found if any(wanted in str(row.get(n, "")).casefold() for n in names)]
