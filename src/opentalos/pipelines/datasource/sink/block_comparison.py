"""Compares a stored block with the block that a retry would store."""

from typing import Final

from opentalos.model.message import MessageBlock, StoredBlock
from opentalos.sdk.arrow import decode_batches
from opentalos.wire.message import MessageFormatError

_SET_BY_LOG: Final = ("topic", "partition", "offset", "append_time")


def same_messages(ours: MessageBlock, stored: StoredBlock, offset: int, *, own_times: bool) -> bool:
    """Whether the block at ``offset`` has the same messages, regardless of compression.

    Args: own_times: compare create times too; otherwise they differ in each attempt.
    """
    if (stored.base_offset, stored.messages) != (offset, ours.messages):
        return False
    if (stored.compression, stored.payload) == (ours.compression, ours.payload):
        return True
    left_out = _SET_BY_LOG if own_times else (*_SET_BY_LOG, "create_time")
    try:
        return _columns(_as_stored(ours, offset), left_out) == _columns(stored, left_out)
    except MessageFormatError:
        return False


def _as_stored(block: MessageBlock, offset: int) -> StoredBlock:
    return StoredBlock(
        offset, block.messages, 0, block.create_ms, block.compression, block.format, block.payload
    )


def _columns(block: StoredBlock, left_out: tuple[str, ...]) -> list[object]:
    """The contents of all messages, column by column."""
    return [
        batch.drop_columns(list(left_out)).columns
        for batch in decode_batches("", 0, [block], block.base_offset)
    ]
