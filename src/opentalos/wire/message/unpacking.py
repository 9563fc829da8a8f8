"""Decompression of the beginning of a block, with a bound on what comes out.

A reader who wants a few messages of a block does not pay for the rest of it where the compression
allows that: ZSTD, GZIP and the xerial stream end early, LZ4 and a bare snappy block do not.
Nothing here holds the interpreter lock for long, so a server runs it on a thread. Output goes to
memory of its own mapping: a ``bytearray`` of 64 MiB is filled with zeros first, and freeing it
takes the lock as well.
"""

import contextlib
import mmap
import struct
import zlib
from typing import Final, cast

from opentalos.model.message import Compression
from opentalos.wire.message import compression as whole
from opentalos.wire.message.message import MessageFormatError

PIECE_BYTES: Final = 256 << 10  # worked on without a chance for other threads
_INPUT_BYTES: Final = 64 << 10  # given to zlib at once, which copies what it did not use
_XERIAL_CHUNK_BYTES_MIN: Final = 1 << 10  # the smallest that a Java writer makes, on average
_XERIAL_CHUNKS_SPARE: Final = 16  # that may be smaller
_LZ4_RATIO_MAX: Final = 255  # of output to input, by the LZ4 block format
_FULL: Final = "failed to write whole buffer"  # cramjam's error when its output is full

Unpacked = bytes  # or a mapping, which has the same methods as far as decoders use them


class DecodedTooLarge(MessageFormatError):
    """A block that decompresses to more than its reader accepts."""


def unpack(data: bytes, kind: int, bytes_max: int, part_bytes: int) -> tuple[Unpacked, bool]:
    """At least ``part_bytes`` of the decompressed block if it has so many, and whether it is all.

    Raises: DecodedTooLarge: more than ``bytes_max`` come out; MessageFormatError: damaged.
    """
    if kind == Compression.NONE:
        _check(len(data), bytes_max)
        return data, True
    import cramjam

    part_bytes = min(part_bytes, bytes_max)
    try:
        match kind:
            case Compression.SNAPPY if data.startswith(whole.XERIAL_MAGIC):
                return _xerial(data, bytes_max, part_bytes)
            case Compression.SNAPPY:
                return _snappy(data, bytes_max), True
            case Compression.GZIP:
                return _gzip(data, bytes_max, part_bytes)
            case Compression.ZSTD:
                return _zstd(data, bytes_max, part_bytes)
            case Compression.LZ4:
                return _lz4(data, bytes_max), True
    except (cramjam.DecompressionError, zlib.error, struct.error, IndexError) as error:
        name = Compression(kind).name
        raise MessageFormatError(f"damaged {name} data: {error}") from error
    raise MessageFormatError(f"unknown compression type {kind}")


def unpack_lz4_frame(data: bytes, bytes_max: int) -> Unpacked:
    """An LZ4 frame, decompressed; Kafka writes those.

    Raises: DecodedTooLarge: more than ``bytes_max`` come out; MessageFormatError: damaged.
    """
    import cramjam

    size = min(bytes_max, len(data) * _LZ4_RATIO_MAX + 1)
    out = _mapping(size)
    try:
        written = int(cramjam.lz4.decompress_into(data, out))
    except cramjam.DecompressionError as error:
        out.close()
        if _FULL in str(error):
            _check(bytes_max + 1, bytes_max)
        raise MessageFormatError(f"damaged LZ4 frame: {error}") from error
    return _first(out, written)


def free(data: Unpacked) -> None:
    """Return the memory at once; ``data`` must not be used afterwards."""
    mapping: object = data
    if isinstance(mapping, mmap.mmap):
        with contextlib.suppress(BufferError):  # still in use somewhere: freed with its last user
            mapping.close()


def _check(size: int, bytes_max: int) -> None:
    if size > bytes_max:
        raise DecodedTooLarge(f"a block of {size} bytes decoded, at most {bytes_max}")


