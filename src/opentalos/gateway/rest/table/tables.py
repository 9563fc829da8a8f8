"""REST of structured tables: create, describe, change, drop, enable, disable."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from opentalos.broker.tables.api.admin import check_version
from opentalos.broker.tables.api.values import AppRight, Table, TableSpec, TeamRight, WhenFull
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.errors import Unusable, usable
from opentalos.gateway.rest.routing.forms import NEW_NAME
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import (
    fields,
    integer,
    items,
    nullable,
    one_of,
    table,
    text,
)
from opentalos.gateway.rest.table import format as table_format
from opentalos.gateway.rest.table.format import I32_MAX
from opentalos.model.errors import InvalidName, TableNotExist, VersionConflict
from opentalos.model.table import TableState

ALTER_S = 20.0  # until every server has applied the table's new schema
ALTER_ATTEMPTS_MAX = 8  # when concurrent changes conflict
DESCRIBED_AT_ONCE = 64  # concurrent reads of storage usage for a list
GRANTEES_MAX = 1_000
# The protocol's other application rights do not apply to keys of this server.
_APP_RIGHTS = {
    "app-read": AppRight.APP_SECRET_READ,
    "app-write": AppRight.APP_SECRET_WRITE,
    "public-read": AppRight.PUBLIC_READ,
    "public-write": AppRight.PUBLIC_WRITE,
}
_TEAM_RIGHTS = {right.name.lower().replace("_", "-"): right for right in TeamRight}
_STATES = [state.name.lower().replace("_", "-") for state in TableState]
_GRANTEE = text(chars_min=1, chars_max=256)
_APPS = table(items(one_of(*_APP_RIGHTS), maximum=len(_APP_RIGHTS)), _GRANTEE, maximum=GRANTEES_MAX)
_TEAMS = table(
    items(one_of(*_TEAM_RIGHTS), maximum=len(_TEAM_RIGHTS)), _GRANTEE, maximum=GRANTEES_MAX
)
_UNITS = nullable(integer(1, I32_MAX, about="Units per second; null: the server's default."))
_WHEN_FULL = one_of(
    *WhenFull,
    about="If a stream's topic is unavailable: refuse rejects writes, gap stops the stream.",
)
_DECIDED = {
    "description": text(chars_max=256),
    "read_capacity": _UNITS,
    "write_capacity": _UNITS,
    "quota_bytes": nullable(integer(1, about="Storage limit of the rows; null: no limit.")),
    "apps": {**_APPS, "description": "Rights by principal."},
    "teams": {**_TEAMS, "description": "Rights by team or organisation."},
    "when_full": _WHEN_FULL,
}
TABLE = {
    "name": text(),
    "owner": text(),
    "resource": text(about="Identifies the table; a recreated table has another one."),
    "state": one_of(*_STATES),
    "created_ms": integer(),
    "altered_ms": integer(),
    **table_format.SHOWN,
    "description": text(),
    "read_capacity": nullable(integer()),
    "write_capacity": nullable(integer()),
    "quota_bytes": nullable(integer()),
    "used_bytes": nullable(integer(about="Use of the quota; null: no quota, or not yet known.")),
    "apps": table(items(text())),
    "teams": table(items(text())),
    "when_full": one_of(*WhenFull),
}


async def list_tables(call: Call) -> Answer:
    """Tables that the caller may see."""
    found = await call.broker.table_admin.list(call.caller, visible=True)
    tables: list[dict[str, Any]] = []
    for first in range(0, len(found), DESCRIBED_AT_ONCE):
        part = found[first : first + DESCRIBED_AT_ONCE]
        tables += await asyncio.gather(*(_described(call, table) for table in part))
    return Answer({"tables": tables})


async def create_table(call: Call) -> Answer:
    """A new table, enabled."""
    call.exchange.extend(ALTER_S)
    sent: dict[str, Any] = call.document
    spec = _decided(TableSpec(schema=table_format.schema_of(sent)), sent)
    try:
        made = await call.broker.table_admin.create(call.caller, sent["name"], spec)
    except InvalidName as error:  # of a stream's topic: its own name fits the schema
        raise Unusable(str(error)) from error
    return Answer(await _described(call, made))


async def get_table(call: Call) -> Answer:
    """Everything about a table."""
    return Answer(await _described(call, await table_of(call)))


async def change_table(call: Call) -> Answer:
    """Change columns, time to live or settings."""
    sent: dict[str, Any] = call.document

    def change(now: Table) -> TableSpec:
        spec = replace(now.spec, schema=table_format.changed(now.schema, sent))
        return _decided(spec, sent)

    return Answer(await _described(call, await alter(call, change, sent.get("schema_version"))))


async def drop_table(call: Call) -> Answer:
    """Drop the table."""
    call.exchange.extend(ALTER_S)
    await call.broker.table_admin.drop(call.caller, name_of(await table_of(call)))
    return Answer()


async def enable_table(call: Call) -> Answer:
    """Enable reads and writes."""
    call.exchange.extend(ALTER_S)
    admin, name = call.broker.table_admin, name_of(await table_of(call))
    return Answer(await _described(call, await admin.enable(call.caller, name)))


async def disable_table(call: Call) -> Answer:
    """Disable reads and writes."""
    call.exchange.extend(ALTER_S)
    admin, name = call.broker.table_admin, name_of(await table_of(call))
    return Answer(await _described(call, await admin.disable(call.caller, name)))


async def accept(call: Call) -> Answer:
    """The table's plain name means this table to the caller from now on."""
    await _set_accepted(call, accepted=True)
    return Answer()


