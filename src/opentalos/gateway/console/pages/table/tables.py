"""The list of tables, and the form that creates one."""

import re
from collections.abc import Mapping
from typing import Any, Final

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import EVERYBODY, READERS, Done, Page, View, Visit, url
from opentalos.gateway.console.paging import matching, part

REFRESH_S: Final = 15
ORDERS: Final = ("name", "used", "shards", "altered")
TYPES: Final = (
    "string", "int64", "int32", "int16", "int8", "bool", "float", "double", "binary", "rawbinary",
    "string_set", "int64_set", "bool_set", "double_set", "binary_set",
)  # fmt: skip
COLUMNS_MAX: Final = 500  # of a form
_KEYS: Final = {
    "used": lambda table: table["used_bytes"] or 0,
    "shards": lambda table: table["shards"],
    "altered": lambda table: table["altered_ms"],
}
_SPLIT: Final = re.compile(r"[\s:,]+")


async def show(visit: Visit) -> View:
    """Tables that the caller may see."""
    listed = await visit.rest.get("tables")
    found: list[dict[str, Any]] = list(
        matching(listed["tables"], visit.query.text("filter"), "name", "owner", "description")
    )
    order = visit.query.choice("order", ORDERS)
    if order in _KEYS:
        found.sort(key=_KEYS[order], reverse=True)
    return View(
        template="table/tables.html",
        title="Tables",
        data={
            "part": part(visit.query, found),
            "order": order,
            "states": {"enabled": "good", "disabled": "warn"},
            "most": max((table["used_bytes"] or 0 for table in found), default=0),
        },
        cli=("talos table list",),
        refresh_s=REFRESH_S,
    )


async def show_form(visit: Visit) -> View:
    """The form of a new table."""
    return View(
        template="table/new.html",
        title="New table",
        data={"types": TYPES},
        cli=("talos table create NAME --key COLUMN:TYPE --column COLUMN:TYPE",),
        trail=trail(),
    )


async def create(visit: Visit) -> Done:
    """A new table."""
    form = visit.form
    document: dict[str, Any] = {
        "name": form.get("name", "").strip(),
        "key": key_parts(form.get("key", "")),
        "columns": columns_of(form.get("columns", "")),
        "hashed": "hashed" in form,
        "description": form.get("description", "").strip(),
    }
    if form.get("group", "").strip():
        document["group"] = key_parts(form["group"])
    for name in ("shards", "ttl_s", "read_capacity", "write_capacity"):
        if form.get(name, "").strip():
            document[name] = visit.number(name)
    made = await visit.rest.post("tables", document=document)
    path = url("tables", f"{made['owner']}/{made['name']}")
    return Done(path, f"Table {made['name']} was created.")


def key_parts(text: str) -> list[Any]:
    """Names that are separated by commas; one that starts with ``-`` is descending."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [
        {"column": name[1:].strip(), "descending": True} if name.startswith("-") else name
        for name in names
    ]


def columns_of(text: str) -> Mapping[str, str | None]:
    """``NAME TYPE`` on each line. Raises: RestError: a line has another form."""
    found: dict[str, str | None] = {}
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > COLUMNS_MAX:
        raise RestError(422, f"a form has at most {COLUMNS_MAX} columns")
    for line in lines:
        words = _SPLIT.split(line)
        if len(words) != 2:  # a name and a type
            raise RestError(422, f"column {line[:80]}: write name and type, such as city string")
        found[words[0]] = words[1].lower()
    return found


def trail() -> tuple[tuple[str, str], ...]:
    """The pages above those of a table."""
    return (("Tables", url("tables")),)


PAGES = (
    Page(path="tables", show=show, menu="Tables"),
    Page(path="tables/new", show=show_form, change=create, roles=EVERYBODY - READERS),
)
