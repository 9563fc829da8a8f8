"""Both producers over fake servers: what flush, close and send_and_wait report, and stamps."""

import asyncio
import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.sdk.fake_servers import S1, FakeServers, client_of, in_turn, raises, run

from opentalos.model import errors
from opentalos.model.errors import OutcomeUnknown, PermissionDenied, Unavailable
from opentalos.sdk import DeliveryFailed, Outcome, ProducerSettings, Stored, Undelivered
from opentalos.sdk.aio import SimpleProducer, TalosProducer
from opentalos.sdk.errors import NoReply, NotSupported
from opentalos.wire._generated import common, message, topic

Stamp = tuple[int | None, int | None, bool]  # epoch, sequence, repeated
SETTINGS = ProducerSettings(batch_messages_max=1)


def stored_at(offset: int) -> Callable[[Any], message.PutMessageResponse]:
    return lambda _: message.PutMessageResponse(sequenceId="x", baseOffset=offset)


@pytest.fixture
def servers() -> FakeServers:
    return servers_with("opentalos 1.2")


def servers_with(version: str) -> FakeServers:
    servers = FakeServers()
    found = topic.GetTopicAttributeResponse(
        topicTalosResourceName=topic.TopicTalosResourceName(topicTalosResourceName="root#demo#0a"),
        topicAttribute=topic.TopicAttribute(partitionNumber=1),
    )
    servers.on(S1, "getTopicAttribute", lambda _: found)
    named = common.Version(minor=0, revision=0, details=version)
    servers.on(S1, "getServiceVersion", lambda _: named)
    servers.on(S1, "putMessage", stored_at(7))
    return servers


def stamps_of(servers: FakeServers, *steps: Callable[[Any], Any]) -> list[Stamp]:
    """The stamps of the puts that these steps will answer."""
    stamps: list[Stamp] = []
    answer = in_turn(*steps)

    def put(request: message.PutMessageRequest) -> Any:
        stamps.append((request.producerEpoch, request.firstSequence, bool(request.repeated)))
        return answer(request)

    servers.on(S1, "putMessage", put)
    return stamps


def talos(servers: FakeServers) -> TalosProducer:
    return TalosProducer(client_of(servers, direct=False), "demo", SETTINGS)


def simple(servers: FakeServers, **arguments: Any) -> SimpleProducer:
    return SimpleProducer(client_of(servers, direct=False), "demo", **arguments)


# --- TalosProducer --------------------------------------------------------------------------------


@pytest.mark.parametrize(("reported", "offsets"), [(7, [7, 8, 9]), (None, [None] * 3)])
def test_on_success_gets_the_own_offset_of_each_message_of_a_batch(
    servers: FakeServers, reported: int | None, offsets: list[int | None]
) -> None:
    answer = message.PutMessageResponse(sequenceId="x", baseOffset=reported)
    servers.on(S1, "putMessage", lambda _: answer)
    seen: list[tuple[bytes, int, int | None]] = []

    async def scenario() -> None:
        async with TalosProducer(client_of(servers, direct=False), "demo") as producer:
            for data in (b"a", b"b", b"c"):
                await producer.put(
                    data, on_success=lambda sent, *where: seen.append((sent.data, *where))
                )

    run(scenario())
    assert servers.count("putMessage") == 1
    assert seen == [
        (data, 0, offset) for data, offset in zip((b"a", b"b", b"c"), offsets, strict=True)
    ]