async def decline(call: Call) -> Answer:
    """The plain name does not mean it any more."""
    await _set_accepted(call, accepted=False)
    return Answer()


async def _set_accepted(call: Call, *, accepted: bool) -> None:
    name = name_of(await table_of(call))
    with usable():
        await call.broker.table_admin.set_accepted(call.caller, name, accepted)


async def table_of(call: Call, *, fresh: bool = False) -> Table:
    """The table of the path. Raises: TableNotExist, also for an invalid name; PermissionDenied."""
    name = call.places["table"]
    try:
        return await call.broker.table_admin.describe(call.caller, name, fresh=fresh)
    except InvalidName as error:
        raise TableNotExist(f"table {name} does not exist") from error


def name_of(found: Table) -> str:
    """The qualified name, which does not depend on the caller."""
    return f"{found.owner}/{found.name}"


async def alter(
    call: Call, change: Callable[[Table], TableSpec], version: int | None = None
) -> Table:
    """Change the table's spec on all servers; concurrent changes are kept.

    Args: version: the schema version that the table must have; None: any.
    Raises: VersionConflict: it has another version; others as the broker's ``alter``.
    """
    call.exchange.extend(ALTER_S)
    admin, attempts = call.broker.table_admin, 1 if version is not None else ALTER_ATTEMPTS_MAX
    while True:
        attempts -= 1
        found = await table_of(call, fresh=True)
        expected = found.schema.version if version is None else version
        try:
            check_version(found, expected)
            return await admin.alter(call.caller, name_of(found), change(found), expected)
        except InvalidName as error:  # of a stream's topic
            raise Unusable(str(error)) from error
        except VersionConflict:
            if not attempts:
                raise


async def _described(call: Call, found: Table) -> dict[str, Any]:
    """A table as JSON."""
    return {
        "name": found.name,
        "owner": found.owner,
        "resource": found.resource,
        "state": found.state.name.lower().replace("_", "-"),
        "created_ms": found.created_ms,
        "altered_ms": found.altered_ms,
        **table_format.shown(found.schema),
        "description": found.description,
        "read_capacity": found.read_capacity,
        "write_capacity": found.write_capacity,
        "quota_bytes": found.quota_bytes,
        "used_bytes": await call.broker.table_admin.used_bytes(found),
        "apps": {who: _names(_APP_RIGHTS, rights) for who, rights in found.app_acl.items()},
        "teams": {who: _names(_TEAM_RIGHTS, rights) for who, rights in found.team_acl.items()},
        "when_full": found.when_full.value,
    }


