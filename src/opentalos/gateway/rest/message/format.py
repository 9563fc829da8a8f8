"""Messages as JSON: the form in which they are put and read."""

import base64
import codecs
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from opentalos.broker.long_work import SHORT_BYTES, LongWork, Turn
from opentalos.broker.messaging.plain_messages import PlainMessage
from opentalos.gateway.rest.routing.json_text import WINDOW_CHARS, decoded, encoded, parse
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
SHORT_MESSAGES = 50  # are written without a turn, if they are short
LONG_PIECE_BYTES = 2 << 10  # of encoded JSON: the least that took so long that the loop is next
PIECE_BYTES = 48 << 10  # written or encoded in one piece, 0.5 ms
BASE64_BYTES = 48 << 10  # a multiple of 3
_MESSAGE_COST = 500  # of a message besides its data, in bytes
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
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


async def messages_of(
    turn: Turn | None, sent: Sequence[Mapping[str, Any]], key: str | None
) -> list[Message]:
    """The messages of a request that fits ``PUT``. Without a turn the request is short."""
    found: list[Message] = []
    cost = 0
    for given in sent:
        data = bytearray()
        for piece in _data_of(given):
            data += piece
            cost += len(piece)
            # Text of numbers is short for the time it takes, but only a long value comes in pieces.
            if turn is not None and (cost > PIECE_BYTES or len(piece) > LONG_PIECE_BYTES):
                cost = 0
                await turn.pause()
        cost += _MESSAGE_COST
        found.append(
            Message(
                bytes(data),
                partition_key=given.get("key", key),
                sequence_number=given.get("sequence_number"),
                create_ms=given.get("create_ms"),
                message_type=given.get("type"),
                schema_fingerprint=given.get("schema_fingerprint"),
                tag=given.get("tag"),
            )
        )
    return found


def _data_of(sent: Mapping[str, Any]) -> Iterator[bytes]:
    if "base64" in sent:
        return iter((base64.b64decode(sent["base64"], validate=True),))
    if "text" in sent:
        return iter((str(sent["text"]).encode(),))
    return encoded(sent["value"])


async def listed(
    work: LongWork, caller: str, messages: Sequence[PlainMessage], encoding: str
) -> list[list[bytes]]:
    """Each message as JSON text that fits ``READ``; many or large ones take a turn.

    A text stays in pieces, since joining one of 60 MB takes as long as 60 pieces.
    """
    size = sum(len(stored.message.data) for stored in messages)
    if size <= SHORT_BYTES and len(messages) <= SHORT_MESSAGES:
        return [list(_pieces(stored, encoding)) for stored in messages]
    found: list[list[bytes]] = []
    cost = 0
    # Not refused: the broker bounds how many of a caller's reads wait before this.
    async with work.turn(caller, patient=True) as turn:
        for stored in messages:
            parts: list[bytes] = []
            for piece in _pieces(stored, encoding):
                parts.append(piece)
                cost += len(piece) + _MESSAGE_COST
                if not piece or cost > PIECE_BYTES:
                    cost = 0
                    await turn.pause()
            found.append(parts)
    return found


def array_of(texts: Sequence[Sequence[bytes]], end: bytes) -> Sequence[bytes]:
    """A reply with messages; ``end`` follows their array."""
    chunks = [b'{"messages": [']
    for index, pieces in enumerate(texts):
        if index:
            chunks.append(b",\n")
        chunks += pieces
    chunks.append(b"]" + end + b"}\n")
    return chunks


def _pieces(stored: PlainMessage, encoding: str) -> Iterator[bytes]:
    """A message's JSON text in pieces; an empty one means that time was spent on it."""
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
    head, data = json.dumps(document).encode()[:-1], message.data
    if encoding == "json" and (yield from _is_json(data)):
        yield head + b', "value": '
        for start in range(0, len(data), PIECE_BYTES):
            # One line, also in an event stream: outside of strings a line feed is only space.
            yield data[start : start + PIECE_BYTES].translate(_ONE_LINE)
        yield b"}"
        return
    if encoding == "text" and (yield from _is_text(data)):
        yield head + b', "text": "'
        for part in _decoded(data):
            yield json.dumps(part).encode()[1:-1]
        yield b'"}'
        return
    yield head + b', "base64": "'
    for start in range(0, len(data), BASE64_BYTES):
        yield base64.b64encode(data[start : start + BASE64_BYTES])
    yield b'"}'


def _is_json(data: bytes) -> Generator[bytes, None, bool]:
    if json.detect_encoding(data) != "utf-8":  # another one cannot be a part of the reply
        return False
    try:
        if len(data) <= WINDOW_CHARS:
            decoded(data, keep=False)
        else:
            for _ in parse(data, keep=False):
                yield b""
    except BadRequest:
        return False
    return True


def _is_text(data: bytes) -> Generator[bytes, None, bool]:
    try:
        for _ in _decoded(data):
            yield b""
    except UnicodeDecodeError:
        return False
    return True


def _decoded(data: bytes) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(data), PIECE_BYTES):
        yield decoder.decode(data[start : start + PIECE_BYTES])
    yield decoder.decode(b"", final=True)
