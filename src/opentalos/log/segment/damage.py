"""Distinguishes what a crash left at the end of a segment from rot. Sans-io.

A killed process, and HDFS always, leave a prefix of the group that was being written. A power loss
leaves any of its pages; a page that was never written reads as zeros, from where the file ended
when it was last written up to the page's end. So the first bad block of a crashed segment is cut
short by the file's end, or a page of it is missing. Everything else is rot: a block whose bytes are
all there and fail their check was whole once, and may have been acknowledged.

Zeros that a producer sent look like a missing page. Most rot is one flipped bit, which a CRC can
locate: a block that one flip makes whole is rotten, whatever it contains.
"""

from google_crc32c import extend as _crc32c

from opentalos.log.segment.format import (
    BLOCK_BYTES_MAX,
    BLOCK_HEADER,
    BLOCK_HEADER_BYTES,
    BLOCK_SIZE_POSITION,
    CRC_BYTES,
    block_fault,
)

# One sector: a page of the file system consists of whole ones, and disks write no less.
PAGE_BYTES = 512
JUDGED_BYTES_MAX = 64 << 20  # of a bad block; a gateway accepts 20 MiB by default
# Of a block that is searched for a flipped bit: about 0.1 s, and by chance such a bit is found in
# one of 2,000 blocks that a power loss damaged.
FLIP_BYTES_MAX = 256 << 10


def left_by_crash(raw: bytes, position: int, room_bytes: int, seed: int, *, at_end: bool) -> bool:
    """Whether a crash can have left the bad bytes ``raw`` at ``position`` of a segment.

    ``room_bytes``: up to the next valid block, or the file's end if ``at_end``; ``raw`` has them
    all, or ``JUDGED_BYTES_MAX`` of them.
    """
    if room_bytes < BLOCK_HEADER_BYTES:
        return at_end
    header = BLOCK_HEADER.unpack_from(raw)
    size, marker, extras_bytes = header[1], header[2], header[15]
    for count_bytes in (size, room_bytes):
        flaw = _only_flaw(raw, count_bytes, seed)
        if flaw is not None:
            return page_missing(raw, position, flaw, flaw + 1, at_end)
    if marker != seed or not BLOCK_HEADER_BYTES + extras_bytes <= size <= BLOCK_BYTES_MAX:
        return page_missing(raw, position, 0, BLOCK_HEADER_BYTES, at_end)
    if size > room_bytes:
        return at_end
    if size <= len(raw) and not block_fault(raw, 0, seed):
        return False  # a whole block where another one belongs
    return page_missing(raw, position, 0, size, at_end)


def page_missing(raw: bytes, position: int, start: int, end: int, at_end: bool) -> bool:
    """Whether a page that holds a byte of ``raw[start:end]`` was never written."""
    start = max(start - (position + start) % PAGE_BYTES, 0)
    end = min(end, len(raw))
    while start < end:
        stop = start + PAGE_BYTES - (position + start) % PAGE_BYTES
        page = raw[start:stop]
        if page.count(0) == (len(page) if at_end else stop - start):
            return True
        start = stop
    return False


def _only_flaw(raw: bytes, size: int, seed: int) -> int | None:
    """Where a block of ``size`` bytes is wrong, if it is whole but for its length or for one bit.

    A page that held one set bit and was never written looks the same; the caller looks at it.
    """
    if not BLOCK_HEADER_BYTES <= size <= min(len(raw), FLIP_BYTES_MAX):
        return None
    block = bytearray(raw[:size])
    claimed = block[BLOCK_SIZE_POSITION : BLOCK_SIZE_POSITION + 4]
    block[BLOCK_SIZE_POSITION : BLOCK_SIZE_POSITION + 4] = size.to_bytes(4, "big")
    stored = int.from_bytes(block[:CRC_BYTES], "big")
    difference: int = stored ^ _crc32c(seed, bytes(block[CRC_BYTES:]))
    if not difference:
        return BLOCK_SIZE_POSITION if int.from_bytes(claimed, "big") != size else None
    if difference.bit_count() == 1:
        return CRC_BYTES - 1 - (difference.bit_length() - 1) // 8
    behind = _bytes_behind_flip(difference, size - CRC_BYTES)
    return None if behind is None else size - 1 - behind


def _bytes_behind_flip(difference: int, count_bytes: int) -> int | None:
    """How many of ``count_bytes`` follow the one flipped bit that changes a CRC-32C so; or None.

    A flip in the last byte changes it by an entry of ``_FLIPS``; each byte behind the flip moves
    that on by one step of the register. So step back byte by byte.
    """
    flips, steps, back = _FLIPS, _STEPS, _BACK
    for behind in range(count_bytes):
        if difference in flips:
            return behind
        low = back[difference >> 24]
        difference = ((difference ^ steps[low]) << 8 & 0xFFFFFFFF) | low
    return None


def _register_step(low_byte: int) -> int:
    value = low_byte
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected. Source: RFC 3720, B.4
_STEPS = [_register_step(low) for low in range(256)]
_BACK = {step >> 24: low for low, step in enumerate(_STEPS)}  # their highest bytes all differ
_FLIPS = frozenset(_STEPS[1 << bit] for bit in range(8))
