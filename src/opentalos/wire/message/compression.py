"""Compression of a block's payload, with a bound on what comes out.

Shape:   NONE raw; SNAPPY the xerial stream: 16 bytes of magic and versions, then chunks of
         [length u32be][raw snappy block], readers take a bare raw block too; GZIP one RFC 1952
         member; ZSTD one frame with its content size; LZ4 [size u32le][raw LZ4 block].
Source: docs/protocol/messages.md#compression.

cramjam is imported with the first block that needs it, 1.5 MB in 2 ms: a server passes blocks on.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from opentalos.model.message import Compression
from opentalos.wire.message.message import MessageFormatError

DECODED_BYTES_MAX: Final = 64 << 20  # of one block; producers bound a put at 20 MiB
XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">II", 1, 1)
XERIAL_HEADER_BYTES: Final = len(_XERIAL_HEADER)
_XERIAL_CHUNK_BYTES: Final = 32 << 10  # of input; the Java reader has a buffer of that size
GZIP_WBITS: Final = 31  # gzip wrapper, largest window
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_WINDOW_BYTES_MAX: Final = 32 << 20  # memory a frame may ask for; usual levels need 8 MiB
_U32BE: Final = struct.Struct(">I")
_U32LE: Final = struct.Struct("<I")


def compress(data: bytes, compression: int) -> bytes:
    """Compress a block's payload in the framing the clients write."""
    match compression:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            packer = zlib.compressobj(wbits=GZIP_WBITS)
            return packer.compress(data) + packer.flush()
    import cramjam

    match compression:
        case Compression.SNAPPY:
            return b"".join(_xerial_parts(data))
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data))
        case Compression.LZ4:
            block = bytes(cramjam.lz4.compress_block(data, store_size=False))
            return _U32LE.pack(len(data)) + block
        case _:
            raise MessageFormatError(f"unknown compression type {compression}")


def _xerial_parts(data: bytes) -> Iterator[bytes]:
    import cramjam

    yield _XERIAL_HEADER
    for start in range(0, len(data), _XERIAL_CHUNK_BYTES):
        chunk = data[start : start + _XERIAL_CHUNK_BYTES]
        packed = bytes(cramjam.snappy.compress_raw(chunk))
        yield _U32BE.pack(len(packed))
        yield packed


def decompress(data: bytes, compression: int, bytes_max: int = DECODED_BYTES_MAX) -> bytes:
    """Undo ``compress``.

    Sizes that the data declares are checked before anything is allocated.

    Raises: MessageFormatError: damaged, of an unknown type, or more than ``bytes_max`` come out.
    """
    if compression == Compression.NONE:
        return _checked(data, len(data), bytes_max)
    import cramjam

    try:
        match compression:
            case Compression.SNAPPY:
                return _snappy(data, bytes_max)
            case Compression.GZIP:
                return _gzip(data, bytes_max)
            case Compression.ZSTD:
                return _zstd(data, bytes_max)
            case Compression.LZ4:
                return _lz4(data, bytes_max)
    except (cramjam.DecompressionError, zlib.error, struct.error, IndexError) as error:
        name = Compression(compression).name
        raise MessageFormatError(f"damaged {name} data: {error}") from error
    raise MessageFormatError(f"unknown compression type {compression}")


def _checked(data: bytes, size: int, bytes_max: int) -> bytes:
    if size > bytes_max:
        raise MessageFormatError(f"a block of {size} bytes decoded, at most {bytes_max}")
    return data


def _snappy(data: bytes, bytes_max: int) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return _snappy_raw(data, bytes_max)
    parts = []
    position = len(_XERIAL_HEADER)
    if len(data) < position:
        raise MessageFormatError("the snappy stream ends within its header")
    while position < len(data):
        length = _U32BE.unpack_from(data, position)[0]
        position += _U32BE.size
        if length > len(data) - position:
            raise MessageFormatError(f"a snappy chunk of {length} bytes goes beyond the block")
        parts.append(_snappy_raw(data[position : position + length], bytes_max))
        bytes_max -= len(parts[-1])
        position += length
    return b"".join(parts)


def _snappy_raw(data: bytes, bytes_max: int) -> bytes:
    import cramjam

    size = cramjam.snappy.decompress_raw_len(data)
    return bytes(cramjam.snappy.decompress_raw(_checked(data, size, bytes_max)))


def _gzip(data: bytes, bytes_max: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=GZIP_WBITS)
    found = unpacker.decompress(data, bytes_max + 1)
    _checked(data, len(found), bytes_max)
    if not unpacker.eof or unpacker.unused_data:
        raise MessageFormatError("the gzip member ends too early or is followed by other data")
    return found


def _zstd(data: bytes, bytes_max: int) -> bytes:
    import cramjam

    size = zstd_content_size(data)
    _checked(data, size or 0, bytes_max)
    out = bytearray(bytes_max if size is None else size)
    written = cramjam.zstd.decompress_into(data, out)
    if size is not None and written != size:
        raise MessageFormatError(f"a zstd frame of {written} bytes declares {size}")
    return bytes(memoryview(out)[:written])


def zstd_content_size(data: bytes) -> int | None:
    """Size a frame declares, if it does. Source: RFC 8878 section 3.1.1.1."""
    if not data.startswith(_ZSTD_MAGIC):
        raise MessageFormatError("no zstd frame")
    descriptor = data[4]
    single_segment = descriptor >> 5 & 1
    position = 5
    if not single_segment:
        exponent, mantissa = data[5] >> 3, data[5] & 7
        window = (1 << (10 + exponent)) * (8 + mantissa) // 8
        if window > _ZSTD_WINDOW_BYTES_MAX:
            raise MessageFormatError(f"a zstd window of {window} bytes is too large")
        position += 1
    position += (0, 1, 2, 4)[descriptor & 3]  # dictionary id
    length = (single_segment, 2, 4, 8)[descriptor >> 6]
    if not length:
        return None
    field = data[position : position + length]
    return int.from_bytes(field, "little") + (256 if length == 2 else 0)


def _lz4(data: bytes, bytes_max: int) -> bytes:
    import cramjam

    size = _U32LE.unpack_from(data, 0)[0]
    _checked(data, size, bytes_max)
    out = bytearray(size)
    written = cramjam.lz4.decompress_block_into(data[_U32LE.size :], out) if size else 0
    if written != size:
        raise MessageFormatError(f"an LZ4 block of {written} bytes declares {size}")
    return bytes(out)
