"""REST of following a topic: its messages as server-sent events.

A stream has one reader task per partition and one writer. The id of an event is the next offset of
every followed partition, so a client that reconnects with ``Last-Event-ID`` misses nothing.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from opentalos.broker.long_work import LongWork
from opentalos.broker.messaging.plain_messages import Bounds, PlainMessages, Spot
from opentalos.broker.peer_rpc.remote_logs import PartitionFacts, Question, Wanted
from opentalos.broker.values import Topic
from opentalos.gateway.http.reply_stream import ReplyStream
from opentalos.gateway.rest.message.format import ENCODINGS, listed
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.errors import Unusable, problem
from opentalos.gateway.rest.routing.forms import EVENTS_FROM
from opentalos.gateway.rest.routing.route import Route
from opentalos.gateway.rest.routing.schema import integer, items, one_of, text
from opentalos.gateway.rest.topic.naming import topic_of
from opentalos.gateway.slots import tenant_of
from opentalos.model.checks import shown_value
from opentalos.model.errors import (
    DAMAGE,
    PartitionNotExist,
    RequestError,
    StoreUnavailable,
    TalosError,
    Unavailable,
)
from opentalos.model.identity import Permission

STREAM_S_MAX = 3_600  # the client then reconnects with the id of the last event
BEAT_S = 15.0  # between comments that keep the connection alive; the key is checked again
BATCH = Bounds(messages_max=200, bytes_max=256 << 10)
PART_BYTES = 64 << 10  # of events, between which other tasks get a turn
BATCHES_MAX = 4  # read ahead of the client
POLL_S = 10.0  # of one long poll of a partition
RETRY_S = 0.5  # after a partition could not be read
PARTITIONS_MAX = 256  # of one stream
RETRY_MS = 2_000  # that clients shall wait before they reconnect
LAST_EVENT = "Last-Event-ID"
_log = logging.getLogger("opentalos.rest")
_STREAM = b"text/event-stream"
_VECTOR = re.compile(r"[0-9]{1,9}:[0-9]{1,18}(,[0-9]{1,9}:[0-9]{1,18})*")


@dataclass(frozen=True, slots=True)
class _Following:
    """The subject of one stream."""

    call: Call
    topic: Topic
    encoding: str
    queue: "asyncio.Queue[PlainMessages | TalosError]"


async def follow(call: Call) -> Answer | None:
    """Messages from a position on, as they arrive."""
    topic = topic_of(call, Permission.GET_MESSAGE)
    spots = await _spots(call, topic)
    if call.exchange.method == b"HEAD":
        return Answer()
    tenant = tenant_of(call.caller, call.exchange.network)
    with call.broker.plain_messages.following(tenant, len(spots)):
        await _stream(call, topic, spots)
    return None


async def _stream(call: Call, topic: Topic, spots: Sequence[Spot]) -> None:
    exchange, me = call.exchange, asyncio.current_task()
    assert me is not None, "a call runs in a task"

    def end(error: TalosError | None = None) -> None:
        me.cancel()

    exchange.late = exchange.drained = end
    extra = b"Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
    extra += b"X-Request-Id: %b\r\n" % exchange.request_id.encode()
    stream = exchange.reply_stream(_STREAM, extra)
    queue: asyncio.Queue[PlainMessages | TalosError] = asyncio.Queue(BATCHES_MAX)
    following = _Following(call, topic, call.query.get("encoding", "base64"), queue)
    readers = [asyncio.create_task(_read(following, spot)) for spot in spots]
    try:
        await _write(following, stream, {spot.partition: spot.offset for spot in spots})
    except TalosError as error:
        _log.debug("event stream ended: %s", error)  # the client is gone, or its key
    except Exception:
        _log.exception("event stream failed with an internal error")  # the reply has begun
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        stream.close()


async def _spots(call: Call, topic: Topic) -> Sequence[Spot]:
    """The first offset of each partition."""
    count = topic.consumer_partitions
    wanted: Sequence[int] = call.query.get("partition") or range(count)
    if len(wanted) > PARTITIONS_MAX:
        raise Unusable(f"the topic has {count} partitions; name at most {PARTITIONS_MAX} of them")
    missing = [partition for partition in wanted if partition >= count]
    if missing:
        raise PartitionNotExist(f"topic {topic.name} has no partition {missing[0]}")
    resumed = _resumed(call.headers.get(LAST_EVENT, ""))
    fresh = dict.fromkeys(partition for partition in wanted if partition not in resumed)
    starts = {partition: offset for partition, offset in resumed.items() if partition in wanted}
    # Partitions added after the last event are read from their first message.
    since = "start" if resumed else call.query.get("from", "end")
    starts |= await _starts(call, topic, list(fresh), since)
    return [Spot(partition, starts[partition]) for partition in sorted(starts)]


async def _starts(
    call: Call, topic: Topic, partitions: Sequence[int], since: str
) -> Mapping[int, int]:
    """The first offset of partitions without one; of a damaged one where a read names the damage,
    if nobody knows more. Raises: another error of a partition."""
    facts_of, starts = partial(call.broker.messages.facts_of, call.caller, topic.resource), {}
    if since not in ("start", "end"):
        times = dict.fromkeys(partitions, int(since))
        found = await facts_of(partitions, Question(Wanted.TIMES, times))
        for partition, fact in zip(partitions, found, strict=True):
            if isinstance(fact, PartitionFacts):
                starts[partition] = fact.found
            elif not isinstance(fact, DAMAGE):
                raise fact
    rest = [partition for partition in partitions if partition not in starts]
    for partition, fact in zip(rest, await facts_of(rest) if rest else (), strict=True):
        if isinstance(fact, PartitionFacts):
            starts[partition] = fact.offsets.start if since == "start" else fact.offsets.next
        elif isinstance(fact, DAMAGE):
            starts[partition] = 0
        else:
            raise fact
    return starts


def _resumed(vector: str) -> Mapping[int, int]:
    """Next offsets by partition from an event's id. Raises: Unusable: not such an id."""
    if vector and not _VECTOR.fullmatch(vector):
        raise Unusable(f"{LAST_EVENT} {shown_value(vector)} is not an event id of this server")
    pairs = (pair.split(":") for pair in vector.split(",") if pair)
    return {int(partition): int(offset) for partition, offset in pairs}


