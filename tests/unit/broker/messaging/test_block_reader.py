"""BlockReader: what a read of a block costs, and who pays."""

import asyncio
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from opentalos.broker.long_work import SHORT_BYTES, LongWork
from opentalos.broker.messaging.block_reader import (
    KEPT_S,
    PART_BYTES,
    SHORT_MESSAGES,
    BlockReader,
    MessageUnreadable,
    Part,
    Reader,
)
from opentalos.model.message import Compression, StoredBlock
from opentalos.wire.message import Message, encode_block
from opentalos.wire.message.kafka_batch import CRC_END, HEAD, LENGTH_END, set_crc
from opentalos.wire.message.kafka_format import encode_kafka_batch
from opentalos.wire.message.talos_format import encode_messages

MIB = 1 << 20
COUNT = 20_000
MESSAGES = [Message(b"%01000d" % number) for number in range(COUNT)]  # 20 MB
PACKED = encode_block(MESSAGES, Compression.ZSTD)
BOMB = StoredBlock(0, COUNT, 1, 0, Compression.ZSTD, 1, PACKED)
BATCH = 256 << 10


@dataclass
class Bench:
    work: LongWork = field(default_factory=lambda: LongWork(None, waiting_max=8))
    charged: int = 0
    kept_bytes_max: int = 64 * MIB

    def __post_init__(self) -> None:
        self.blocks = BlockReader(self.work, self.kept_bytes_max)
        self.reader = self.of(0)

    def of(self, partition: int) -> Reader:
        return Reader("alice", "uuid", partition, self.charge)

    def charge(self, bytes_count: int) -> None:
        self.charged += bytes_count


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.blocks.close()


async def test_a_small_block_takes_no_turn_and_costs_nothing(bench: Bench) -> None:
    block = StoredBlock(7, 3, 1, 0, 0, 1, encode_block(MESSAGES[:3], Compression.NONE))
    found = await bench.blocks.read(bench.reader, block, Part(8, 10, MIB))
    assert found == MESSAGES[1:3]
    assert (bench.work.counters.turns, bench.charged, bench.blocks.kept_bytes) == (0, 0, 0)


async def test_a_few_bytes_that_become_many_leave_the_loop_and_stop_early(bench: Bench) -> None:
    assert len(PACKED) < COUNT * 1_000 / 20
    found = await bench.blocks.read(bench.reader, BOMB, Part(0, 200, BATCH))
    assert found == MESSAGES[:200]
    assert bench.work.counters.off_loop == 1
    assert bench.blocks.decoded_bytes <= BATCH + PART_BYTES


def empty_members(batch: bool) -> bytes:
    """A sound gzip member of which most makes nothing; as a block or in a batch of Kafka."""
    data = bytes(encode_kafka_batch(MESSAGES[:1]))[HEAD.size :] if batch else b"\0\0\0\0\0\0\0\1x"
    head = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\0\0\0\xff\xff" * 2_000
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    packed = head + packer.compress(data) + packer.flush()
    packed += struct.pack("<II", zlib.crc32(data), len(data))
    if not batch:
        return packed
    made = bytearray(encode_kafka_batch(MESSAGES[:1]))
    made[HEAD.size :] = packed
    struct.pack_into(">h", made, CRC_END, 1)
    struct.pack_into(">i", made, 8, len(made) - LENGTH_END)
    set_crc(made)
    return b"K\0\0\0" + struct.pack(">I", len(made)) + made


@pytest.mark.parametrize("batch", [False, True], ids=["block", "batch"])
async def test_many_bytes_that_become_few_leave_the_loop(bench: Bench, batch: bool) -> None:
    kind = Compression.NONE if batch else Compression.GZIP
    block = StoredBlock(0, 1, 1, 0, kind, 1, memoryview(empty_members(batch)))
    assert len(block.payload) <= SHORT_BYTES
    assert len(await bench.blocks.read(bench.reader, block, Part(0, 1, BATCH))) == 1
    assert bench.work.counters.off_loop == 1


async def test_a_stream_through_a_block_decodes_it_about_once(bench: Bench) -> None:
    offset = 0
    while offset < COUNT:
        found = await bench.blocks.read(bench.reader, BOMB, Part(offset, 200, BATCH))
        assert found[0] == MESSAGES[offset]
        offset += len(found)
    size = COUNT * 1_030
    assert bench.blocks.decoded_bytes <= 1.3 * size
    assert bench.work.counters.off_loop <= 3
    assert bench.blocks.kept_bytes == 0  # it was read to its end


async def test_what_was_decompressed_is_charged_once(bench: Bench) -> None:
    await bench.blocks.read(bench.reader, BOMB, Part(0, 200, BATCH))
    charged = bench.charged
    assert charged == bench.blocks.decoded_bytes - len(PACKED)
    await bench.blocks.read(bench.reader, BOMB, Part(200, 10, BATCH))
    assert bench.charged == charged


async def test_no_pass_of_the_loop_decodes_more_than_a_piece_a_turn(bench: Bench) -> None:
    await bench.blocks.read(bench.reader, BOMB, Part(19_000, 1_000, MIB))
    assert bench.work.counters.pauses >= 1_000 / 64 + 19_000 / 2_000


async def test_kept_blocks_stay_within_the_budget_and_are_dropped_when_idle() -> None:
    bench = Bench(kept_bytes_max=2 * MIB)
    for partition in range(6):
        await bench.blocks.read(bench.of(partition), BOMB, Part(0, 10, BATCH))
        assert 0 < bench.blocks.kept_bytes <= 2 * MIB
    await asyncio.sleep(KEPT_S + 1)
    assert bench.blocks.kept_bytes == 0


async def test_a_large_block_without_compression_is_read_in_pieces(bench: Bench) -> None:
    payload = encode_block(MESSAGES[:2_000], Compression.NONE)
    block = StoredBlock(0, 2_000, 1, 0, 0, 1, memoryview(payload))
    assert len(payload) > SHORT_BYTES
    found = await bench.blocks.read(bench.reader, block, Part(1_500, 100, MIB))
    assert found == MESSAGES[1_500:1_600]
    assert bench.charged == 0
    assert bench.work.counters.pauses >= 2


async def test_a_few_bytes_with_many_messages_are_read_in_pieces(bench: Bench) -> None:
    count = SHORT_MESSAGES + 1
    payload = encode_messages([Message(b"x")] * count, 1)
    block = StoredBlock(0, count, 1, 0, 0, 1, payload)
    assert len(payload) <= SHORT_BYTES
    found = await bench.blocks.read(bench.reader, block, Part(0, count, MIB))
    assert len(found) == count
    assert bench.work.counters.pauses >= count // 64


async def test_damage_names_the_block(bench: Bench) -> None:
    for payload in (b"no messages", b"x" * (SHORT_BYTES + 1)):
        for compression in (Compression.NONE, Compression.ZSTD, Compression.GZIP):
            block = StoredBlock(5, 3, 1, 0, compression, 1, payload)
            with pytest.raises(MessageUnreadable, match="block at offset 5"):
                await bench.blocks.read(bench.reader, block, Part(5, 3, MIB))
