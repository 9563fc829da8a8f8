"""Unpacking: the beginning of a block, at a cost that follows what was asked for."""

import pytest

from opentalos.model.message import Compression
from opentalos.wire.message.compression import compress, decompress
from opentalos.wire.message.message import MessageFormatError
from opentalos.wire.message.unpacking import DecodedTooLarge, free, unpack

MIB = 1 << 20
DATA = b"".join(b"%016d" % number for number in range(MIB // 4))  # 4 MiB that compress well
ENDS_EARLY = (Compression.SNAPPY, Compression.GZIP, Compression.ZSTD)


@pytest.mark.parametrize("kind", list(Compression))
@pytest.mark.parametrize("size", [0, 1, 300_000, len(DATA)])
def test_a_whole_block_is_what_decompress_makes_of_it(kind: Compression, size: int) -> None:
    packed = compress(DATA[:size], kind)
    data, complete = unpack(packed, kind, size, size)
    assert complete
    assert data[:] == decompress(packed, kind) == DATA[:size]
    free(data)


@pytest.mark.parametrize("kind", ENDS_EARLY)
def test_a_part_costs_no_more_than_what_was_asked_for_and_a_chunk(kind: Compression) -> None:
    data, complete = unpack(compress(DATA, kind), kind, 64 * MIB, 100_000)
    assert not complete
    assert 100_000 <= len(data) <= 100_000 + (32 << 10)
    assert DATA.startswith(data[:])


@pytest.mark.parametrize("kind", list(Compression))
def test_more_than_the_bound_is_refused(kind: Compression) -> None:
    with pytest.raises(DecodedTooLarge, match="at most"):
        unpack(compress(DATA, kind), kind, len(DATA) - 1, len(DATA) - 1)


@pytest.mark.parametrize("kind", [kind for kind in Compression if kind != Compression.NONE])
def test_damage_is_one_error(kind: Compression) -> None:
    packed = compress(DATA[:50_000], kind)
    for wrong in (packed[:3], packed[:-9], b"", packed[: len(packed) // 2]):
        with pytest.raises(MessageFormatError):
            unpack(wrong, kind, MIB, MIB)


def test_a_zstd_frame_without_its_size_is_read_in_parts_and_as_a_whole() -> None:
    cramjam = pytest.importorskip("cramjam")
    packer = cramjam.zstd.Compressor()
    packer.compress(DATA)
    packed = bytes(packer.finish())
    part, complete = unpack(packed, Compression.ZSTD, 64 * MIB, 100_000)
    assert (part[:], complete) == (DATA[:100_000], False)
    whole, complete = unpack(packed, Compression.ZSTD, 64 * MIB, 64 * MIB)
    assert (whole[:], complete) == (DATA, True)
    with pytest.raises(DecodedTooLarge):
        unpack(packed, Compression.ZSTD, MIB, MIB)


def test_what_follows_a_gzip_member_is_an_error() -> None:
    packed = compress(DATA[:100], Compression.GZIP)
    for more in (b"x", b"\0" * 70_000, packed):
        with pytest.raises(MessageFormatError, match="followed by other data"):
            unpack(packed + more, Compression.GZIP, MIB, MIB)


@pytest.mark.parametrize("size", [0, 100])
def test_a_stream_of_tiny_snappy_chunks_is_refused(size: int) -> None:
    empty = compress(b"", Compression.SNAPPY)
    chunk = compress(bytes(size), Compression.SNAPPY)[len(empty) :] or b"\0\0\0\1\0"
    data, complete = unpack(empty + chunk * 16, Compression.SNAPPY, MIB, MIB)
    assert (data[:], complete) == (bytes(16 * size), True)
    for part_bytes in (MIB // 2, MIB):
        with pytest.raises(MessageFormatError, match="snappy chunks"):
            unpack(empty + chunk * 1_000, Compression.SNAPPY, MIB, part_bytes)


def test_snappy_chunks_of_the_smallest_size_of_a_writer_are_read() -> None:
    empty = compress(b"", Compression.SNAPPY)
    chunks = [compress(DATA[start : start + 1024], Compression.SNAPPY)[len(empty) :]
              for start in range(0, MIB, 1024)]  # fmt: skip
    assert unpack(empty + b"".join(chunks), Compression.SNAPPY, MIB, MIB)[0][:] == DATA[:MIB]
