"""Fetch: messages of several partitions, waited for at most as long as the client says.

Stored batches are passed on as views of what the log gave; messages of other blocks are encoded.
The answer is written by hand around them, so that no payload is copied.

Source: docs/adr/0061-kafka-records.md; KIP-227 (sessions), KIP-320 (epochs), KIP-516 (topic ids),
KIP-951 (new leaders).
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from opentalos.broker.long_work import SHORT_ITEMS
from opentalos.broker.messaging.reading.fetches import (
    FetchBounds,
    FetchedPlace,
    FetchPlace,
    FetchResult,
    MessageRun,
)
from opentalos.gateway.kafka.call import ClientSession, KafkaCall
from opentalos.gateway.kafka.errors import code_of
from opentalos.gateway.kafka.fetch_sessions import (
    EPOCH_FIRST,
    NO_SESSION,
    FetchSession,
    Key,
    RefusedSession,
    Shown,
    Wanted,
)
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.names import NO_ID
from opentalos.gateway.kafka.topics import NewLeaders, missing_code, named_topic
from opentalos.model.errors import BadRequest, TalosError
from opentalos.model.identity import Permission
from opentalos.wire.kafka._generated.fetch_response import (
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from opentalos.wire.kafka.errors import ErrorCode
from opentalos.wire.kafka.fetch_answer import Answered, write_answer
from opentalos.wire.kafka.pace import Pace
from opentalos.wire.kafka.records import NO_EPOCH, stored_batch
from opentalos.wire.message.kafka_format import encode_kafka_batch

WAIT_S_MAX: Final = 60.0
SHORT_PLACES: Final = 64  # whose answer is written at once
SESSIONS_FROM: Final = 7  # version
MISSING_BYTES_MAX: Final = 16 << 10  # names of topics in a session that the client may not read
_UNKNOWN: Final = -1  # offset
_COST: Final = 4  # of a partition, in items of a piece
_ITEM_BYTES: Final = 1 << 10  # of messages, encoded in the time of an item
_SHORT_BYTES: Final = SHORT_ITEMS * _ITEM_BYTES  # of a batch, unless a message has more
_LONG_BYTES: Final = 1 << 20  # of a batch that is encoded on a thread


class _HeldUntil(float):
    """When the connection's next request is begun (loop time), in the state of its session."""


