"""BlockReader: single messages of stored blocks, for callers that cannot decode blocks.

A block of a few KB may hold tens of MB, and a reader may want only a part of it. So a block that is
not small is decompressed on a thread, only as far as it is needed, and decoded in pieces; what was
decompressed is charged to the reader and kept for a while, since readers continue where they
stopped. Promise: a reader costs other callers at most one piece per pass of the loop.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from opentalos.broker.long_work import SHORT_BYTES, LongWork, Turn
from opentalos.model.errors import BadRequest
from opentalos.model.message import Compression, StoredBlock
from opentalos.wire.message.compression import DECODED_BYTES_MAX
from opentalos.wire.message.kafka_format import is_packed_kafka_block
from opentalos.wire.message.message import Message
from opentalos.wire.message.open_block import BlockCut, OpenBlock, open_block
from opentalos.wire.message.unpacking import DecodedTooLarge

KEPT_S = 10.0  # an opened block that nobody reads
SHORT_MESSAGES = 512  # passed over or decoded at once
SHORT_PACKED_BYTES = 8 << 10  # decompressed at once: 1 ms even if nothing comes out of them
PART_BYTES = 256 << 10  # decompressed beyond what was asked for, for the messages' own fields
PART_GROWTH = 8  # of the part that is decompressed, if a message was not in it


class MessageUnreadable(BadRequest):
    """A stored block whose payload does not follow the message format, so it cannot be decoded."""


class Reader(NamedTuple):
    """Who reads what. ``charge`` takes the bytes that were decompressed."""

    caller: str
    topic_uuid: str
    partition: int
    charge: Callable[[int], None]


class Part(NamedTuple):
    """Which messages of a block: from an offset on, until either bound is reached."""

    first_offset: int
    messages_max: int
    bytes_max: int


_Key = tuple[str, int, int]  # topic, partition, base offset


class _Kept(NamedTuple):
    opened: OpenBlock
    until_s: float


class BlockReader:
    """Decodes parts of blocks; keeps opened blocks within a byte budget, the latest ones."""

    def __init__(self, work: LongWork, kept_bytes_max: int) -> None:
        self._work, self._kept_bytes_max = work, kept_bytes_max
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()  # the oldest first
        self._timer: asyncio.TimerHandle | None = None
        self.kept_bytes = 0
        self.decoded_bytes = 0  # decompressed since the start

    async def read(self, reader: Reader, block: StoredBlock, part: Part) -> Sequence[Message]:
        """The messages of a part, in order.

        Raises: MessageUnreadable; ExcessivePending: too many calls of the caller wait.
        """
        try:
            small = _small(block)
            if small is not None:
                pieces = small.read(*_numbers(block, part))
                return [message for piece in pieces for message in piece]
            async with self._work.turn(reader.caller) as turn:
                return await self._long(turn, reader, block, part)
        except BadRequest as error:
            raise MessageUnreadable(
                f"cannot decode the block at offset {block.base_offset}: {error}"
            ) from error

    def close(self) -> None:
        """Drop what is kept."""
        while self._kept:
            self._drop_oldest()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _long(
        self, turn: Turn, reader: Reader, block: StoredBlock, part: Part
    ) -> Sequence[Message]:
        key = (reader.topic_uuid, reader.partition, block.base_offset)
        numbers = _numbers(block, part)
        part_bytes = min(part.bytes_max + PART_BYTES, DECODED_BYTES_MAX)
        opened = self._take(key)
        while True:
            if opened is None:
                opened = await self._open(turn, reader, block, part_bytes)
            try:
                found: list[Message] = []
                for piece in opened.read(*numbers):
                    found += piece
                    await turn.pause()
            except BlockCut:
                part_bytes = min(DECODED_BYTES_MAX, opened.bytes_count * PART_GROWTH)
                self._work.free(opened.close)
                opened = None
                continue
            if numbers[0] + len(found) < block.messages:
                self._keep(key, opened)
            else:
                self._work.free(opened.close)
            return found

    async def _open(
        self, turn: Turn, reader: Reader, block: StoredBlock, part_bytes: int
    ) -> OpenBlock:
        payload = bytes(block.payload)
        opened = await turn.off_loop(
            open_block, payload, block.compression, block.messages, part_bytes
        )
        if block.compression != Compression.NONE:
            self.decoded_bytes += opened.bytes_count
            reader.charge(max(0, opened.bytes_count - len(payload)))
        return opened

    # --- kept blocks ----------------------------------------------------------------------------

    def _take(self, key: _Key) -> OpenBlock | None:
        """An opened block, which is no longer kept: a block has one user at a time."""
        kept = self._kept.pop(key, None)
        if kept is None:
            return None
        self.kept_bytes -= kept.opened.bytes_count
        return kept.opened

    def _keep(self, key: _Key, opened: OpenBlock) -> None:
        if key in self._kept or opened.bytes_count > self._kept_bytes_max:
            self._work.free(opened.close)
            return
        loop = asyncio.get_running_loop()
        self._kept[key] = _Kept(opened, loop.time() + KEPT_S)
        self.kept_bytes += opened.bytes_count
        while self.kept_bytes > self._kept_bytes_max:
            self._drop_oldest()
        if self._timer is None:
            self._timer = loop.call_later(KEPT_S, self._drop_idle)

    def _drop_idle(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._kept and next(iter(self._kept.values())).until_s <= loop.time():
            self._drop_oldest()
        if self._kept:
            self._timer = loop.call_at(next(iter(self._kept.values())).until_s, self._drop_idle)

    def _drop_oldest(self) -> None:
        _, kept = self._kept.popitem(last=False)
        self.kept_bytes -= kept.opened.bytes_count
        self._work.free(kept.opened.close)


def _small(block: StoredBlock) -> OpenBlock | None:
    """The opened block if decoding it takes no time worth a turn; None: it is not small."""
    size = len(block.payload)
    if size > SHORT_BYTES or block.messages > SHORT_MESSAGES:
        return None
    if size > SHORT_PACKED_BYTES and _is_packed(block):
        return None
    try:
        return open_block(
            bytes(block.payload), block.compression, block.messages, SHORT_BYTES, SHORT_BYTES
        )
    except DecodedTooLarge:
        return None


def _is_packed(block: StoredBlock) -> bool:
    return block.compression != Compression.NONE or is_packed_kafka_block(block.payload)


def _numbers(block: StoredBlock, part: Part) -> tuple[int, int, int]:
    return max(0, part.first_offset - block.base_offset), part.messages_max, part.bytes_max
