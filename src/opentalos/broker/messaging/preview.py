"""Preview: the latest messages of a partition, decoded for display."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentalos.model.errors import PreviewFailed, TalosError
from opentalos.model.message import PayloadFormat, StoredBlock

if TYPE_CHECKING:
    from opentalos.wire.message import Message

PREVIEW_BYTES_MAX = 1 << 20  # of blocks read for a preview
_DECODED_BYTES_MAX = 12 << 20  # decompressed for it, in the loop; a message has 10 MiB


@dataclass(frozen=True, slots=True)
class PreviewedMessage:
    """One decoded message with where and when it was stored."""

    offset: int
    append_ms: int
    message: "Message"


async def latest_messages(blocks: Sequence[StoredBlock], wanted: int) -> Sequence[PreviewedMessage]:
    """The last messages of the blocks, decoded from the newest block on, within a byte bound.

    Yields to other requests after each block. Raises: PreviewFailed.
    """
    found: list[PreviewedMessage] = []
    left_bytes = _DECODED_BYTES_MAX
    for block in reversed(blocks):
        if len(found) >= wanted:
            break
        try:
            shown, decoded_bytes = _decode(block, wanted - len(found), left_bytes)
        except PreviewFailed:
            if not found:
                raise
            break  # the rest of the bound may be too small; newer messages are shown
        left_bytes -= decoded_bytes
        found = [*shown, *found]
        await asyncio.sleep(0)
    return found


def _decode(block: StoredBlock, wanted: int, bytes_max: int) -> tuple[list[PreviewedMessage], int]:
    # Imported here so that the compression library is loaded only for a preview.
    from opentalos.wire.message import decode_last

    if block.format != PayloadFormat.TALOS:
        raise PreviewFailed(f"offset {block.base_offset}: this payload format has no preview")
    try:
        messages, decoded_bytes = decode_last(
            bytes(block.payload), block.compression, block.messages, wanted, bytes_max
        )
    except TalosError as error:
        raise PreviewFailed(f"offset {block.base_offset}: {error}") from error
    first = block.base_offset + block.messages - len(messages)
    shown = [
        PreviewedMessage(first + index, block.append_ms, message)
        for index, message in enumerate(messages)
    ]
    return shown, decoded_bytes