def _decided(spec: TableSpec, sent: dict[str, Any]) -> TableSpec:
    """The spec with the sent settings that are not part of the schema."""
    plain = ("description", "read_capacity", "write_capacity", "quota_bytes")
    changes: dict[str, Any] = {name: sent[name] for name in plain if name in sent}
    if "when_full" in sent:
        changes["when_full"] = WhenFull(sent["when_full"])
    for name, of, rights in (
        ("apps", "app_acl", _APP_RIGHTS), ("teams", "team_acl", _TEAM_RIGHTS),
    ):  # fmt: skip
        if name in sent:
            changes[of] = {
                who: tuple(rights[right] for right in granted)
                for who, granted in sent[name].items()
            }
    return replace(spec, **changes)


def _names(known: dict[str, Any], rights: tuple[Any, ...]) -> list[str]:
    names = {right: name for name, right in known.items()}
    return [names.get(right, right.name.lower().replace("_", "-")) for right in rights]


_TAG = "tables"
_PATH = "tables/{table}"
ROUTES = (
    Route(
        method="GET", path="tables", handler=list_tables, tag=_TAG,
        summary="List the tables that the caller may see.",
        reply=fields(tables=items(fields(**TABLE))),
    ),
    Route(
        method="POST", path="tables", handler=create_table, tag=_TAG, status=201,
        summary="Create a table, enabled.", reply=fields(**TABLE), statuses=(409, 422),
        notes=(
            "A key part is a column's name, or an object for descending order. Each column of "
            "group "
            "and key must be listed in columns, too. The topic of a stream must exist, and the "
            "table's owner must be allowed to put into it."
        ),
        body=Body(
            fields(
                name=text(NEW_NAME, about="A plain name, or ORGANISATION/NAME."),
                key=table_format.PARTS,
                columns=table_format.COLUMNS,
                optional={**table_format.SCHEMA_FIELDS, **_DECIDED},
            )
        ),
    ),
    Route(
        method="GET", path=_PATH, handler=get_table, tag=_TAG,
        summary="Describe a table.", reply=fields(**TABLE),
    ),
    Route(
        method="PATCH", path=_PATH, handler=change_table, tag=_TAG,
        summary="Change a table; null removes a column or an index.", reply=fields(**TABLE),
        statuses=(409, 422),
        notes=(
            "Keys, hash and shards cannot be changed, and indexes can only be dropped. A column "
            "that "
            "a key, an index or an enabled stream names cannot be removed. apps and teams replace "
            "former grants. If the table's version differs from schema_version, nothing is changed "
            "(409); each change increments it. The reply means that every server uses the new "
            "schema."
        ),
        body=Body(
            fields(
                optional={
                    **table_format.CHANGE_FIELDS,
                    **_DECIDED,
                    "schema_version": integer(1, I32_MAX, about="Version to change."),
                }
            )
        ),
    ),
    Route(
        method="DELETE", path=_PATH, handler=drop_table, tag=_TAG, status=204,
        summary="Drop a table with its rows; the topics of its streams remain.", statuses=(409,),
    ),
    Route(
        method="POST", path=_PATH + "/enable", handler=enable_table, tag=_TAG,
        summary="Enable reads and writes of a table.", reply=fields(**TABLE),
        statuses=(409, 422),
    ),
    Route(
        method="POST", path=_PATH + "/disable", handler=disable_table, tag=_TAG,
        summary="Disable reads and writes of a table until it is enabled again.",
        reply=fields(**TABLE), statuses=(409, 422),
    ),
    Route(
        method="PUT", path=_PATH + "/acceptance", handler=accept, tag=_TAG, status=204,
        summary="Accept the rights that another owner granted to the caller.",
        notes=(
            "From then on the table's plain name means this table to the caller, for clients that "
            "cannot write OWNER/NAME. Taking the rights back ends it. A name means one table only: "
            "it is rejected if the caller has or accepted another one of that name."
        ),
        statuses=(409, 422),
    ),
    Route(
        method="DELETE", path=_PATH + "/acceptance", handler=decline, tag=_TAG, status=204,
        summary="Take an acceptance back; the rights remain.", statuses=(409,),
    ),
)  # fmt: skip
