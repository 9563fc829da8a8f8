"""The producer's buffer: when a batch is due, in which order, and never above its bound."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.waiting import limit_s

from opentalos.model.errors import OutcomeUnknown, RequestTooLarge
from opentalos.sdk.core.producer.accumulator import (
    LINGER_S,
    MESSAGE_BYTES,
    QUICK_MAX,
    WATCH_BYTES,
    Accumulator,
    Batch,
)
from opentalos.sdk.core.producer.partitioner import official_partition_of
from opentalos.sdk.core.producer.settings import Outcome, ProducerSettings
from opentalos.sdk.core.values import Message, MessageBlock
from opentalos.sdk.errors import BufferFull, ClientClosed


class Bench:
    """A buffer with a clock that a test moves."""

    def __init__(self, partitions: int = 2, **settings: Any) -> None:
        self.now_s = 100.0
        self.settings = ProducerSettings(**settings)
        self.buffer = Accumulator(self.settings, lambda: self.now_s, lambda: 0.99)
        self.buffer.partitions = partitions

    def take_due(self) -> Iterator[Batch]:
        for partition in self.buffer.due()[0]:
            batch = self.buffer.take(partition)
            if batch is not None:
                yield batch

    def end(self, batch: Batch) -> None:
        self.buffer.release(batch)
        self.buffer.finish(batch)


def test_a_batch_is_due_when_it_is_full_or_old() -> None:
    bench = Bench(batch_messages_max=3, linger_s=0.5)
    woken = [bench.buffer.add(Message(b"%d" % number)) for number in range(4)]
    assert woken == [True, False, True, True]  # its time is to be watched, it is full, the next one
    assert bench.buffer.due() == ([0], 100.5)
    (full,) = bench.take_due()
    assert [message.data for message in full.messages] == [b"0", b"1", b"2"]
    assert bench.buffer.due() == ([], 100.5)
    bench.now_s = 100.5
    (old,) = bench.take_due()
    assert ([message.data for message in old.messages], old.partition) == ([b"3"], 1)


@pytest.mark.parametrize("key", [None, "key"])
def test_a_batch_is_due_by_bytes_and_a_larger_message_has_its_own(key: str | None) -> None:
    bench = Bench(partitions=1, batch_bytes_max=13)
    for size in (4, 4, 6, 30, 4, 9, 3):
        bench.buffer.add(Message(b"x" * (size - len(key or "")), key))
    bench.buffer.flush()
    sizes = []
    while batches := list(bench.take_due()):
        for batch in batches:
            sizes.append([len(message.data) + len(key or "") for message in batch.messages])
            bench.end(batch)
    assert sizes == [[4, 4], [6], [30], [4, 9], [3]]


def test_one_batch_of_a_partition_is_on_its_way_and_the_order_is_that_of_the_puts() -> None:
    bench = Bench(partitions=1, batch_messages_max=1)
    for number in range(3):
        bench.buffer.add(Message(b"%d" % number))
    seen = []
    while batches := list(bench.take_due()):
        (batch,) = batches
        assert bench.buffer.take(0) is None
        seen.append(batch.messages[0].data)
        bench.end(batch)
    assert seen == [b"0", b"1", b"2"]
    assert bench.buffer.bytes_count == 0


def test_messages_with_a_key_go_to_its_partition_and_others_share_a_batch() -> None:
    bench = Bench(partitions=8, linger_s=0.0)
    keys = ["user-42", "hello", None, None, "user-42"]
    for key in keys:
        bench.buffer.add(Message(b"x", key))
    found = {
        batch.partition: [m.partition_key for m in batch.messages] for batch in bench.take_due()
    }
    assert found == {7: ["user-42", "user-42"], 0: ["hello", None, None]}


def test_the_bound_holds_until_a_batch_is_finished_not_only_sent() -> None:
    room = 2 * (MESSAGE_BYTES + 10)
    bench = Bench(partitions=1, linger_s=0.0, buffer_bytes_max=3 * room)
    message = Message(b"x" * 10)
    assert bench.buffer.add_all([message, message])
    for refused in ([message], [message] * 2):
        with pytest.raises(BufferFull, match="520 of 520 bytes"):
            bench.buffer.add_all(refused)
    with pytest.raises(RequestTooLarge, match="exceeds the producer buffer of 520"):
        bench.buffer.add_all([message] * 3)
    (batch,) = bench.take_due()
    bench.buffer.release(batch)
    with pytest.raises(BufferFull):
        bench.buffer.add(message)
    bench.buffer.finish(batch)
    bench.buffer.add_block(MessageBlock(b"y" * 10, 1), [0], 0, None)
    assert bench.buffer.bytes_count == MESSAGE_BYTES + 10


def test_a_waiter_for_room_resumes_when_there_is_room_or_on_close() -> None:
    bench = Bench(partitions=1, linger_s=0.0, buffer_bytes_max=3 * (MESSAGE_BYTES + 10))
    bench.buffer.add(Message(b"x" * 10))
    assert not bench.buffer.wait_for_room(1, 0.01)
    (batch,) = bench.take_due()
    timer = threading.Timer(0.02, bench.end, [batch])
    timer.start()
    assert bench.buffer.wait_for_room(1, limit_s())
    timer.join()
    bench.buffer.add(Message(b"x" * 10))
    timer = threading.Timer(0.02, bench.buffer.close)
    timer.start()
    assert bench.buffer.wait_for_room(1, limit_s())
    timer.join()
    with pytest.raises(ClientClosed):
        bench.buffer.add(Message(b"x"))


def test_flush_makes_due_what_was_put_before_and_waits_for_that_alone() -> None:
    bench = Bench(partitions=1, linger_s=50.0, batch_messages_max=2)
    bench.buffer.add(Message(b"before"))
    assert bench.buffer.due() == ([], 150.0)
    ticket = bench.buffer.flush()
    (batch,) = bench.take_due()
    bench.buffer.add(Message(b"behind"))
    assert not bench.buffer.wait_until_done(ticket, 0.0)
    bench.end(batch)
    assert bench.buffer.wait_until_done(ticket, 0.0)
    assert bench.buffer.due() == ([], 150.0)
    assert not bench.buffer.wait_until_done(bench.buffer.flush(), 0.0)


def test_messages_of_a_partition_that_is_gone_move_and_keep_their_callbacks() -> None:
    bench = Bench(partitions=8, linger_s=0.0)
    notified: list[Any] = []
    bench.buffer.add(Message(b"keyed", "user-42"))
    watch = (lambda *what: notified.append(what), None)
    bench.buffer.add(Message(b"watched", "user-42"), watch)
    (batch,) = bench.take_due()
    assert batch.partition == 7
    counted, ticket = bench.buffer.bytes_count, bench.buffer.flush()
    bench.buffer.partitions = 2
    bench.buffer.move(batch)
    assert bench.buffer.bytes_count == counted
    (again,) = bench.take_due()
    assert again.partition == official_partition_of("user-42", 2) == 1
    again.call_back(40, None)
    assert [(sent.data, partition, offset) for sent, partition, offset in notified] == [
        (b"watched", 1, 41)
    ]
    assert not bench.buffer.wait_until_done(ticket, 0.0)
    bench.end(again)
    assert bench.buffer.wait_until_done(ticket, 0.0)
    assert bench.buffer.bytes_count == 0


def test_every_callback_is_called_though_others_raise(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(partitions=1, linger_s=0.0)
    notified: list[Any] = []

    def failing(*what: Any) -> None:
        notified.append(what)
        raise ValueError("a bug of the user")

    for number in range(3):
        bench.buffer.add(Message(b"%d" % number), (failing, failing))
    bench.buffer.add(Message(b"nobody"))
    (batch,) = bench.take_due()
    batch.call_back(None, None)
    assert [(sent.data, partition, offset) for sent, partition, offset in notified] == [
        (b"0", 0, None), (b"1", 0, None), (b"2", 0, None)
    ]  # fmt: skip
    notified.clear()
    error = OutcomeUnknown("why")
    batch.call_back(None, error)
    assert {what[1:] for what in notified} == {(error, Outcome.UNKNOWN)}
    assert len(caplog.records) == 4  # the first trace and the number, of both


def test_threads_lose_and_repeat_nothing() -> None:
    bench = Bench(partitions=3, batch_messages_max=7, linger_s=0.0)
    threads = [
        threading.Thread(
            target=lambda who=who: [
                bench.buffer.add(Message(b"%d %d" % (who, n))) for n in range(500)
            ]
        )
        for who in range(4)
    ]
    for thread in threads:
        thread.start()
    found: list[bytes] = []
    while len(found) < 2_000:
        for batch in bench.take_due():
            found += [message.data for message in batch.messages]
            bench.end(batch)
    for thread in threads:
        thread.join()
    assert len(set(found)) == 2_000
    assert bench.buffer.bytes_count == 0


@pytest.mark.parametrize("watched", [False, True])
def test_many_at_once_are_spread_like_one_after_the_other(watched: bool) -> None:
    sizes = [4, 4, 6, 30, 4, 9, 3, 13, 1, 1, 1, 1, 1, 1]
    watch = (None, None) if watched else None
    found: list[list[tuple[int, list[int]]]] = []
    for at_once in (True, False):
        bench = Bench(partitions=3, batch_bytes_max=13, batch_messages_max=4)
        bench.buffer.add(Message(b"0"))
        messages = [Message(b"x" * size) for size in sizes]
        if at_once:
            bench.buffer.add_all(messages, watch)
        else:
            for message in messages:
                bench.buffer.add(message)
        watching = WATCH_BYTES * len(sizes) if at_once and watched else 0
        expected = sum(sizes) + 1 + MESSAGE_BYTES * (len(sizes) + 1) + watching
        assert bench.buffer.bytes_count == expected
        found.append([])
        bench.buffer.flush()
        while batches := list(bench.take_due()):
            for batch in batches:
                found[-1].append((batch.partition, [len(item.data) for item in batch.messages]))
                bench.end(batch)
        assert bench.buffer.bytes_count == 0
    assert found[0] == found[1]
    assert [item for _, part in sorted(found[0]) for item in part].count(1) == 7


@pytest.mark.parametrize("bytes_max", [1_000, 1 << 20, 64 << 20, 1 << 30])
def test_messages_leave_room_for_the_copies_that_are_on_their_way(bytes_max: int) -> None:
    settings = ProducerSettings(buffer_bytes_max=bytes_max)
    waiting = settings.waiting_bytes_max
    on_their_way = min(waiting, settings.requests_max * settings.batch_bytes_max)
    assert bytes_max // 3 <= waiting
    assert waiting + 2 * on_their_way <= bytes_max


def test_what_waits_for_partitions_that_are_gone_moves_before_what_comes_later() -> None:
    bench = Bench(partitions=8, batch_messages_max=2, linger_s=50.0)
    for number in range(5):
        bench.buffer.add(Message(b"%d" % number, "user-42"))
    first = bench.buffer.take(7)
    assert first is not None
    bench.buffer.partitions = 2
    bench.buffer.move(first)
    bench.buffer.add(Message(b"5", "user-42"))
    bench.buffer.flush()
    found = []
    while batches := list(bench.take_due()):
        (batch,) = batches
        assert batch.partition == 1
        found += [message.data for message in batch.messages]
        bench.end(batch)
    assert found == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert bench.buffer.bytes_count == 0


def test_a_partitioner_that_raises_leaves_the_batch_to_be_ended() -> None:
    answers: list[int | ValueError] = [5, ValueError("a bug of the user")]

    def partitioner(key: str, partitions: int) -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    bench = Bench(partitions=8, linger_s=0.0, partitioner=partitioner)
    bench.buffer.add(Message(b"x", "k"))
    (batch,) = bench.take_due()
    bench.buffer.partitions = 2
    with pytest.raises(ValueError, match="a bug"):
        bench.buffer.move(batch)
    bench.end(batch)
    assert bench.buffer.bytes_count == 0


# --- linger unless set ----------------------------------------------------------------------------


def test_an_idle_producer_sends_at_once() -> None:
    bench = Bench()
    bench.buffer.add(Message(b"1"))
    (first,) = bench.take_due()
    bench.end(first)
    bench.buffer.add(Message(b"2"))
    (second,) = bench.take_due()
    assert [message.data for message in second.messages] == [b"2"]


def test_messages_of_a_busy_partition_wait_for_its_reply() -> None:
    bench = Bench(partitions=1)
    bench.buffer.add(Message(b"1"))
    (first,) = bench.take_due()
    for number in (b"2", b"3"):
        bench.buffer.add(Message(number))
    assert bench.buffer.due() == ([], None)
    bench.end(first)
    (second,) = bench.take_due()
    assert [message.data for message in second.messages] == [b"2", b"3"]


def test_a_busy_producer_lingers_five_milliseconds() -> None:
    bench = Bench(partitions=8)
    sent: list[Batch] = []
    for _ in range(QUICK_MAX):
        bench.buffer.add(Message(b"x"))
        sent += bench.take_due()
    assert len(sent) == QUICK_MAX
    bench.buffer.add(Message(b"y"))
    assert bench.buffer.due() == ([], 100.0 + LINGER_S)
    bench.now_s = 100.0 + LINGER_S
    (late,) = bench.take_due()
    assert [message.data for message in late.messages] == [b"y"]


def test_many_idle_partitions_do_not_all_send_at_once() -> None:
    bench = Bench(partitions=8)
    for number in range(8):
        bench.buffer.add(Message(b"x", partition_key=f"key-{number * 7919}"))
    assert len(list(bench.take_due())) == QUICK_MAX
    assert bench.buffer.due()[0] == []


def test_a_linger_time_that_is_set_is_kept_by_an_idle_producer_too() -> None:
    bench = Bench(linger_s=0.5)
    bench.buffer.add(Message(b"1"))
    assert bench.buffer.due() == ([], 100.5)