async def handle(services: Services, call: KafkaCall) -> FetchResponse | None:
    """Answers the call itself, unless its session is refused."""
    request, client = call.request, call.session
    await _end_of_hold(client)
    wanted = await _wanted(call)
    try:
        session = None
        if call.version >= SESSIONS_FROM:
            sessions, number, epoch = (
                services.fetch_sessions,
                request.session_id,
                request.session_epoch,
            )
            session = sessions.find(client, number, epoch)
            if session is not None:
                forgotten = await _forgotten(call)
                wanted = sessions.change(session, wanted, forgotten)
    except RefusedSession as error:
        return FetchResponse(error_code=int(error.code))
    found, refused = await _read(services, call, wanted)
    keeps = sum(len(key[0]) for key in refused) <= MISSING_BYTES_MAX
    if session is not None and not keeps:
        services.fetch_sessions.end(client)
        return FetchResponse(error_code=int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    if found.hold_s > 0.0:
        client.state[_HeldUntil] = asyncio.get_running_loop().time() + found.hold_s
    full = session is None
    opens = call.version >= SESSIONS_FROM and request.session_epoch == EPOCH_FIRST
    if session is None and opens and keeps:
        session = services.fetch_sessions.open(client, wanted)
    keys = [key for key in wanted if key not in refused]
    leaders = NewLeaders(services)
    answered: dict[Key, Answered] = {}
    for key, each in zip(keys, found.places, strict=True):
        await call.piece(_COST)
        answered[key] = await _answered(services, call, leaders, each)
    for key, why in refused.items():
        await call.piece(_COST)
        answered[key] = _refused(key, why)
    if session is not None:
        answered = await _changes(call, session, answered, full=full)
        if not full:
            session.advance()
    head = FetchResponse(
        throttle_time_ms=int(found.hold_s * 1000),
        session_id=NO_SESSION if session is None else session.id,
        node_endpoints=[
            NodeEndpoint(node_id=node.number, host=node.host, port=node.port, rack=None)
            for node in leaders.nodes
        ],
    )
    write = partial(write_answer, call.api, call.version, call.header.correlation_id, head)
    if len(answered) <= SHORT_PLACES:
        call.answer_raw(write(answered))
        return None
    async with services.broker.work.turn(client.tenant, patient=True) as turn:
        pieces = await turn.in_pieces(lambda pause: write(answered, Pace(pause)))
    call.answer_raw(pieces)
    return None


async def _end_of_hold(client: ClientSession) -> None:
    """Wait as the last answer asked the client to: some do not, and would ask without a pause."""
    until_s = client.state.pop(_HeldUntil, None)
    if until_s is not None:
        await asyncio.sleep(until_s - asyncio.get_running_loop().time())


async def _wanted(call: KafkaCall) -> dict[Key, Wanted]:
    wanted: dict[Key, Wanted] = {}
    for topic in call.request.topics:
        await call.piece()
        key = _key(topic)
        for part in topic.partitions:
            await call.piece()
            wanted[key, part.partition] = Wanted(
                part.fetch_offset, part.partition_max_bytes, part.current_leader_epoch
            )
    return wanted


async def _forgotten(call: KafkaCall) -> list[Key]:
    forgotten: list[Key] = []
    for topic in call.request.forgotten_topics_data:
        key = _key(topic)
        await call.piece(1 + len(topic.partitions))
        forgotten += [(key, number) for number in topic.partitions]
    return forgotten


def _key(topic: Any) -> str | bytes:
    key: str | bytes = topic.topic if topic.topic_id == NO_ID else topic.topic_id
    return key


async def _read(
    services: Services, call: KafkaCall, wanted: dict[Key, Wanted]
) -> tuple[FetchResult, dict[Key, TalosError]]:
    """What was read of the places whose topic exists, in their order, and why others were not."""
    request, places = call.request, []
    refused: dict[Key, TalosError] = {}
    for key, what in wanted.items():
        await call.piece(_COST)
        try:
            topic = named_topic(services, call, Permission.GET_MESSAGE, key[0])
        except TalosError as error:
            refused[key] = error
        else:
            places.append(FetchPlace(topic, key[1], *what))
    wait_s = 0.0 if refused else min(max(0, request.max_wait_ms) / 1000, WAIT_S_MAX)
    bounds = FetchBounds(request.min_bytes, request.max_bytes, wait_s)
    return await services.broker.reads.fetches.fetch(call.caller, places, bounds), refused


async def _answered(
    services: Services, call: KafkaCall, leaders: NewLeaders, found: FetchedPlace
) -> Answered:
    error = found.error
    offsets = found.offsets
    code = ErrorCode.NONE if error is None else _code(error)
    end = offsets.next if found.damage is None else _UNKNOWN
    data = PartitionData(
        partition_index=found.place.partition,
        error_code=int(code),
        high_watermark=end,
        last_stable_offset=end,
        log_start_offset=offsets.start,
        aborted_transactions=None,
    )
    if error is not None:
        number, epoch = leaders.of(found.place.topic, found.place.partition, error)
        data.current_leader = LeaderIdAndEpoch(leader_id=number, leader_epoch=epoch)
    pieces: list[bytes | bytearray | memoryview] = []
    for part in found.parts:
        if not isinstance(part, MessageRun):
            pieces += stored_batch(part.payload, part.base_offset)
            continue
        for run, size in _short_runs(part):
            await call.piece(len(run.messages) + size // _ITEM_BYTES)
            if size <= _LONG_BYTES:
                pieces.append(_encoded(run))
                continue
            async with services.broker.work.turn(call.session.tenant, patient=True) as turn:
                pieces.append(await turn.off_loop(_encoded, run))
    return Answered(data, pieces)


def _short_runs(run: MessageRun) -> Iterator[tuple[MessageRun, int]]:
    """Parts of a run that are encoded within about a millisecond, or a larger message; their bytes.

    The pieces in which a block is read have many messages, but may have many bytes as well.
    """
    messages, start, size = run.messages, 0, 0
    for index, message in enumerate(messages):
        full = index - start >= SHORT_ITEMS
        if full or (size and size + len(message.data) > _SHORT_BYTES):
            yield (
                run._replace(base_offset=run.base_offset + start, messages=messages[start:index]),
                size,
            )
            start, size = index, 0
        size += len(message.data)
    rest = messages[start:] if start else messages
    yield run._replace(base_offset=run.base_offset + start, messages=rest), size


def _encoded(run: MessageRun) -> bytearray:
    default_ms = run.block.create_ms or run.block.append_ms
    messages = [
        message if message.create_ms else message._replace(create_ms=default_ms)
        for message in run.messages
    ]
    return encode_kafka_batch(messages, base_offset=run.base_offset, leader_epoch=NO_EPOCH)


def _refused(key: Key, error: TalosError) -> Answered:
    code = missing_code(error, key[0]) or _code(error)
    data = PartitionData(
        partition_index=key[1],
        error_code=int(code),
        high_watermark=_UNKNOWN,
        aborted_transactions=None,
    )
    return Answered(data, [])


def _code(error: TalosError) -> ErrorCode:
    if type(error).__mro__[1] is BadRequest:  # a block that no reader can decode
        return ErrorCode.CORRUPT_MESSAGE
    return code_of(error)


async def _changes(
    call: KafkaCall, session: FetchSession, answered: dict[Key, Answered], *, full: bool
) -> dict[Key, Answered]:
    """What the client does not know yet."""
    changed: dict[Key, Answered] = {}
    for key, each in answered.items():
        await call.piece()
        shown = Shown(each.data.high_watermark, each.data.log_start_offset)
        known = session.shown.get(key)
        if each.data.error_code:
            session.shown.pop(key, None)
        else:
            session.shown[key] = shown
        if full or each.pieces or each.data.error_code or shown != known:
            changed[key] = each
    session.read_last(key for key, each in changed.items() if each.pieces)
    return changed