async def _read(following: _Following, spot: Spot) -> None:
    """Read one partition into the queue, whose bound slows the reader down."""
    call, resource = following.call, following.topic.resource
    get = call.broker.plain_messages.get_anywhere
    while True:
        try:
            found = await get(call.caller, resource, spot, BATCH, POLL_S)
        except Unavailable:
            await asyncio.sleep(RETRY_S)
            continue
        except TalosError as error:
            await following.queue.put(error)
            return
        except Exception:
            _log.exception("event stream could not continue", extra={"topic": resource})
            await following.queue.put(StoreUnavailable("internal error"))
            return
        if found.messages:
            await following.queue.put(found)
            spot = Spot(spot.partition, found.next_offset)


async def _write(following: _Following, stream: ReplyStream, offsets: dict[int, int]) -> None:
    """Write events until an error or the end of the time limit."""
    loop, call = asyncio.get_running_loop(), following.call
    until_s = loop.time() + call.query.get("limit_s", STREAM_S_MAX)
    beat_s = loop.time() + BEAT_S
    left = len(offsets)
    await stream.write(b"retry: %d\n\n" % RETRY_MS)
    while (now_s := loop.time()) < until_s:
        found: PlainMessages | TalosError
        try:
            if now_s >= beat_s:
                if _has_grown(call, offsets):
                    return  # the client reconnects and reads new partitions from their start
                beat_s = now_s + BEAT_S
                await stream.write(b":\n\n")
            async with asyncio.timeout_at(min(beat_s, until_s)):
                found = await following.queue.get()
        except TimeoutError:
            continue
        except RequestError as error:
            found = error
        if isinstance(found, TalosError):
            await stream.write(_error(call, found))
            left -= 1
            if left and isinstance(found, DAMAGE):
                continue  # the other partitions are whole
            return
        work, caller = call.broker.work, call.caller.id
        texts = await listed(work, caller, found.messages, following.encoding)
        async for part in _events(work, found, texts, offsets):
            await stream.write(part)


async def _events(
    work: LongWork,
    found: PlainMessages,
    texts: Sequence[Sequence[bytes]],
    offsets: dict[int, int],
) -> AsyncIterator[bytes]:
    """The events of some messages, in parts of bounded size."""
    part: list[bytes] = []
    size = 0
    for message, pieces in zip(found.messages, texts, strict=True):
        offsets[message.partition] = message.offset + 1
        vector = ",".join(f"{number}:{offset}" for number, offset in offsets.items())
        for piece in (b"id: %b\ndata: " % vector.encode(), *pieces, b"\n\n"):
            part.append(piece)
            size += len(piece)
            if size > PART_BYTES:
                yield b"".join(part)
                part.clear()
                size = 0
                await work.pause()
    if part:
        yield b"".join(part)


def _has_grown(call: Call, offsets: Mapping[int, int]) -> bool:
    """Whether partitions were added to a topic of which all partitions are followed.

    Raises: InvalidCredential, TopicNotExist, PermissionDenied: the caller lost its access.
    """
    call.again()
    topic = topic_of(call, Permission.GET_MESSAGE)
    return "partition" not in call.query and topic.consumer_partitions != len(offsets)


def _error(call: Call, error: TalosError) -> bytes:
    _, document = problem(error, call.exchange.request_id)
    return b"event: error\ndata: %b\n\n" % document.strip()


_TAG = "messages"
ROUTES = (
    Route(
        method="GET", path="topics/{topic}/events", handler=follow, tag=_TAG, streams=True,
        summary="Follow a topic by server-sent events, one for each message.",
        notes=(
            "The id of an event is the next offset of every followed partition; a client that "
            "reconnects with it as Last-Event-ID misses nothing. A stream that cannot continue "
            "ends with an event of type error, whose data is a problem document; after one of a "
            "damaged partition, it continues with the others. A client that does not read is "
            "disconnected."
        ),
        query={
            "from": text(EVENTS_FROM, about="start, end (default) or a Unix time in ms."),
            "partition": items(integer(0, 1 << 31), minimum=1, maximum=PARTITIONS_MAX),
            "encoding": one_of(*ENCODINGS, about="Encoding of the data; default base64."),
            "limit_s": integer(0, STREAM_S_MAX, about="Seconds until the stream ends."),
        },
        headers={LAST_EVENT: text(about="The id of the last received event.")},
        reply=text(), reply_type="text/event-stream", statuses=(422,),
    ),
)  # fmt: skip
