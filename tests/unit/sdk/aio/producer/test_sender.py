"""How a producer's batches are sent: stamps, new epochs, and servers that do not detect repeats."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from opentalos.model.errors import (
    NotSupported,
    OutcomeUnknown,
    PermissionDenied,
    SequenceGap,
    TalosError,
    Unavailable,
)
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.aio.producer.idempotent_put import RENEWALS_MAX
from opentalos.sdk.aio.producer.sender import Sender
from opentalos.sdk.core.producer.accumulator import Accumulator, Batch
from opentalos.sdk.core.producer.settings import ProducerSettings
from opentalos.sdk.core.values import Compression, Message, ProducerStamp, PutReply, TopicRef
from opentalos.wire.message import MessageFormatError

Script = Callable[[int, ProducerStamp | None], TalosError | None]  # by number of the put


class FakeClient:
    """Answers puts as the test's script says, and remembers their stamps."""

    def __init__(self, script: Script, version: str, partitions: int) -> None:
        self.config = SimpleNamespace(backoff_s=0.001)
        self.script, self.version, self.partitions = script, version, partitions
        self.stamps: list[ProducerStamp | None] = []
        self.under_way: list[int] = []
        self.most = 0

    async def topic(self, name: str, *, refresh: bool = False) -> TopicRef:
        return TopicRef(name, f"o#{name}#1", self.partitions)

    async def call(self, service: Any, method: str, request: Any) -> Any:
        return SimpleNamespace(details=self.version)

    async def put(
        self, topic: TopicRef, partition: int, block: Any, *, stamp: Any, deadline_s: float
    ) -> PutReply:
        assert partition not in self.under_way
        self.under_way.append(partition)
        self.most = max(self.most, len(self.under_way))
        await asyncio.sleep(0)
        self.under_way.remove(partition)
        self.stamps.append(stamp)
        error = self.script(len(self.stamps), stamp)
        if error is not None:
            raise error
        return PutReply(100 * len(self.stamps))


class Bench:
    """A sender over the fake client; ``ended`` has what became of each message."""

    def __init__(
        self, script: Script, version: str = "opentalos 1.2", partitions: int = 1, **settings: Any
    ) -> None:
        self.ended: dict[bytes, int | TalosError | None] = {}
        defaults = {"batch_messages_max": 1, "compression": Compression.NONE}
        self.settings = ProducerSettings(**{**defaults, **settings})
        self.buffer = Accumulator(self.settings, asyncio.get_running_loop().time, lambda: 0.0)
        self.client = FakeClient(script, version, partitions)
        client = cast(Client, self.client)
        self.sender = Sender(client, "t", self.buffer, self._settle)

    def _settle(self, batch: Batch, base_offset: int | None, error: TalosError | None) -> None:
        for message in batch.messages:
            self.ended[message.data] = error if error is not None else base_offset
        self.buffer.finish(batch)

    async def send(self, *given: bytes | Message) -> None:
        """Put messages and wait for their outcomes."""
        await self.sender.start()
        for item in given:
            self.buffer.add(item if isinstance(item, Message) else Message(item))
        ticket = self.buffer.flush()
        self.sender.wake()
        progress = asyncio.Event()
        self.buffer.on_progress = progress.set
        while not self.buffer.wait_until_done(ticket, 0.0):
            progress.clear()
            await progress.wait()
        await self.sender.stop()

    @property
    def places(self) -> list[tuple[int, int]]:
        """Epoch and sequence of each put."""
        assert all(self.client.stamps)
        return [(stamp.epoch, stamp.sequence) for stamp in self.client.stamps if stamp]


async def test_sequences_follow_each_other_without_gaps() -> None:
    bench = Bench(lambda number, _: None, batch_messages_max=2)
    await bench.send(b"a", b"b", b"c", b"d", b"e")
    assert bench.places == [(0, 0), (0, 2), (0, 4)]
    assert len({stamp.producer_id for stamp in bench.client.stamps if stamp}) == 1
    assert bench.ended == {b"a": 100, b"b": 100, b"c": 200, b"d": 200, b"e": 300}


