"""Put a message by hand."""

import base64
import binascii
import secrets
from typing import Any, Final

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import EVERYBODY, READERS, Done, Page, View, Visit, url
from opentalos.gateway.console.pages.topic.detail import header, trail
from opentalos.model.checks import json_value

FORMATS: Final = (
    ("text", "text, stored as UTF-8"),
    ("json", "JSON, checked, stored as its shortest text"),
    ("base64", "bytes in base64"),
    ("hex", "bytes in hexadecimal"),
)
_KEY_BYTES: Final = 16


async def show(visit: Visit) -> View:
    """The form; what was sent before stays in it."""
    name = visit.places["topic"]
    topic = await header(visit, name)
    return View(
        template="topic/produce.html",
        title=topic["name"],
        data={
            "topic": topic,
            "tab": "produce",
            "formats": FORMATS,
            # The form sent twice, or again after an unknown outcome, is stored once.
            "once": visit.form.get("once") or secrets.token_hex(_KEY_BYTES),
        },
        cli=(f"talos produce {name}",),
        trail=trail(),
    )


async def put(visit: Visit) -> Done:
    """Store the message."""
    name, form = visit.places["topic"], visit.form
    message: dict[str, Any] = _data(form.get("format", "text"), form.get("data", ""))
    message |= {name: form[name] for name in ("key", "tag") if form.get(name)}
    partition = form.get("partition", "").strip()
    path = ("topics", name, "partitions", partition, "messages")
    stored = await visit.rest.call(
        "POST",
        path if partition else ("topics", name, "messages"),
        {"messages": [message]},
        headers={"Idempotency-Key": form.get("once", "")} if form.get("once") else None,
    )
    offset = stored["base_offset"]
    at = "" if offset is None else f" at offset {offset:,}"
    back = url("topics", name, "produce")
    return Done(back, f"The message is stored in partition {stored['partition']}{at}.")


def _data(form: str, data: str) -> dict[str, Any]:
    """The data as REST takes it. Raises: RestError: it is not of its format."""
    try:
        if form == "json":
            return {"value": json_value(data)}
        if form == "base64":
            content = base64.b64decode(data, validate=False)
            return {"base64": base64.b64encode(content).decode()}
        if form == "hex":
            return {"base64": base64.b64encode(bytes.fromhex(data)).decode()}
    except (ValueError, binascii.Error, RecursionError) as error:
        raise RestError(422, f"the data is not valid {form}: {error}") from error
    return {"text": data}


PAGES = (Page(path="topics/{topic}/produce", show=show, change=put, roles=EVERYBODY - READERS),)
