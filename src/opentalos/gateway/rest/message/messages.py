"""REST of messages: put, and get by offset."""

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
    array_of,
    listed,
    messages_of,
)
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.errors import Unusable
from opentalos.gateway.rest.routing.forms import IDEMPOTENCY_KEY
from opentalos.gateway.rest.routing.request import is_long
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import fields, integer, items, nullable, one_of, text
from opentalos.gateway.rest.topic.naming import topic_of
from opentalos.model.identity import Permission
from opentalos.wire.message import Message

WAIT_S_MAX = 30  # of a long poll
FORWARDED_WAIT_S = 4  # of a forwarded long poll; the forwarding server waits as well
PUT_S = 20.0  # for a put to be durable
BYTES_MAX = 4 << 20
BYTES_DEFAULT = 1 << 20
KEY_HEADER = "Idempotency-Key"

STORED = fields(
    partition=integer(),
    base_offset=nullable(integer(about="Offset of the first message; null: no longer known.")),
    messages=integer(),
)
READ_BOUNDS = {
    "messages_max": integer(1, MESSAGES_MAX),
    "bytes_max": integer(1, BYTES_MAX, about="Bytes of data; the first message may be larger."),
    "wait_s": integer(0, WAIT_S_MAX, about="Seconds to wait for messages if there are none yet."),
    "encoding": one_of(*ENCODINGS, about="Encoding of the data; default base64."),
}


async def put_anywhere(call: Call) -> Answer:
    """Store in the partition of the key, else round-robin."""
    return await _put(call, None)


async def put_to_partition(call: Call) -> Answer:
    """Store in this partition."""
    return await _put(call, int(call.places["partition"]))


async def _put(call: Call, partition: int | None) -> Answer:
    call.exchange.extend(PUT_S)
    key: str | None = call.query.get("key")
    if call.raw:
        messages = [Message(call.exchange.body, partition_key=key)]
    elif is_long(call.exchange):
        async with call.broker.work.turn(call.caller.id, patient=True) as turn:
            messages = await messages_of(turn, call.document["messages"], key)
    else:
        messages = await messages_of(None, call.document["messages"], key)
    topic = topic_of(call, Permission.PUT_MESSAGE)
    put_key = await _put_key(call)
    stored = await call.broker.plain_messages.put(
        call.caller, topic.resource, partition, messages, put_key
    )
    document = {
        "partition": stored.partition,
        "base_offset": stored.base_offset,
        "messages": stored.messages,
    }
    return Answer(document)


async def _put_key(call: Call) -> PutKey | None:
    """The request's idempotency key, with a digest that detects another request with that key."""
    key = call.headers.get(KEY_HEADER)
    if key is None:
        return None
    exchange = call.exchange
    request = hashlib.sha256()
    if is_long(exchange):
        async with call.broker.work.turn(call.caller.id, patient=True) as turn:
            await turn.off_loop(request.update, exchange.body)
    else:
        request.update(exchange.body)
    for part in (call.places.get("partition", ""), str(call.raw), call.query.get("key", "")):
        request.update(b"\0" + part.encode())
    return PutKey(key, request.digest())


async def get_messages(call: Call) -> Answer:
    """Messages starting at an offset."""
    call.wait(call.query.get("wait_s", 0))
    topic = topic_of(call, Permission.GET_MESSAGE)
    partition = int(call.places["partition"])
    spot = Spot(partition, await _offset(call, topic.resource, partition))
    found = await call.broker.plain_messages.get(
        call.caller, topic.resource, spot, bounds_of(call), wait_of(call)
    )
    return await answer_of(call, found)


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
    """The limits of one reply."""
    return Bounds(
        int(call.query.get("messages_max", MESSAGES_MAX)),
        int(call.query.get("bytes_max", BYTES_DEFAULT)),
    )


def wait_of(call: Call) -> float:
    """Seconds to wait for messages; less if the request was forwarded."""
    wait_s = float(call.query.get("wait_s", 0))
    return min(wait_s, FORWARDED_WAIT_S) if call.exchange.forwarder else wait_s


async def answer_of(call: Call, found: PlainMessages) -> Answer:
    """Messages of one partition."""
    encoding = call.query.get("encoding", "base64")
    texts = await listed(call.broker.work, call.caller.id, found.messages, encoding)
    lag = b"null" if found.lag is None else b"%d" % found.lag
    end = b', "next_offset": %d, "lag": %b' % (found.next_offset, lag)
    return Answer(chunks=array_of(texts, end))


_TAG = "messages"
_PUT: dict[str, Any] = {
    "method": "POST",
    "tag": _TAG,
    "reply": STORED,
    "body": Body(
        PUT, JSON_BYTES_MAX, raw=("application/octet-stream",), raw_bytes_max=RAW_BYTES_MAX
    ),
    "query": {
        "key": text(chars_min=1, chars_max=256, about="Partition key of messages that have none.")
    },
    "headers": {
        KEY_HEADER: text(
            IDEMPOTENCY_KEY,
            about="A request that is repeated with its key is stored once and gets the same reply.",
        )
    },
    "statuses": (409, 422),
}
ROUTES = (
    Route(
        path="topics/{topic}/messages", handler=put_anywhere,
        summary="Put messages to the partition of their key; without a key, round-robin.",
        notes=(
            "The reply means that all messages are stored. A JSON body has several messages; "
            "application/octet-stream is the data of one message."
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
        summary="Read messages starting at an offset; wait_s makes it a long poll.",
        query={
            "offset": integer(about="Or at, or time_ms; default: the first retained message."),
            "at": one_of("start", "end"),
            "time_ms": integer(about="Start at the first message stored at this time or later."),
            **READ_BOUNDS,
        },
        reply=fields(
            messages=items(READ),
            next_offset=integer(about="Offset of the next read."),
            lag=nullable(
                integer(about="Messages from next_offset to the end; null: a part is damaged.")
            ),
        ),
    ),
)  # fmt: skip
