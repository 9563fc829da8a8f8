"""REST of messages: put, and read by offset."""

import hashlib
from typing import Any

from opentalos.broker.messaging.keyed_puts import PutKey
from opentalos.broker.messaging.messages import LATEST_OFFSET, START_OFFSET
from opentalos.broker.messaging.plain_messages import Bounds, PlainMessages, Spot
from opentalos.gateway.rest.message.format import (
    ENCODINGS,
    JSON_BYTES_MAX,
    MESSAGES_MAX,
    PUT,
    RAW_BYTES_MAX,
    READ,
    listed,
    messages_of,
)
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.errors import Unusable
from opentalos.gateway.rest.routing.forms import IDEMPOTENCY_KEY
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import fields, integer, items, nullable, one_of, text
from opentalos.gateway.rest.topic.naming import topic_of
from opentalos.model.identity import Permission
from opentalos.wire.message import Message

WAIT_S_MAX = 30  # of a long poll
FORWARDED_WAIT_S = 4  # of one that another server passed on, which waits itself
PUT_S = 20.0  # for a put to be durable
BYTES_MAX = 4 << 20
BYTES_DEFAULT = 1 << 20
KEY_HEADER = "Idempotency-Key"

STORED = fields(
    partition=integer(),
    base_offset=nullable(integer(about="Offset of the first message; null: not known any more.")),
    messages=integer(),
)
READ_BOUNDS = {
    "messages_max": integer(1, MESSAGES_MAX),
    "bytes_max": integer(1, BYTES_MAX, about="Of data; the first message may be larger."),
    "wait_s": integer(0, WAIT_S_MAX, about="How long to wait where there is nothing yet."),
    "encoding": one_of(*ENCODINGS, about="Of the data: base64 unless asked for otherwise."),
}


async def put_anywhere(call: Call) -> Answer:
    """Stored in the partition of the key, or in turns."""
    return await _put(call, None)


async def put_to_partition(call: Call) -> Answer:
    """Stored in this partition."""
    return await _put(call, int(call.places["partition"]))


async def _put(call: Call, partition: int | None) -> Answer:
    call.exchange.extend(PUT_S)
    key: str | None = call.query.get("key")
    if call.raw:
        messages = [Message(call.exchange.body, partition_key=key)]
    else:
        messages = messages_of(call.document["messages"], key)
    topic = topic_of(call, Permission.PUT_MESSAGE)
    stored = await call.broker.plain_messages.put(
        call.caller, topic.resource, partition, messages, _put_key(call)
    )
    document = {
        "partition": stored.partition,
        "base_offset": stored.base_offset,
        "messages": stored.messages,
    }
    return Answer(document)


def _put_key(call: Call) -> PutKey | None:
    """The key of the request, and what tells it from another request."""
    key = call.headers.get(KEY_HEADER)
    if key is None:
        return None
    exchange = call.exchange
    request = hashlib.sha256(exchange.body)
    for part in (call.places.get("partition", ""), str(call.raw), call.query.get("key", "")):
        request.update(b"\0" + part.encode())
    return PutKey(key, request.digest())


async def get_messages(call: Call) -> Answer:
    """Messages from an offset on."""
    call.wait(call.query.get("wait_s", 0))
    topic = topic_of(call, Permission.GET_MESSAGE)
    partition = int(call.places["partition"])
    spot = Spot(partition, await _offset(call, topic.resource, partition))
    found = await call.broker.plain_messages.get(
        call.caller, topic.resource, spot, bounds_of(call), wait_of(call)
    )
    return await answer_of(found, call.query.get("encoding", "base64"))


async def _offset(call: Call, resource: str, partition: int) -> int:
    given = [name for name in ("offset", "at", "time_ms") if name in call.query]
    if len(given) > 1:
        raise Unusable(f"send only one of {', '.join(given)}")
    if "offset" in call.query:
        return int(call.query["offset"])
    if "time_ms" in call.query:
        time_ms = int(call.query["time_ms"])
        return await call.broker.messages.offset_at(call.caller, resource, partition, time_ms)
    return LATEST_OFFSET if call.query.get("at") == "end" else START_OFFSET


def bounds_of(call: Call) -> Bounds:
    """How much the caller wants at once."""
    return Bounds(
        int(call.query.get("messages_max", MESSAGES_MAX)),
        int(call.query.get("bytes_max", BYTES_DEFAULT)),
    )


def wait_of(call: Call) -> float:
    """Seconds to wait for messages. The server that passed a request on does not wait long."""
    wait_s = float(call.query.get("wait_s", 0))
    return min(wait_s, FORWARDED_WAIT_S) if call.exchange.forwarder else wait_s


async def answer_of(found: PlainMessages, encoding: str) -> Answer:
    """Messages of one partition."""
    messages = b",\n".join(await listed(found.messages, encoding))
    end = b'"next_offset": %d, "lag": %d' % (found.next_offset, found.lag)
    return Answer(text=b'{"messages": [' + messages + b"], " + end + b"}\n")


_TAG = "messages"
_PUT: dict[str, Any] = {
    "method": "POST",
    "tag": _TAG,
    "reply": STORED,
    "body": Body(
        PUT, JSON_BYTES_MAX, raw=("application/octet-stream",), raw_bytes_max=RAW_BYTES_MAX
    ),
    "query": {"key": text(chars_min=1, chars_max=256, about="Key of messages that have none.")},
    "headers": {
        KEY_HEADER: text(
            IDEMPOTENCY_KEY,
            about="A request that is sent again with its key is stored once and answered alike.",
        )
    },
    "statuses": (409, 422),
}
ROUTES = (
    Route(
        path="topics/{topic}/messages", handler=put_anywhere,
        summary="Put messages: all to the partition of their key, else partitions take turns.",
        notes=(
            "The answer means that all are stored. JSON has several messages; "
            "application/octet-stream is the data of one."
        ),
        **_PUT,
    ),
    Route(
        path="topics/{topic}/partitions/{partition}/messages", handler=put_to_partition,
        summary="Put messages to a partition.", **_PUT,
    ),
    Route(
        method="GET", path="topics/{topic}/partitions/{partition}/messages", tag=_TAG,
        handler=get_messages, statuses=(422,),
        summary="Read messages from an offset on, waiting for new ones if asked to.",
        query={
            "offset": integer(about="Or one of at and time_ms; else the first that is kept."),
            "at": one_of("start", "end"),
            "time_ms": integer(about="From the first message stored at this time or later."),
            **READ_BOUNDS,
        },
        reply=fields(
            messages=items(READ),
            next_offset=integer(about="Where to go on."),
            lag=integer(about="Messages from there on."),
        ),
    ),
)  # fmt: skip
