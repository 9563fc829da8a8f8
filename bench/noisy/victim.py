"""The victim: puts and gets at a fixed rate, and a check that all it put can be read."""

import time
from dataclasses import dataclass, field

from bench.client import BenchTopic, Client, Key
from opentalos.wire._generated.message import (
    MESSAGE_SERVICE,
    MessageBlock,
    MessageCompressionType,
    PutMessageRequest,
)
from opentalos.wire.thrift import ThriftProtocol, encode_call

PAYLOAD_BYTES = 1_024
ROUNDS_PER_S = 20  # few enough that a slow disk keeps up
GET_BYTES = 1 << 20
LATE_FACTOR = 2  # times the planned time


def message_v1(payload: bytes) -> bytes:
    """One message of format V1."""
    return bytes(4) + len(payload).to_bytes(4, "big") + payload


def put_body(
    topic: BenchTopic, partition: int, payload: bytes, producer: int | None = None
) -> bytes:
    """A putMessage call with one message, as an idempotent producer if one is given."""
    data = message_v1(payload)
    block = MessageBlock(
        startMessageOffset=0,
        messageNumber=1,
        compressionType=MessageCompressionType.NONE,
        messageBlock=data,
        messageBlockSize=len(data),
        createTimestamp=int(time.time() * 1000),
    )
    request = PutMessageRequest(
        topicAndPartition=topic.partition(partition),
        messageBlocks=[block],
        messageNumber=1,
        sequenceId="noisy#1",
        producerId=producer,
        producerEpoch=None if producer is None else 0,
        firstSequence=None if producer is None else 0,
    )
    return encode_call(ThriftProtocol.COMPACT, MESSAGE_SERVICE.methods["putMessage"], 1, request)


@dataclass
class Victim:
    """One tenant with a topic of one partition; latencies count from the planned time of a round,
    so that a stall counts for all the rounds it delays."""

    port: int
    key: Key
    rounds_per_s: int = ROUNDS_PER_S
    put_s: list[float] = field(default_factory=list)
    get_s: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    acknowledged: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._puts, self._gets = Client(self.port, self.key), Client(self.port, self.key)
        self._topic = self._puts.create_topic("victim", 1)

    def run(self, seconds: float) -> float:
        """Put and get at the rate for so long; every failure is kept as text.

        Returns: the share of the planned puts that were acknowledged in that time.
        """
        began_s, in_time = time.monotonic(), 0
        for number in range(int(seconds * self.rounds_per_s)):
            planned_s = began_s + number / self.rounds_per_s
            if time.monotonic() > began_s + seconds * LATE_FACTOR:
                break  # the rounds that were late show it
            time.sleep(max(0.0, planned_s - time.monotonic()))
            payload = b"%012d" % len(self.acknowledged)
            payload += b"v" * (PAYLOAD_BYTES - len(payload))
            try:
                self._puts.raw_put(put_body(self._topic, 0, payload))
                self.acknowledged.append(payload)
                self.put_s.append(time.monotonic() - planned_s)
                in_time += planned_s + self.put_s[-1] <= began_s + seconds
                begin_s = time.monotonic()
                self._read(len(self.acknowledged) - 1)
                self.get_s.append(time.monotonic() - begin_s)
            except (OSError, RuntimeError) as error:
                self.errors.append(repr(error))
        return in_time / int(seconds * self.rounds_per_s)

    def start_over(self) -> None:
        """Forget the latencies of before, not what was put."""
        self.put_s, self.get_s = [], []

    def close(self) -> None:
        """Close both connections."""
        self._puts.close()
        self._gets.close()

    def missing(self) -> int:
        """How many acknowledged puts are not in the log, in their order, once each."""
        found: list[bytes] = []
        while len(found) < len(self.acknowledged) and (blocks := self._read(len(found))):
            found += blocks
        pairs = zip(found, self.acknowledged, strict=False)
        same = sum(stored == message_v1(payload) for stored, payload in pairs)
        return len(self.acknowledged) - same

    def _read(self, offset: int) -> list[bytes]:
        request = self._topic.get(0, offset, bytes_max=GET_BYTES)
        result = self._gets.call(MESSAGE_SERVICE, "getMessage", request)
        return [bytes(block.messageBlock) for block in result.messageBlocks]
