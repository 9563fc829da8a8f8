"""REST of permissions on a topic."""

from collections.abc import Mapping
from functools import cache

from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.errors import usable
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import fields, items, one_of, table
from opentalos.gateway.rest.topic.naming import topic_of
from opentalos.model.errors import InvalidName, TopicNotExist
from opentalos.model.identity import Permission

GRANTABLE = (Permission.PUT_MESSAGE, Permission.GET_MESSAGE, Permission.DESCRIBE_TOPIC)
_ALL = (*GRANTABLE, Permission.CHANGE_TOPIC, Permission.CHANGE_PERMISSION)
_NAMES = {str(permission.name): permission for permission in _ALL}
_SHOWN = items(one_of(*_NAMES))
_SENT = fields(
    permissions=items(
        one_of(*(str(permission.name) for permission in GRANTABLE)),
        minimum=1,
        maximum=len(GRANTABLE),
    )
)


async def list_permissions(call: Call) -> Answer:
    """Permissions by grantee; to a grantee, only what concerns it."""
    topic = topic_of(call, Permission.DESCRIBE_TOPIC)
    found: Mapping[str, int] = call.broker.permissions.list_permission(call.caller, topic.resource)
    return Answer({"permissions": {name: _shown(mask) for name, mask in found.items()}})


async def grant(call: Call) -> Answer:
    """Set exactly these permissions."""
    topic = topic_of(call, Permission.CHANGE_PERMISSION)
    permission = Permission.NONE
    for name in call.document["permissions"]:
        permission |= _NAMES[name]
    await call.broker.permissions.grant_to(
        call.caller, topic.resource, call.places["grantee"], permission
    )
    return Answer()


async def revoke(call: Call) -> Answer:
    """Revoke all permissions."""
    topic = topic_of(call, Permission.CHANGE_PERMISSION)
    await call.broker.permissions.revoke_from(call.caller, topic.resource, call.places["grantee"])
    return Answer()


async def accept(call: Call) -> Answer:
    """The topic's plain name means this topic to the caller from now on."""
    await _set_accepted(call, accepted=True)
    return Answer()


async def decline(call: Call) -> Answer:
    """The plain name does not mean it any more."""
    await _set_accepted(call, accepted=False)
    return Answer()


async def _set_accepted(call: Call, accepted: bool) -> None:
    name = call.places["topic"]
    try:
        with usable():
            await call.broker.permissions.set_accepted(call.caller, name, accepted)
    except InvalidName as error:
        raise TopicNotExist(f"topic {name} does not exist") from error


@cache  # there are few masks
def _shown(mask: int) -> list[str]:
    return [name for name, permission in _NAMES.items() if mask & permission]


_TAG = "permissions"
_PATH = "topics/{topic}/permissions"
ROUTES = (
    Route(
        method="GET", path=_PATH, handler=list_permissions, tag=_TAG,
        summary="List the permissions on a topic, its owner first.",
        notes="Callers who cannot change permissions see the owner and their own.",
        reply=fields(permissions=table(_SHOWN)),
    ),
    Route(
        method="PUT", path=_PATH + "/{grantee}", handler=grant, tag=_TAG, status=204,
        summary="Set what a principal, team or organisation may do; guest is everybody.",
        body=Body(_SENT), statuses=(409,),
    ),
    Route(
        method="DELETE", path=_PATH + "/{grantee}", handler=revoke, tag=_TAG, status=204,
        summary="Take everything back.", statuses=(409,),
    ),
    Route(
        method="PUT", path="topics/{topic}/acceptance", handler=accept, tag=_TAG, status=204,
        summary="Accept the permissions that another owner granted to the caller.",
        notes=(
            "From then on the topic's plain name means this topic to the caller, for clients that "
            "cannot write OWNER/NAME. Taking the permissions back ends it. A name means one topic "
            "only: it is rejected if the caller has or accepted another one of that name."
        ),
        statuses=(409, 422),
    ),
    Route(
        method="DELETE", path="topics/{topic}/acceptance", handler=decline, tag=_TAG, status=204,
        summary="Take an acceptance back; the permissions remain.", statuses=(409,),
    ),
)  # fmt: skip