def test_flush_raises_what_no_callback_reports(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", in_turn(raises(PermissionDenied("no")), stored_at(0)))

    async def scenario() -> None:
        producer = talos(servers)
        await producer.put(b"refused")
        await producer.put(b"stored")
        with pytest.raises(DeliveryFailed, match=r"demo failed: 1 of .* PermissionDenied"):
            await producer.flush()
        await producer.flush()
        assert await producer.close() == Undelivered(0, 0)

    run(scenario())


def test_flush_leaves_a_failure_to_its_callback(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", raises(PermissionDenied("no")))
    outcomes: list[Outcome] = []

    async def scenario() -> None:
        async with talos(servers) as producer:
            await producer.put(b"x", on_error=lambda _, __, outcome: outcomes.append(outcome))
            await producer.flush()

    run(scenario())
    assert outcomes == [Outcome.NOT_DONE]


def test_leaving_the_block_raises_what_was_not_flushed(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", raises(PermissionDenied("no")))

    async def scenario(error: Exception | None) -> None:
        async with talos(servers) as producer:
            await producer.put(b"x")
            if error is not None:
                raise error

    with pytest.raises(DeliveryFailed):
        run(scenario(None))
    with pytest.raises(ZeroDivisionError):  # not hidden by what follows from it
        run(scenario(ZeroDivisionError()))


def test_close_says_what_was_left(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", raises(NoReply("lost")))
    failed: list[tuple[bytes, Outcome]] = []

    async def scenario() -> None:
        producer = talos(servers)
        for text in (b"in flight", b"waits", b"waits too"):
            await producer.put(
                text, on_error=lambda sent, _, outcome: failed.append((sent.data, outcome))
            )
        assert await producer.close(timeout_s=1.0) == Undelivered(not_stored=2, unknown=1)
        assert await producer.close() == Undelivered()

    run(scenario())
    assert failed == [
        (b"in flight", Outcome.UNKNOWN),
        (b"waits", Outcome.NOT_DONE),
        (b"waits too", Outcome.NOT_DONE),
    ]


def test_send_and_wait_says_where_the_message_is(servers: FakeServers) -> None:
    async def scenario() -> None:
        async with talos(servers) as producer:
            assert await producer.send_and_wait(b"x") == Stored(partition=0, offset=7)

    run(scenario())


def test_send_and_wait_raises_the_error_of_its_message_once(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", raises(PermissionDenied("no")))

    async def scenario() -> None:
        async with talos(servers) as producer:
            with pytest.raises(PermissionDenied, match="no"):
                await producer.send_and_wait(b"x")
            await producer.flush()

    run(scenario())


def test_a_wait_that_is_cancelled_leaves_nothing_behind(servers: FakeServers) -> None:
    servers.delay_s = 5.0

    async def scenario() -> None:
        async with talos(servers) as producer:
            await producer.put(b"first")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await producer.send_and_wait(b"x")

    run(scenario())
    assert servers.count("putMessage") == 2, "it was sent all the same"


def test_a_producer_that_was_not_closed_logs_what_it_loses(
    servers: FakeServers, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        await TalosProducer(client_of(servers, direct=False), "demo").put(b"x")

    with caplog.at_level(logging.ERROR, "opentalos.sdk.producer"):
        run(scenario())
        gc.collect()
    lost = "messages lost: the producer was not closed: topic=demo messages=1"
    assert lost in [record.getMessage().split(";")[0] for record in caplog.records]


# --- SimpleProducer -------------------------------------------------------------------------------


def test_a_put_whose_reply_is_lost_is_repeated_with_its_stamp(servers: FakeServers) -> None:
    stamps = stamps_of(servers, stored_at(0), raises(NoReply("lost")), stored_at(1))

    async def scenario() -> None:
        producer = simple(servers)
        for _ in range(3):
            await producer.put([b"x", b"y"])

    run(scenario())
    assert stamps == [(0, 0, False), (0, 2, False), (0, 2, True), (0, 4, False)]


def test_a_log_that_forgot_an_idle_producer_gets_the_put_in_a_new_epoch(
    servers: FakeServers,
) -> None:
    gap = raises(errors.SequenceGap("first sequence 1, expected 0"))
    stamps = stamps_of(servers, stored_at(0), gap, stored_at(1))

    async def scenario() -> None:
        producer = simple(servers)
        for _ in range(2):
            await producer.put([b"x"])

    run(scenario())
    assert stamps == [(0, 0, False), (0, 1, False), (1, 0, False)]


def test_a_gap_after_a_lost_reply_is_unknown_and_not_put_again(servers: FakeServers) -> None:
    gap = raises(errors.SequenceGap("a repeated first block"))
    stamps = stamps_of(servers, raises(NoReply("lost")), gap, stored_at(5))

    async def scenario() -> None:
        producer = simple(servers)
        with pytest.raises(OutcomeUnknown, match="lost; then SequenceGap"):
            await producer.put([b"x"])
        await producer.put([b"y"])

    run(scenario())
    assert stamps == [(0, 0, False), (0, 0, True), (1, 0, False)]


def test_another_server_gets_no_stamps_and_no_second_put() -> None:
    servers = servers_with("Talos 2.0")
    stamps = stamps_of(servers, raises(NoReply("lost")), stored_at(0))

    async def scenario() -> None:
        with pytest.raises(OutcomeUnknown):
            await simple(servers).put([b"x"])
        with pytest.raises(NotSupported):
            await simple(servers, idempotent=True).put([b"x"])

    run(scenario())
    assert stamps == [(None, None, False)]


def test_a_version_that_nobody_answers_leaves_the_put_not_done(servers: FakeServers) -> None:
    servers.on(S1, "getServiceVersion", raises(NoReply("silent")))
    stamps = stamps_of(servers, stored_at(0))

    async def scenario() -> None:
        with pytest.raises(Unavailable, match="silent; put again"):
            await simple(servers).put([b"x"])

    run(scenario())
    assert stamps == []


def test_a_producer_that_wants_no_stamps_does_not_ask_for_the_version(servers: FakeServers) -> None:
    stamps = stamps_of(servers, stored_at(0))

    async def scenario() -> None:
        await simple(servers, idempotent=False).put([b"x"])

    run(scenario())
    assert stamps == [(None, None, False)]
    assert servers.count("getServiceVersion") == 0
