"""Fetched blocks on their way to the application; no I/O.

The length hint of a list iterator gives the progress, so that delivery costs nothing per record.
"""

from collections.abc import Iterator, Sequence
from operator import length_hint
from typing import Any

from opentalos.model.message import StoredBlock
from opentalos.sdk.core.blocks import decode_block_records, wanted_messages
from opentalos.sdk.core.values import Record


class Chunk:
    """Blocks of one fetch as stored; decoded on delivery.

    Args: first_offset: the first record wanted; the first block may start before it.
    Raises: MessageFormatError: a block claims to have no messages.
    """

    def __init__(
        self, topic: str, partition: int, first_offset: int, blocks: Sequence[StoredBlock]
    ) -> None:
        self.topic, self.partition = topic, partition
        self.first_offset, self.blocks = first_offset, blocks
        self.records_count = sum(wanted_messages(block, first_offset) for block in blocks)
        self.bytes_count = sum(len(block.payload) for block in blocks)  # as stored

    @property
    def last_offset(self) -> int:
        """The offset of its last record."""
        return self.blocks[-1].next_offset - 1

    def after(self, offset: int) -> "Chunk | None":
        """The part after ``offset``; None: nothing."""
        if offset >= self.last_offset:
            return None
        blocks = [block for block in self.blocks if block.next_offset > offset + 1]
        return Chunk(self.topic, self.partition, offset + 1, blocks)

    def records(self) -> list[Record]:
        """Raises: MessageFormatError: a block is damaged."""
        topic, partition, first = self.topic, self.partition, self.first_offset
        if len(self.blocks) == 1:
            return decode_block_records(topic, partition, self.blocks[0], first)
        return [
            record
            for block in self.blocks
            for record in decode_block_records(topic, partition, block, first)
        ]

    def table(self) -> Any:
        """The same as a ``pyarrow.Table``. Raises: MessageFormatError; ImportError."""
        from opentalos.sdk.arrow import decode_table  # pyarrow is large and optional

        return decode_table(self.topic, self.partition, self.blocks, self.first_offset)


class Delivery:
    """A chunk being processed by the application, record by record or as a whole.

    ``cut`` ends it early, also while another thread iterates: no further record is delivered. The
    counts may then miss the last delivered record, but never include one too many.
    """

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.is_cut = False
        self._records: list[Record] | None = None
        self._rest: Iterator[Record] = iter(())
        self._whole = False
        self._when_cut: tuple[int | None, int | None] = (None, None)  # handed, processed

    def open(self) -> Iterator[Record]:
        """An iterator over the records, the same on each call. Raises: MessageFormatError."""
        if self._records is None:
            records = self.chunk.records()
            self._rest = iter(records)
            self._records = records
            if self.is_cut:  # meanwhile, by the loop thread
                records.clear()
        return self._rest

    def records(self) -> list[Record]:
        """All records as a list. Raises: MessageFormatError."""
        found = self.chunk.records()
        self._whole = True
        return found

    def table(self) -> Any:
        """All records as a table. Raises: MessageFormatError; ImportError."""
        found = self.chunk.table()
        self._whole = True
        return found

    @property
    def handed(self) -> int | None:
        """Offset of the last record delivered; None: none yet."""
        if self._whole:
            return self.chunk.last_offset
        if self.is_cut:
            return self._when_cut[0]
        records = self._records
        return None if records is None else _before(records, self._taken(records))

    @property
    def processed(self) -> int | None:
        """Offset of the last record after which the next was requested; None: none yet."""
        records = self._records
        if self.is_cut:
            return self._when_cut[1]
        if self._whole or records is None:
            return None
        return _before(records, self._taken(records) - 1)

    def _taken(self, records: list[Record]) -> int:
        return len(records) - length_hint(self._rest)

    @property
    def left(self) -> Chunk | None:
        """The part not delivered; None if it is cut."""
        if self.is_cut:
            return None
        handed = self.handed
        return self.chunk if handed is None else self.chunk.after(handed)

    def cut(self) -> None:
        """Stop delivery."""
        if not self.is_cut:
            self._when_cut = self.handed, self.processed
            self.is_cut = True
            if self._records is not None:
                self._records.clear()


def _before(records: list[Record], count: int) -> int | None:
    return records[count - 1].offset if count > 0 else None
