"""A block opened for reading a few of its messages, in pieces between which other work may run."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from opentalos.model.message import Compression
from opentalos.wire.message.compression import DECODED_BYTES_MAX
from opentalos.wire.message.kafka_format import (
    KafkaBatch,
    is_kafka_block,
    open_kafka_block,
    pass_over_kafka_records,
    read_kafka_records,
)
from opentalos.wire.message.message import Message, MessageFormatError
from opentalos.wire.message.talos_format import check_count, check_end, pass_over, read_some
from opentalos.wire.message.unpacking import Unpacked, free, unpack

PIECE_MESSAGES: Final = 64  # decoded in one piece, about 0.1 ms
PIECE_PASSED: Final = 2_000  # passed over in one piece, about 0.5 ms
PIECE_BYTES: Final = 256 << 10  # a piece ends after the message that reaches it
_MARKS_MAX: Final = 64  # places of messages that are remembered


class BlockCut(MessageFormatError):
    """Only the beginning of the block was decompressed, and the wanted message is not in it."""


class OpenBlock:
    """A block of ``count`` messages, decompressed as a whole or (``complete`` is false) in part.

    It remembers where a read ended, so a reader that continues there passes nothing over.
    """

    def __init__(
        self,
        data: Unpacked,
        count: int,
        *,
        complete: bool,
        bytes_max: int = DECODED_BYTES_MAX,
    ) -> None:
        self.complete = complete
        self._data, self._count = data, count
        self._batch: KafkaBatch | None = None
        start = 0
        if complete and is_kafka_block(data):
            self._batch = open_kafka_block(data, count, bytes_max)
            self._data = self._batch.data or data
            start = self._batch.position
        elif complete:
            check_count(data, count)
        self.bytes_count = len(self._data)
        self._marks = {0: start}  # position by number of a message

    def close(self) -> None:
        """Free its memory; it must not be used afterwards."""
        self._batch = None
        free(self._data)

    def read(self, first: int, wanted: int, bytes_max: int) -> Iterator[Sequence[Message]]:
        """Messages from number ``first`` on, in pieces; an empty one means that some were passed.

        Ends after ``wanted`` messages, with the block, or once ``bytes_max`` of data are reached.

        Raises: BlockCut: open it again with more of it; MessageFormatError: it is damaged.
        """
        try:
            yield from self._read(first, wanted, bytes_max)
        except MessageFormatError as error:
            if self.complete:
                raise
            raise BlockCut(str(error)) from error

    def _read(self, first: int, wanted: int, bytes_max: int) -> Iterator[Sequence[Message]]:
        index = max((number for number in self._marks if number <= first), default=0)
        position = self._marks[index]
        for start, end in pairwise([*range(index, first, PIECE_PASSED), first]):
            position = self._passed(position, range(start, end))
            yield ()
        index, last, left_bytes = first, min(first + wanted, self._count), bytes_max
        while index < last and left_bytes > 0:
            numbers = range(index, min(last, index + PIECE_MESSAGES))
            found, position = self._some(position, numbers)
            index += len(found)
            left_bytes -= sum(len(message.data) for message in found)
            if index == self._count and self._batch is None and self.complete:
                check_end(self._data, position, self._count)
            self._mark(index, position)
            yield found

    def _passed(self, position: int, numbers: range) -> int:
        if self._batch is not None:
            return pass_over_kafka_records(self._batch, position, numbers)
        return pass_over(self._data, position, numbers, self._count)

    def _some(self, position: int, numbers: range) -> tuple[Sequence[Message], int]:
        if self._batch is None:
            return read_some(self._data, position, numbers, self._count)
        found: list[Message] = []
        size = 0
        for number in numbers:
            records, position = read_kafka_records(self._batch, position, range(number, number + 1))
            found += records
            size += len(records[0].data)
            if size > PIECE_BYTES:
                break
        return found, position

    def _mark(self, index: int, position: int) -> None:
        if len(self._marks) >= _MARKS_MAX:
            del self._marks[max(1, min(number for number in self._marks if number))]
        self._marks[index] = position


def open_block(
    payload: bytes,
    compression: int,
    messages: int,
    part_bytes: int,
    bytes_max: int = DECODED_BYTES_MAX,
) -> OpenBlock:
    """Open a block for reading about its first ``part_bytes``.

    Raises: DecodedTooLarge: more than ``bytes_max`` come out; MessageFormatError: it is damaged.
    """
    data, complete = unpack(payload, compression, bytes_max, part_bytes)
    try:
        if compression != Compression.NONE and is_kafka_block(data):
            raise MessageFormatError("a compressed Kafka block")
        return OpenBlock(data, messages, complete=complete, bytes_max=bytes_max)
    except MessageFormatError:
        free(data)
        raise
