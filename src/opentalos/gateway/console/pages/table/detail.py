"""One table: schema, settings, rights, deletion."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import EVERYBODY, READERS, Done, Page, View, Visit, url
from opentalos.gateway.console.pages.table.tables import columns_of, trail
from opentalos.gateway.console.paging import part

REFRESH_S: Final = 10
_CHANGERS: Final = EVERYBODY - READERS


async def show(visit: Visit) -> View:
    """Columns, indexes, state and use."""
    name = visit.places["table"]
    table = await visit.rest.get("tables", name)
    return View(
        template="table/table.html",
        title=table["name"],
        data={
            "table": table,
            "tab": "",
            "part": part(visit.query, columns(table), rows=100),
            "key": [part["column"] for part in (*table["group"], *table["key"])],
        },
        cli=(f"talos table describe {name}",),
        refresh_s=REFRESH_S,
        trail=trail(),
    )


def columns(table: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Columns with what they are part of; those of the key first, in its order."""
    group = {part["column"]: part["descending"] for part in table["group"]}
    key = {part["column"]: part["descending"] for part in table["key"]}
    ordered = [*group, *(name for name in key if name not in group)]
    ordered += sorted(name for name in table["columns"] if name not in {*group, *key})
    return [
        {
            "name": name,
            "type": table["columns"].get(name, ""),
            "part": "group" if name in group else "key" if name in key else "",
            "descending": group.get(name) or key.get(name) or False,
            "indexes": [
                index
                for index, found in table["indexes"].items()
                if name in {part["column"] for part in found["columns"]}
            ],
        }
        for name in ordered
    ]


async def show_settings(visit: Visit) -> View:
    """The forms to change, disable and drop the table."""
    name = visit.places["table"]
    table = await visit.rest.get("tables", name)
    return View(
        template="table/settings.html",
        title=table["name"],
        data={"table": table, "tab": "settings"},
        cli=(
            f"talos table alter {name} --column COLUMN:TYPE",
            f"talos table disable {name}",
            f"talos table drop {name}",
        ),
        trail=trail(),
    )


async def change_settings(visit: Visit) -> Done:
    """Change, enable, disable or drop: the field ``action`` says what."""
    name, action = visit.places["table"], visit.form.get("action", "")
    here = url("tables", name)
    if action == "drop":
        table = await visit.rest.get("tables", name)
        if visit.form.get("confirmed", "").strip() != table["name"]:
            raise RestError(422, "nothing was dropped: the name that you typed is another one")
        await visit.rest.delete("tables", name)
        return Done(url("tables"), f"Table {name} was dropped.")
    if action in ("enable", "disable"):
        await visit.rest.post("tables", name, action)
        return Done(here, f"Table {name} is {action}d.")
    document = _changes(visit)
    table = await visit.rest.patch("tables", name, document=document)
    return Done(here, f"Table {table['name']} was changed.")


def _changes(visit: Visit) -> Mapping[str, Any]:
    """What the form sends; a field that is empty takes the default. Raises: RestError."""
    form = visit.form
    found: dict[str, Any] = {"description": form.get("description", "").strip()}
    for name in ("read_capacity", "write_capacity", "quota_bytes", "ttl_s"):
        sent = form.get(name, "").strip()
        found[name] = visit.number(name) if sent else None
        if sent and found[name] is None:
            raise RestError(422, f"{name} must be a number, not {sent[:40]}")
    added = dict(columns_of(form.get("added", "")))
    removed = [name.strip() for name in form.get("removed", "").split(",") if name.strip()]
    changed: Mapping[str, str | None] = added | dict.fromkeys(removed)
    if changed:
        found["columns"] = changed
    version = visit.number("schema_version")
    if version:
        found["schema_version"] = version  # of the page, so that no other change is overwritten
    return found


PAGES = (
    Page(path="tables/{table}", show=show),
    Page(path="tables/{table}/settings", show=show_settings, change=change_settings,
         roles=_CHANGERS),
)  # fmt: skip
