"""REST of principals and their keys."""

from typing import Any

from opentalos.broker.values import IssuedKey, PrincipalInfo
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.forms import ORGANISATION_ID, PRINCIPAL_ID, TEAM_ID
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import boolean, fields, integer, items, not_empty, text
from opentalos.model.errors import PrincipalNotExist
from opentalos.model.identity import Principal

# The broker has the exact rule for each kind of id; these schemas only limit what is sent.

KEY = fields(key_id=text(), created_ms=integer(), disabled=boolean())
_NAMES = {
    "id": text(),
    "number": integer(about="Billing number."),
    "organisation": text(),
    "team": text(),
    "admin": boolean("Service administrator."),
}
_MADE = fields(**_NAMES)
_REFUSES = boolean("Each signed Talos request is accepted only once.")
_PRINCIPAL = fields(
    **_NAMES, created_ms=integer(), disabled=boolean(), refuse_replays=_REFUSES, keys=items(KEY)
)
_CHANGE = not_empty(fields(optional={"disabled": boolean(), "refuse_replays": _REFUSES}))
_ISSUED = fields(key_id=text(), secret=text(about="Shown only once."))


async def list_principals(call: Call) -> Answer:
    """All principals, or the caller alone."""
    listed = call.broker.principals.list_principals(call.caller)
    return Answer({"principals": [_principal(info) for info in listed]})


async def create_principal(call: Call) -> Answer:
    """A new principal, without a key."""
    sent: dict[str, Any] = call.document
    principal = await call.broker.principals.create(
        call.caller,
        sent["id"],
        organisation=sent.get("organisation", ""),
        team=sent.get("team", ""),
        admin=sent.get("admin", False),
    )
    return Answer(_fields(principal))


async def get_principal(call: Call) -> Answer:
    """One principal with its keys."""
    return Answer(_principal(_find(call)))


async def change_principal(call: Call) -> Answer:
    """Disable or enable the principal; accept or refuse replayed requests."""
    wanted: dict[str, bool] = call.document
    principals, name = call.broker.principals, call.places["id"]
    if "disabled" in wanted:
        await principals.set_disabled(call.caller, name, wanted["disabled"])
    if "refuse_replays" in wanted:
        await principals.set_refuse_replays(call.caller, name, wanted["refuse_replays"])
    return Answer(_principal(_find(call)))


async def list_keys(call: Call) -> Answer:
    """Keys without secrets."""
    return Answer({"keys": _keys(_find(call))})


async def create_key(call: Call) -> Answer:
    """An additional key."""
    return _issued(await call.broker.principals.create_key(call.caller, call.places["id"]))


async def rotate_key(call: Call) -> Answer:
    """A new key for this key's principal; the former one stays valid until it is deleted."""
    return _issued(await call.broker.principals.rotate_key(call.caller, call.places["key_id"]))


async def disable_key(call: Call) -> Answer:
    """Disable the key permanently."""
    await call.broker.principals.disable_key(call.caller, call.places["key_id"])
    return Answer()


def _find(call: Call) -> PrincipalInfo:
    name = call.places["id"]
    info = call.broker.principals.find(call.caller, name)
    if info is None:
        raise PrincipalNotExist(f"principal {name[:80]} does not exist")
    return info


def _fields(principal: Principal) -> dict[str, Any]:
    return {
        "id": principal.id,
        "number": principal.number,
        "organisation": principal.organisation,
        "team": principal.team,
        "admin": principal.admin,
    }


def _principal(info: PrincipalInfo) -> dict[str, Any]:
    return _fields(info.principal) | {
        "created_ms": info.created_ms,
        "disabled": info.disabled,
        "refuse_replays": info.refuse_replays,
        "keys": _keys(info),
    }


def _keys(info: PrincipalInfo) -> list[dict[str, Any]]:
    return [
        {"key_id": key.key_id, "created_ms": key.created_ms, "disabled": key.disabled}
        for key in info.keys
    ]


def _issued(key: IssuedKey) -> Answer:
    return Answer({"key_id": key.key_id, "secret": key.secret})


_TAG = "principals"
ROUTES = (
    Route(
        method="GET", path="principals", handler=list_principals, tag=_TAG,
        summary="List principals: all for an administrator, else the caller alone.",
        reply=fields(principals=items(_PRINCIPAL)),
    ),
    Route(
        method="POST", path="principals", handler=create_principal, tag=_TAG,
        summary="Create a principal; for administrators.",
        status=201, reply=_MADE, statuses=(409, 422),
        body=Body(
            fields(
                id=text(PRINCIPAL_ID),
                optional={
                    "organisation": text(ORGANISATION_ID, about="Organisation id (CL...)."),
                    "team": text(TEAM_ID, about="Team id (CI...)."),
                    "admin": boolean(),
                },
            )
        ),
    ),
    Route(
        method="GET", path="principals/{id}", handler=get_principal, tag=_TAG,
        summary="Show a principal with its keys.", reply=_PRINCIPAL,
    ),
    Route(
        method="PATCH", path="principals/{id}", handler=change_principal, tag=_TAG,
        summary="Disable a principal or enable it again, refuse replays; for administrators.",
        reply=_PRINCIPAL, body=Body(_CHANGE), statuses=(409,),
    ),
    Route(
        method="GET", path="principals/{id}/keys", handler=list_keys, tag=_TAG,
        summary="List the keys of a principal, without secrets.",
        reply=fields(keys=items(KEY)),
    ),
    Route(
        method="POST", path="principals/{id}/keys", handler=create_key, tag=_TAG,
        summary="Create a key; the secret is shown once.", status=201, reply=_ISSUED,
        statuses=(409,),
    ),
    Route(
        method="POST", path="keys/{key_id}/rotate", handler=rotate_key, tag=_TAG,
        summary="Create a successor of this key, which stays valid until it is deleted.",
        status=201, reply=_ISSUED, statuses=(409,),
    ),
    Route(
        method="DELETE", path="keys/{key_id}", handler=disable_key, tag=_TAG,
        summary="Disable a key permanently.", status=204, statuses=(409,),
    ),
)  # fmt: skip
