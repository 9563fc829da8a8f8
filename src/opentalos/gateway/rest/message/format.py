"""Messages as JSON: what is sent to a topic, and what is read from it."""

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from opentalos.broker.messaging.plain_messages import PlainMessage
from opentalos.gateway.rest.routing.request import decoded
from opentalos.gateway.rest.routing.schema import (
    Schema,
    base64_text,
    either,
    fields,
    integer,
    items,
    text,
)
from opentalos.model.errors import BadRequest
from opentalos.wire.message import Message

MESSAGES_MAX = 1_000  # of one request or reply
JSON_BYTES_MAX = 4 << 20  # of a request in JSON, decoded in one go
RAW_BYTES_MAX = 10 << 20  # of one message, the largest that the protocol has
SLICE_BYTES = 256 << 10  # of a reply that is made in one go; other calls get their turn after it
KIND_MAX = (1 << 15) - 1

ENCODINGS = ("base64", "text", "json")
_SHORT = text(chars_min=1, chars_max=256)
_OPTIONAL: Mapping[str, Schema] = {
    "key": text(chars_min=1, chars_max=256, about="Partition key."),
    "sequence_number": _SHORT,
    "create_ms": integer(about="Unix time in milliseconds."),
    "type": integer(0, KIND_MAX, about="MessageType of the Talos protocol."),
    "schema_fingerprint": _SHORT,
    "tag": _SHORT,
}
_VALUE: Schema = {"description": "Any JSON; stored as its shortest text."}
SENT: Schema = either(
    fields(value=_VALUE, optional=_OPTIONAL),
    fields(text=text(about="Stored as UTF-8."), optional=_OPTIONAL),
    fields(base64=base64_text(), optional=_OPTIONAL),
)
PUT = fields(messages=items(SENT, minimum=1, maximum=MESSAGES_MAX))
READ = fields(
    partition=integer(),
    offset=integer(),
    append_ms=integer(about="When it was stored, Unix milliseconds."),
    optional={
        "value": _VALUE,
        "text": text(),
        "base64": text(about="Also where the data is not of the encoding that was asked for."),
        **{name: text() for name in ("key", "sequence_number", "schema_fingerprint", "tag")},
        "create_ms": integer(),
        "type": integer(-KIND_MAX - 1, KIND_MAX),
    },
)


def messages_of(sent: Sequence[Mapping[str, Any]], key: str | None) -> list[Message]:
    """The messages of a request that fits ``PUT``. Raises: BadRequest."""
    return [
        Message(
            _data_of(one),
            partition_key=one.get("key", key),
            sequence_number=one.get("sequence_number"),
            create_ms=one.get("create_ms"),
            message_type=one.get("type"),
            schema_fingerprint=one.get("schema_fingerprint"),
            tag=one.get("tag"),
        )
        for one in sent
    ]


def _data_of(one: Mapping[str, Any]) -> bytes:
    if "base64" in one:
        return base64.b64decode(one["base64"], validate=True)
    if "text" in one:
        return str(one["text"]).encode()
    return json.dumps(one["value"], ensure_ascii=False, separators=(",", ":")).encode()


async def listed(messages: Sequence[PlainMessage], encoding: str) -> list[bytes]:
    """Each message as JSON text; other calls get their turn after every slice."""
    found: list[bytes] = []
    size = 0
    for one in messages:
        found.append(shown(one, encoding))
        size += len(found[-1])
        if size > SLICE_BYTES:
            size = 0
            await asyncio.sleep(0)
    return found


def shown(one: PlainMessage, encoding: str) -> bytes:
    """A message as JSON text that fits ``READ``."""
    message = one.message
    known = {
        "partition": one.partition,
        "offset": one.offset,
        "append_ms": one.append_ms,
        "key": message.partition_key,
        "sequence_number": message.sequence_number,
        "create_ms": message.create_ms,
        "type": message.message_type,
        "schema_fingerprint": message.schema_fingerprint,
        "tag": message.tag,
    }
    document = {name: value for name, value in known.items() if value is not None}
    data = bytes(message.data)
    if encoding == "json" and _is_json(data):
        return json.dumps(document).encode()[:-1] + b', "value": ' + data + b"}"
    if encoding == "text":
        try:
            return json.dumps(document | {"text": data.decode()}).encode()
        except UnicodeDecodeError:
            pass  # shown as base64
    return json.dumps(document | {"base64": base64.b64encode(data).decode()}).encode()


def _is_json(data: bytes) -> bool:
    try:
        data.decode()
        decoded(data)
    except (BadRequest, UnicodeDecodeError):
        return False
    return True
