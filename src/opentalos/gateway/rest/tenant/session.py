"""REST of sessions: log in, who am I, log out."""

from typing import Any

from opentalos.broker.admin.sessions import Opener, Session
from opentalos.broker.values import role_name
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.errors import NoSession
from opentalos.gateway.rest.routing.forms import PRINTABLE
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import fields, integer, nullable, one_of, text
from opentalos.model.identity import Principal

_TEXT_CHARS_MAX = 256  # of a key id or a secret
_WHO = {
    "principal": text(),
    "organisation": text(),
    "team": text(),
    "role": text(about="What the principal may do in the whole service."),
}
_SESSION = fields(
    opened_with=one_of(*Opener),
    ends_ms=integer(about="Unix milliseconds, however much it is used."),
    idle_ends_ms=integer(about="Unix milliseconds, unless it is used before."),
    csrf_token=text(about="For X-CSRF-Token, in calls that change something."),
)


async def log_in(call: Call) -> Answer:
    """Open a session and set its cookie."""
    sent: dict[str, Any] = call.document
    key = (sent.get("key_id", ""), sent.get("secret", "")) if sent else None
    session, cookie = await call.callers.log_in(call.exchange, key)
    return Answer(_shown(call, session.principal, session), headers=(("Set-Cookie", cookie),))


async def get_session(call: Call) -> Answer:
    """Who the caller is, and its session."""
    return Answer(_shown(call, call.caller, call.callers.current(call.exchange)))


async def log_out(call: Call) -> Answer:
    """End the session and remove its cookie."""
    session = call.callers.session(call.exchange)
    if session is None:
        raise NoSession("this request belongs to no session; send the cookie and no other key")
    cookie = await call.callers.log_out(call.exchange, session)
    return Answer(headers=(("Set-Cookie", cookie),))


def _shown(call: Call, principal: Principal, session: Session | None) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "principal": principal.id,
        "organisation": principal.organisation,
        "team": principal.team,
        "role": role_name(principal),
        "session": None,
    }
    if session is not None:
        shown["session"] = {
            "opened_with": session.token.kind,
            "ends_ms": session.token.ends_ms,
            "idle_ends_ms": min(session.token.idle_ends_ms, session.token.ends_ms),
            "csrf_token": call.callers.proof(session),
        }
    return shown


_TAG = "session"
_REPLY = fields(**_WHO, session=nullable(_SESSION))
ROUTES = (
    Route(
        method="POST", path=_TAG, handler=log_in, tag=_TAG, public=True, status=201,
        summary="Log in: open a session and set its cookie.",
        reply=_REPLY, statuses=(401, 403, 429, 504),
        body=Body(
            fields(
                optional={
                    "key_id": text(PRINTABLE, chars_max=_TEXT_CHARS_MAX),
                    "secret": text(PRINTABLE, chars_max=_TEXT_CHARS_MAX),
                }
            ),
            optional=True,
        ),
        notes="With a key id and a secret, or without a body with an Authorization header or a "
        "client certificate. The session is no longer valid than what opened it.",
    ),
    Route(
        method="GET", path=_TAG, handler=get_session, tag=_TAG,
        summary="Show who the caller is, and its session.", reply=_REPLY,
    ),
    Route(
        method="DELETE", path=_TAG, handler=log_out, tag=_TAG, status=204,
        summary="Log out: end the session on every server.",
        notes="With X-CSRF-Token, as every call of a session that changes something.",
    ),
)  # fmt: skip
