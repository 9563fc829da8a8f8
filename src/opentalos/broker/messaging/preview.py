"""Preview: the latest messages of a partition, decoded for display."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentalos.broker.long_work import LongWork, Turn
from opentalos.broker.messaging.block_reader import Reader
from opentalos.model.errors import PreviewFailed, TalosError
from opentalos.model.message import StoredBlock

if TYPE_CHECKING:
    from opentalos.wire.message import Message

PREVIEW_BYTES_MAX = 1 << 20  # of blocks read for a preview
_DECODED_BYTES_MAX = 12 << 20  # decompressed for it; a message has 10 MiB


@dataclass(frozen=True, slots=True)
class PreviewedMessage:
    """One decoded message with where and when it was stored."""

    offset: int
    append_ms: int
    message: "Message"


async def latest_messages(
    work: LongWork, reader: Reader, blocks: Sequence[StoredBlock], wanted: int
) -> Sequence[PreviewedMessage]:
    """The last messages of the blocks, decoded from the newest block on, within a byte bound.

    Raises: PreviewFailed; ExcessivePending: too many calls of the caller wait.
    """
    found: list[PreviewedMessage] = []
    left_bytes = _DECODED_BYTES_MAX
    for block in reversed(blocks):
        if len(found) >= wanted:
            break
        try:
            async with work.turn(reader.caller) as turn:
                shown, decoded_bytes = await _decode(turn, block, wanted - len(found), left_bytes)
        except PreviewFailed:
            if not found:
                raise
            break  # the rest of the bound may be too small; newer messages are shown
        reader.charge(max(0, decoded_bytes - len(block.payload)))
        left_bytes -= decoded_bytes
        found = [*shown, *found]
    return found


async def _decode(
    turn: Turn, block: StoredBlock, wanted: int, bytes_max: int
) -> tuple[list[PreviewedMessage], int]:
    # Imported here so that the compression library is loaded only for a preview.
    from opentalos.wire.message.open_block import open_block

    payload, kind, count = bytes(block.payload), block.compression, block.messages
    first = max(0, count - wanted)
    shown: list[PreviewedMessage] = []
    try:
        opened = await turn.off_loop(open_block, payload, kind, count, bytes_max, bytes_max)
        for piece in opened.read(first, wanted, _DECODED_BYTES_MAX):
            for message in piece:
                offset = block.base_offset + first + len(shown)
                shown.append(PreviewedMessage(offset, block.append_ms, message))
            await turn.pause()
    except TalosError as error:
        raise PreviewFailed(f"offset {block.base_offset}: {error}") from error
    await turn.off_loop(opened.close)
    return shown, opened.bytes_count
