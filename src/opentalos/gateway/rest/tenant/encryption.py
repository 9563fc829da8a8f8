"""REST of encryption at rest: its state, and new versions of data keys."""

from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.errors import usable
from opentalos.gateway.rest.routing.forms import PRINCIPAL_ID
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import boolean, fields, integer, items, text

TENANTS_MAX = 1_000  # of one call
_TAG = "encryption"
_STATE = fields(
    enabled=boolean("Whether new data is encrypted."),
    server_key=text(about="Name of the server key that wraps the data keys; empty: none."),
    tenants=integer(about="Tenants with a data key."),
    versions=integer(about="Versions of their keys; former ones only decrypt."),
)


async def show_encryption(call: Call) -> Answer:
    """The state of this server."""
    return Answer(call.broker.encryption.show(call.caller)._asdict())


async def rotate_data_keys(call: Call) -> Answer:
    """New versions of all data keys, or of some tenants'."""
    with usable():
        count = await call.broker.encryption.rotate(call.caller, call.document.get("tenants", ()))
    return Answer({"rotated": count})


ROUTES = (
    Route(
        method="GET", path=_TAG, handler=show_encryption, tag=_TAG,
        summary="Show the state of encryption at rest; for administrators.", reply=_STATE,
    ),
    Route(
        method="POST", path=f"{_TAG}/rotation", handler=rotate_data_keys, tag=_TAG,
        summary="Make new versions of data keys; for administrators.",
        body=Body(
            fields(
                optional={
                    "tenants": items(
                        text(PRINCIPAL_ID), maximum=TENANTS_MAX
                    )
                }
            ),
            optional=True,
        ),
        reply=fields(rotated=integer(about="Tenants whose key has a new version.")),
        statuses=(422,),
        notes="What is stored from now on has the new version; former versions stay for reading, "
        "so nothing is rewritten. Without tenants, or with an empty list: all.",
    ),
)  # fmt: skip