async def test_a_refused_block_leaves_no_gap() -> None:
    denied = PermissionDenied("no")
    bench = Bench(lambda number, _: denied if number == 2 else None)
    await bench.send(b"a", b"b", b"c")
    assert bench.places == [(0, 0), (0, 1), (0, 1)]
    assert bench.ended == {b"a": 100, b"b": denied, b"c": 300}


async def test_an_unknown_block_is_followed_by_a_new_epoch() -> None:
    unknown = OutcomeUnknown("lost")
    bench = Bench(lambda number, _: unknown if number == 2 else None)
    await bench.send(b"a", b"b", b"c", b"d")
    assert bench.places == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert bench.ended == {b"a": 100, b"b": unknown, b"c": 300, b"d": 400}


async def test_a_producer_registers_again_when_the_log_forgot_it() -> None:
    def script(number: int, stamp: ProducerStamp | None) -> TalosError | None:
        return SequenceGap("expected 0") if number == 2 else None

    bench = Bench(script)
    await bench.send(b"a", b"b", b"c")
    assert bench.places == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert bench.ended == {b"a": 100, b"b": 300, b"c": 400}


async def test_a_log_that_always_finds_a_gap_ends_the_block() -> None:
    gap = SequenceGap("whatever")
    bench = Bench(lambda *_: gap)
    await bench.send(b"a")
    assert len(bench.client.stamps) == RENEWALS_MAX + 1
    assert bench.ended == {b"a": gap}


async def test_another_server_gets_no_stamps_and_unknown_puts_are_repeated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(lambda number, _: OutcomeUnknown("lost") if number < 3 else None, "Talos 2.0")
    await bench.send(b"a")
    assert bench.client.stamps == [None] * 3
    assert bench.ended == {b"a": 300}
    assert "Talos 2.0" in caplog.text
    assert "may be stored twice" in caplog.text


async def test_an_unknown_put_that_fails_later_stays_unknown() -> None:
    def script(number: int, stamp: ProducerStamp | None) -> TalosError | None:
        return OutcomeUnknown("lost") if number == 1 else Unavailable("down")

    bench = Bench(script, idempotent=False)
    await bench.send(b"a")
    error = bench.ended[b"a"]
    assert isinstance(error, OutcomeUnknown)
    assert str(error) == "lost; then down"


@pytest.mark.parametrize("wrong", [{"create_ms": 1 << 70}, {"partition_key": "\ud800"}, {"tag": 5}])
async def test_a_message_that_cannot_be_encoded_is_not_done(wrong: dict[str, Any]) -> None:
    bench = Bench(lambda *_: None)
    await bench.send(Message(b"a", **wrong), Message(b"b"))
    assert isinstance(bench.ended[b"a"], MessageFormatError)
    assert bench.places == [(0, 0)]


async def test_required_idempotence_fails_on_a_server_without_it() -> None:
    with pytest.raises(NotSupported, match="no idempotent puts"):
        await Bench(lambda *_: None, "Talos 2.0", idempotent=True).sender.start()


async def test_requests_under_way_are_bounded() -> None:
    bench = Bench(lambda *_: None, partitions=6, requests_max=2)
    await bench.send(*[b"%d" % number for number in range(40)])
    assert bench.client.most == 2
    assert len(bench.ended) == 40


async def test_a_bug_while_sending_ends_the_message_as_unknown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def script(number: int, stamp: ProducerStamp | None) -> TalosError | None:
        raise ValueError("a bug")

    bench = Bench(script)
    await bench.send(b"a", b"b")
    assert bench.places == [(0, 0), (1, 0)]
    assert {type(error) for error in bench.ended.values()} == {OutcomeUnknown}
    assert "put failed unexpectedly" in caplog.text