def _mapping(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _first(out: mmap.mmap, size: int) -> Unpacked:
    """The first bytes of a mapping that was made larger."""
    if size == len(out):
        return cast(bytes, out)
    if not size:
        out.close()
        return b""
    cut = _mapping(size)
    for start in range(0, size, PIECE_BYTES):
        end = min(start + PIECE_BYTES, size)
        cut[start:end] = out[start:end]
    out.close()
    return cast(bytes, cut)


def _xerial(data: bytes, bytes_max: int, part_bytes: int) -> tuple[Unpacked, bool]:
    import cramjam

    position, chunks, filled = whole.XERIAL_HEADER_BYTES, 0, 0
    if len(data) < position:
        raise MessageFormatError("the snappy stream ends within its header")
    out = _mapping(max(bytes_max, 1))
    with memoryview(out) as view:
        while position < len(data) and (filled < part_bytes or part_bytes == bytes_max):
            if chunks > _XERIAL_CHUNKS_SPARE + filled // _XERIAL_CHUNK_BYTES_MIN:
                raise MessageFormatError(f"{filled} bytes in more than {chunks} snappy chunks")
            length = int.from_bytes(data[position : position + 4], "big")
            position += 4
            if length > len(data) - position:
                raise MessageFormatError(f"a snappy chunk of {length} bytes goes beyond the block")
            chunk = data[position : position + length]
            size = cramjam.snappy.decompress_raw_len(chunk)
            _check(filled + size, bytes_max)
            if size:  # which releases the lock after each
                with view[filled : filled + size] as place:
                    cramjam.snappy.decompress_raw_into(chunk, place)
            else:
                cramjam.snappy.decompress_raw(chunk)  # may be damaged
            position += length
            chunks += 1
            filled += size
    return _first(out, filled), position >= len(data)


def _snappy(data: bytes, bytes_max: int) -> Unpacked:
    import cramjam

    size = cramjam.snappy.decompress_raw_len(data)
    _check(size, bytes_max)
    if not size:
        return bytes(cramjam.snappy.decompress_raw(data))
    out = _mapping(size)
    cramjam.snappy.decompress_raw_into(data, out)
    return cast(bytes, out)


def _gzip(data: bytes, bytes_max: int, part_bytes: int) -> tuple[Unpacked, bool]:
    unpacker = zlib.decompressobj(wbits=whole.GZIP_WBITS)
    out = _mapping(max(part_bytes, 1))
    filled = position = 0
    rest = b""
    while not unpacker.eof:
        if not rest:
            rest = data[position : position + _INPUT_BYTES]
            position += len(rest)
            if not rest:
                raise MessageFormatError("the gzip member ends too early")
        piece = unpacker.decompress(rest, min(PIECE_BYTES, part_bytes - filled) or 1)
        rest = unpacker.unconsumed_tail
        if filled + len(piece) > part_bytes:
            _check(filled + len(piece), bytes_max)
            return cast(bytes, out), False
        out[filled : filled + len(piece)] = piece
        filled += len(piece)
    if unpacker.unused_data or rest or position < len(data):
        raise MessageFormatError("the gzip member is followed by other data")
    return _first(out, filled), True


def _zstd(data: bytes, bytes_max: int, part_bytes: int) -> tuple[Unpacked, bool]:
    import cramjam

    declared = whole.zstd_content_size(data)
    _check(declared or 0, bytes_max)
    size = part_bytes if declared is None else min(declared, part_bytes)
    out = _mapping(max(size, 1))
    try:
        written = int(cramjam.zstd.decompress_into(data, out))
    except cramjam.DecompressionError as error:
        if _FULL not in str(error) or size == declared:
            raise
        if declared is None and size >= bytes_max:
            _check(bytes_max + 1, bytes_max)
        return cast(bytes, out), False
    if declared is not None and written != declared:
        raise MessageFormatError(f"a zstd frame of {written} bytes declares {declared}")
    return _first(out, written), True


def _lz4(data: bytes, bytes_max: int) -> Unpacked:
    import cramjam

    size = int.from_bytes(data[:4], "little")
    if len(data) < 4:
        raise MessageFormatError("the LZ4 block ends within its length")
    _check(size, bytes_max)
    if not size:
        return b""
    out = _mapping(size)
    written = int(cramjam.lz4.decompress_block_into(data[4:], out))
    if written != size:
        raise MessageFormatError(f"an LZ4 block of {written} bytes declares {size}")
    return cast(bytes, out)
