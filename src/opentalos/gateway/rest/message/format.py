"""Messages as JSON: the form in which they are put and read."""

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
JSON_BYTES_MAX = 4 << 20  # of a JSON request, decoded at once
RAW_BYTES_MAX = 10 << 20  # of one message, the protocol's maximum
CHUNK_BYTES = 256 << 10  # of a reply that is encoded before other tasks get a turn
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
    append_ms=integer(about="Time of storing, Unix milliseconds."),
    optional={
        "value": _VALUE,
        "text": text(),
        "base64": text(about="Also if the data does not have the requested encoding."),
        **{name: text() for name in ("key", "sequence_number", "schema_fingerprint", "tag")},
        "create_ms": integer(),
        "type": integer(-KIND_MAX - 1, KIND_MAX),
    },
)


def messages_of(sent: Sequence[Mapping[str, Any]], key: str | None) -> list[Message]:
    """The messages of a request that fits ``PUT``."""
    return [
        Message(
            _data_of(fields),
            partition_key=fields.get("key", key),
            sequence_number=fields.get("sequence_number"),
            create_ms=fields.get("create_ms"),
            message_type=fields.get("type"),
            schema_fingerprint=fields.get("schema_fingerprint"),
            tag=fields.get("tag"),
        )
        for fields in sent
    ]


def _data_of(sent: Mapping[str, Any]) -> bytes:
    if "base64" in sent:
        return base64.b64decode(sent["base64"], validate=True)
    if "text" in sent:
        return str(sent["text"]).encode()
    return json.dumps(sent["value"], ensure_ascii=False, separators=(",", ":")).encode()


async def listed(messages: Sequence[PlainMessage], encoding: str) -> list[bytes]:
    """Each message as JSON text; other tasks get a turn after every chunk."""
    found: list[bytes] = []
    size = 0
    for message in messages:
        found.append(shown(message, encoding))
        size += len(found[-1])
        if size > CHUNK_BYTES:
            size = 0
            await asyncio.sleep(0)
    return found


def shown(stored: PlainMessage, encoding: str) -> bytes:
    """A message as JSON text that fits ``READ``."""
    message = stored.message
    known = {
        "partition": stored.partition,
        "offset": stored.offset,
        "append_ms": stored.append_ms,
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
