"""Rows of a table: a bounded scan from a key on, and one row as a whole.

The key to continue at is in the URL, so every part of a table has a permanent link.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import Page, View, Visit, url
from opentalos.gateway.console.pages.table import cells
from opentalos.gateway.console.pages.table.detail import columns
from opentalos.gateway.console.pages.table.tables import trail
from opentalos.gateway.console.pages.topic.payload import names_of
from opentalos.model.checks import json_value

ROWS: Final = 50
ROWS_MAX: Final = 500
SHOWN_COLUMNS_MAX: Final = 12  # besides the key; the others are on the page of the row
_WRONG: Final = (400, 409, 422)  # what the caller asked for cannot be, such as a filter


async def show(visit: Visit) -> View:
    """Rows in key order, or in that of an index."""
    name = visit.places["table"]
    table = await visit.rest.get("tables", name)
    query = visit.query
    document: dict[str, Any] = {
        "limit": query.integer("rows", ROWS, 1, ROWS_MAX),
        "reverse": query.text("reverse") == "1",
    }
    found: dict[str, Any] = {"rows": [], "next": None, "throttled": False}
    failure = ""
    try:
        document |= _asked(visit)
        found = await visit.rest.look("tables", name, "rows", "scan", document=document)
    except RestError as error:
        if error.status not in _WRONG:
            raise
        failure = error.detail
    key, shown = _split(table)
    looks = looks_of(visit, cells.CELL_BYTES_MAX)
    following = json.dumps(found["next"], separators=(",", ":")) if found["next"] else ""
    return View(
        template="table/rows.html",
        title=table["name"],
        data={
            "table": table,
            "tab": "rows",
            "names": shown,
            "hidden_columns": max(0, len(table["columns"]) - len(shown)),
            "rows": [_row(row, table, key, shown, looks) for row in found["rows"]],
            "views": cells.VIEWS,
            "failure": failure,
            "throttled": found["throttled"],
            "next": query.link(start=following) if following else "",
            "first": query.link(start=None) if query.text("start") else "",
            "indexes": list(table["indexes"]),
        },
        cli=(f"talos table scan {name} --limit {document['limit']}",),
        trail=trail(),
    )


async def show_row(visit: Visit) -> View:
    """One row with all its columns."""
    name = visit.places["table"]
    key = parsed_key(visit.query.text("key"))
    if not key:
        raise RestError(404, "the link has no key of a row")
    table = await visit.rest.get("tables", name)
    found = await visit.rest.look("tables", name, "rows", "get", document={"key": key})
    if found["row"] is None:
        raise RestError(404, "there is no row with this key")
    looks = looks_of(visit, cells.WHOLE_BYTES_MAX)
    names = [column["name"] for column in columns(table)]
    own = f"{table['owner']}/{table['name']}"
    return View(
        template="table/row.html",
        title=f"A row of {table['name']}",
        data={
            "table": table,
            "cells": cells.cells_of(found["row"], names, table["columns"], looks),
            "views": cells.VIEWS,
        },
        cli=(f"talos table get {name} KEY",),
        trail=(*trail(), (table["name"], url("tables", own)), ("Rows", url("tables", own, "rows"))),
    )


def looks_of(visit: Visit, bytes_max: int) -> cells.Looks:
    """The view and the masks of the query, with those of the configuration."""
    masked = names_of(visit.settings.masked_fields, visit.query.text("mask"))
    return cells.Looks(visit.query.choice("view", cells.VIEWS), masked, bytes_max)


def parsed_key(text: str) -> Mapping[str, Any]:
    """Values by column. Raises: RestError: it is no JSON object."""
    if not text:
        return {}
    try:
        found = json_value(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RestError(422, 'a key is a JSON object, such as {"customer": 7}')
    return found


def _asked(visit: Visit) -> Mapping[str, Any]:
    """Start, stop, filter and index of the query. Raises: RestError."""
    query = visit.query
    asked: dict[str, Any] = {}
    for name in ("start", "stop"):
        key = parsed_key(query.text(name))
        if key:
            asked[name] = key
    for name in ("filter", "index"):
        if query.text(name):
            asked[name] = query.text(name)
    return asked


def _split(table: Mapping[str, Any]) -> tuple[Sequence[str], Sequence[str]]:
    """Columns of the key, and those that the list shows."""
    ordered = columns(table)
    key = [column["name"] for column in ordered if column["part"]]
    others = [column["name"] for column in ordered if not column["part"]]
    return key, [*key, *others[:SHOWN_COLUMNS_MAX]]


def _row(
    row: Mapping[str, Any],
    table: Mapping[str, Any],
    key: Sequence[str],
    shown: Sequence[str],
    looks: cells.Looks,
) -> Mapping[str, Any]:
    # A link would show what a mask hides.
    hidden = any(name.casefold() in looks.masked for name in key)
    whole = "" if hidden else json.dumps({name: row.get(name) for name in key})
    found = cells.cells_of(row, shown, table["columns"], looks)
    own = f"{table['owner']}/{table['name']}"
    return {"cells": found, "link": url("tables", own, "row", key=whole) if whole else ""}


PAGES = (
    Page(path="tables/{table}/rows", show=show),
    Page(path="tables/{table}/row", show=show_row),
)
