"""REST of principals and their keys."""

from typing import Any

from opentalos.broker.values import ROLE_NAMES, IssuedKey, PrincipalInfo, role_name
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.errors import usable
from opentalos.gateway.rest.routing.forms import ORGANISATION_ID, PRINCIPAL_ID, TEAM_ID
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import (
    boolean,
    fields,
    integer,
    items,
    not_empty,
    one_of,
    text,
)
from opentalos.model.errors import BadRequest, PrincipalNotExist
from opentalos.model.identity import KeyLimits, Principal, Scope

# The broker has the exact rule for each kind of id; these schemas only limit what is sent.

_LIST_MAX = 32  # scopes or networks that a request may have; the broker has the exact rule
_ADDRESS_CHARS_MAX = 64
_EXPIRES = integer(about="Unix time in ms from which the key is rejected; 0: never.")
_LIMITS = {
    "scopes": items(
        one_of(*Scope, about="What the key may do, as far as its principal may; none: everything."),
        maximum=_LIST_MAX,
    ),
    "expires_ms": _EXPIRES,
    "addresses": items(
        text(
            chars_max=_ADDRESS_CHARS_MAX,
            about="Network (CIDR) that the key may be used from; none: any.",
        ),
        maximum=_LIST_MAX,
    ),
}
KEY = fields(
    key_id=text(),
    created_ms=integer(),
    disabled=boolean(),
    **_LIMITS,
    last_used_ms=integer(about="Exact to some minutes; 0: not known to be used."),
)
_ROLE = one_of(*ROLE_NAMES, about="What the principal may do in the whole service.")
_NAMES = {
    "id": text(),
    "number": integer(about="Billing number."),
    "organisation": text(),
    "team": text(),
    "admin": boolean("Service administrator."),
    "role": _ROLE,
}
_MADE = fields(**_NAMES)
_REFUSES = boolean("Each signed Talos request is accepted only once.")
_PRINCIPAL = fields(
    **_NAMES, created_ms=integer(), disabled=boolean(), refuse_replays=_REFUSES, keys=items(KEY)
)
_CHANGE = not_empty(
    fields(optional={"disabled": boolean(), "refuse_replays": _REFUSES, "role": _ROLE})
)
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
        role=sent.get("role", ""),
    )
    return Answer(_fields(principal))


async def get_principal(call: Call) -> Answer:
    """One principal with its keys."""
    return Answer(_principal(_find(call)))


async def change_principal(call: Call) -> Answer:
    """Disable or enable the principal; accept or refuse replayed requests; change its role."""
    wanted: dict[str, Any] = call.document
    principals, name = call.broker.principals, call.places["id"]
    if "disabled" in wanted:
        await principals.set_disabled(call.caller, name, wanted["disabled"])
    if "refuse_replays" in wanted:
        await principals.set_refuse_replays(call.caller, name, wanted["refuse_replays"])
    if "role" in wanted:
        with usable():
            await principals.set_role(call.caller, name, wanted["role"])
    return Answer(_principal(_find(call)))


async def list_keys(call: Call) -> Answer:
    """Keys without secrets."""
    return Answer({"keys": _keys(_find(call))})


async def create_key(call: Call) -> Answer:
    """An additional key."""
    sent: dict[str, Any] = call.document
    with usable():
        limits = _limits(sent) if sent else None
        principals = call.broker.principals
        return _issued(await principals.create_key(call.caller, call.places["id"], limits))


async def rotate_key(call: Call) -> Answer:
    """A new key for this key's principal; the former one stays valid until it is deleted."""
    principals, key_id = call.broker.principals, call.places["key_id"]
    expires_ms = call.document.get("expires_ms")
    with usable():
        return _issued(await principals.rotate_key(call.caller, key_id, expires_ms))


async def change_key(call: Call) -> Answer:
    """Another end of the key."""
    key_id = call.places["key_id"]
    with usable():
        await call.broker.principals.ends.change(call.caller, key_id, call.document["expires_ms"])
    return Answer()


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
        "role": role_name(principal),
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
        {
            "key_id": key.key_id,
            "created_ms": key.created_ms,
            "disabled": key.disabled,
            "scopes": list(key.limits.scopes),
            "expires_ms": key.limits.expires_ms,
            "addresses": list(key.limits.addresses),
            "last_used_ms": key.last_used_ms,
        }
        for key in info.keys
    ]


def _limits(sent: dict[str, Any]) -> KeyLimits:
    """Raises: BadRequest."""
    try:
        return KeyLimits(
            scopes=tuple(sent.get("scopes", ())),
            expires_ms=sent.get("expires_ms", 0),
            addresses=tuple(sent.get("addresses", ())),
        )
    except ValueError as error:
        raise BadRequest(
            f"invalid limits of a key: {error}; write networks as 10.0.0.0/8 or 2001:db8::/32"
        ) from error


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
                    "role": _ROLE,
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
        summary="Disable or enable a principal, refuse replays, set its role; for administrators.",
        reply=_PRINCIPAL, body=Body(_CHANGE), statuses=(409, 422),
    ),
    Route(
        method="GET", path="principals/{id}/keys", handler=list_keys, tag=_TAG,
        summary="List the keys of a principal, without secrets.",
        reply=fields(keys=items(KEY)),
    ),
    Route(
        method="POST", path="principals/{id}/keys", handler=create_key, tag=_TAG,
        summary="Create a key; the secret is shown once.", status=201, reply=_ISSUED,
        statuses=(409, 422), body=Body(fields(optional=_LIMITS), optional=True),
    ),
    Route(
        method="POST", path="keys/{key_id}/rotate", handler=rotate_key, tag=_TAG,
        summary="Create a successor of this key, which stays valid until it is deleted.",
        status=201, reply=_ISSUED, statuses=(409, 422),
        body=Body(fields(optional={"expires_ms": _EXPIRES}), optional=True),
    ),
    Route(
        method="PATCH", path="keys/{key_id}", handler=change_key, tag=_TAG, status=204,
        summary="Set, move or remove the end of a live key; its secret stays.", statuses=(409, 422),
        body=Body(fields(expires_ms=_EXPIRES)),
    ),
    Route(
        method="DELETE", path="keys/{key_id}", handler=disable_key, tag=_TAG,
        summary="Disable a key permanently.", status=204, statuses=(409,),
    ),
)  # fmt: skip
