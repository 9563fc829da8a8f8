"""Whether a stored block has the messages of one that was to be stored."""

from typing import Final

from opentalos.model.message import MessageBlock, StoredBlock
from opentalos.sdk.arrow import decode_batches
from opentalos.wire.message import MessageFormatError

_PLACE: Final = ("topic", "partition", "offset", "append_time")  # given by the log


def same_messages(ours: MessageBlock, stored: StoredBlock, offset: int, *, own_times: bool) -> bool:
    """Whether the block at ``offset`` holds the same messages, however it is compressed.

    Args: own_times: create times count; else they are those of the try.
    """
    if (stored.base_offset, stored.messages) != (offset, ours.messages):
        return False
    if (stored.compression, stored.payload) == (ours.compression, ours.payload):
        return True
    left_out = _PLACE if own_times else (*_PLACE, "create_time")
    try:
        return _columns(_as_stored(ours, offset), left_out) == _columns(stored, left_out)
    except MessageFormatError:
        return False


def _as_stored(block: MessageBlock, offset: int) -> StoredBlock:
    return StoredBlock(
        offset, block.messages, 0, block.create_ms, block.compression, block.format, block.payload
    )


def _columns(block: StoredBlock, left_out: tuple[str, ...]) -> list[object]:
    """The contents of all its messages, column by column."""
    return [
        batch.drop_columns(list(left_out)).columns
        for batch in decode_batches("", 0, [block], block.base_offset)
    ]
