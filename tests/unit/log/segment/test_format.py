"""Bytes of segments, side indexes and manifests: exact layout, and any garbage is refused."""

import pytest
from google_crc32c import extend
from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.segment.format import (
    BLOCK_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    BlockPlace,
    SegmentHeader,
    block_error,
    block_fault,
    encode_block,
    parse_file_name,
    read_header,
    segment_path,
    state_block,
    stored_block,
)
from opentalos.log.segment.index import SideIndex, SparseIndex
from opentalos.log.segment.scan import SegmentScan
from opentalos.log.segment.state_format import LogState
from opentalos.model.errors import CorruptLog, ManifestFull, NewerFormat, TalosError
from opentalos.model.message import MessageBlock, ProducerStamp, StoredBlock
from opentalos.wire.record_crc import CRC_BYTES, with_crc

SEED = 0xA1B2C3D4
PLACE = BlockPlace(SEED, 100, 1_700_000_000_000)
SENT = MessageBlock(b"payload", 3, 1, 17, 1, 42, b"ex", ProducerStamp(5, 6, 7))


def test_a_block_is_laid_out_as_the_format_says() -> None:
    raw = encode_block(SENT, 120, PLACE) + SENT.payload
    expected = (
        (BLOCK_HEADER_BYTES + 9).to_bytes(4, "big")
        + SEED.to_bytes(4, "big")
        + (3).to_bytes(4, "big")
        + (120).to_bytes(8, "big")
        + (100).to_bytes(8, "big")
        + (5).to_bytes(8, "big")
        + (1_700_000_000_000).to_bytes(8, "big")
        + (17).to_bytes(8, "big")
        + (42).to_bytes(8, "big")
        + (6).to_bytes(4, "big")
        + (7).to_bytes(8, "big")
        + bytes([1, 1, 0, 0, 0, 2, 0, 0])
        + b"ex"
        + b"payload"
    )
    assert raw[4:] == expected
    assert raw[:4] == extend(SEED, expected).to_bytes(4, "big")
    header = read_header(raw, 0)
    assert stored_block(raw, 0, header) == StoredBlock(
        120, 3, 1_700_000_000_000, 17, 1, 1, b"payload", b"ex"
    )
    assert header.producer == SENT.producer
    assert header.principal == 42


def test_every_flipped_bit_and_every_cut_of_a_block_is_noticed() -> None:
    raw = encode_block(SENT, 120, PLACE) + SENT.payload
    assert not block_fault(raw, 0, SEED)
    assert block_fault(raw, 0, SEED + 1)
    for at in range(len(raw)):
        assert block_fault(raw[:at], 0, SEED)
        for bit in range(8):
            damaged = bytearray(raw)
            damaged[at] ^= 1 << bit
            assert block_fault(bytes(damaged), 0, SEED)


@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_any_bytes_are_refused_or_scanned_without_an_error(raw: bytes, seed: int) -> None:
    assert block_fault(raw, 0, seed)
    scan = SegmentScan(seed, 0, SparseIndex(512))
    scan.feed(raw, last=True)
    assert scan.fault
    for decode in (
        SegmentHeader.decode,
        LogState.decode,
        Manifest.decode,
        lambda some: SideIndex.decode(some, 512),
    ):
        with pytest.raises(TalosError):
            decode(raw)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.binary(max_size=50), st.booleans()), max_size=20),
    st.data(),
)
@settings(max_examples=100)
def test_a_scan_finds_the_valid_prefix_wherever_the_bytes_end(
    blocks: list[tuple[int, bytes, bool]], data: st.DataObject
) -> None:
    offset = committed = tail_offset = 50
    parts = [state_block(LogState().encode(), offset, BlockPlace(SEED, offset, 0))]
    ends = [len(parts[0])]
    known = [(50, 50)]
    for messages, payload, new_group in blocks:
        if new_group:
            committed = offset
        block = MessageBlock(payload, messages)
        raw = encode_block(block, offset, BlockPlace(SEED, committed, 9)) + payload
        parts.append(raw)
        offset += messages
        ends.append(ends[-1] + len(raw))
        known.append((offset, committed))
    whole = b"".join(parts)
    cut = data.draw(st.integers(ends[0], len(whole)))
    scan = SegmentScan(SEED, 50, SparseIndex(512))
    step = data.draw(st.integers(100, 1_000))
    position, want = 0, step
    while position < cut and not scan.fault:
        raw = whole[position : min(position + want, cut)]
        want = max(scan.feed(raw, last=position + len(raw) == cut), step)
        if want > 10_000:
            want = cut
        position = scan.position - SEGMENT_HEADER_BYTES
    complete = max(index for index, end in enumerate(ends) if end <= cut)
    assert (scan.next_offset, scan.committed) == known[complete]
    assert scan.position == SEGMENT_HEADER_BYTES + ends[complete]
    assert bool(scan.fault) == (cut != ends[complete])
    assert tail_offset <= scan.tail_offset <= scan.next_offset


def test_blocks_that_cannot_be_stored_are_refused_with_a_reason() -> None:
    good = MessageBlock(b"x", 1)
    assert not block_error(good)
    for bad in (
        good._replace(messages=0),
        good._replace(messages=-1),
        good._replace(messages=1 << 31),
        good._replace(compression=256),
        good._replace(compression=-1),
        good._replace(create_ms=1 << 63),
        good._replace(principal=-1),
        good._replace(extras=b"z" * 65_536),
        good._replace(producer=ProducerStamp(0, 0, 0)),
        good._replace(producer=ProducerStamp(1, -1, 0)),
        good._replace(producer=ProducerStamp(1, 0, 1 << 63)),
    ):
        assert block_error(bad)


def test_a_segment_header_round_trips_and_a_newer_one_is_refused() -> None:
    header = SegmentHeader(SEED, 3, 500, 1_700_000_000_000, 7)
    raw = header.encode()
    assert len(raw) == SEGMENT_HEADER_BYTES
    assert SegmentHeader.decode(raw) == header
    assert raw[8:10] == b"\x00\x01"  # so that servers that know no encryption read it
    encrypted = header._replace(version=2)
    assert SegmentHeader.decode(encrypted.encode()) == encrypted
    with pytest.raises(NewerFormat, match="version 3"):
        SegmentHeader.decode(header._replace(version=3).encode())
    with pytest.raises(CorruptLog, match="fails its check"):  # a flipped bit, no newer version
        SegmentHeader.decode(raw[:8] + b"\x00\x03" + raw[10:])
    with pytest.raises(CorruptLog):
        SegmentHeader.decode(raw[:20] + b"\xff" + raw[21:])


def test_a_side_index_round_trips_and_damage_is_detected() -> None:
    sparse = SparseIndex(512)
    for number in range(10):
        sparse.add(number * 5, number * 600, number * 1_000)
    side = SideIndex(SEED, 2, 0, 50, 6_000, sparse, LogState())
    raw = side.encode()
    again = SideIndex.decode(raw, 512)
    assert again.encode() == raw
    assert again.sparse.position_of(14, 64) == 1_200
    assert again.sparse.position_before(2_000, 64) == 600
    for at in range(len(raw)):
        damaged = bytearray(raw)
        damaged[at] ^= 0x10
        with pytest.raises(CorruptLog):  # so that it is rebuilt from its segment
            SideIndex.decode(bytes(damaged), 512)
    newer = raw[:8] + b"\x00\x02" + raw[10:-4]
    with pytest.raises(NewerFormat, match="version 2"):
        SideIndex.decode(newer + extend(0, newer).to_bytes(4), 512)


def test_a_manifest_round_trips_and_invalid_bytes_are_refused() -> None:
    manifest = Manifest(
        epoch=4, owner="s1", segments=(Segment(0, 1, 10, 900, 5), Segment(10, 3)), state_of=(7, 8)
    )
    assert Manifest.decode(manifest.encode()) == manifest
    plain = manifest.encode()[: -CRC_BYTES - 1] + b"}"
    newer = with_crc(plain.replace(b'"version":1', b'"version":9'))
    with pytest.raises(NewerFormat, match="version 9"):
        Manifest.decode(newer)
    for segments in ("[[5,1,10,0,0]]", "[[0,1,null,0,0],[9,1,null,0,0]]", "[[0]]", "7"):
        start = manifest.encode().split(b'"segments"')[0]
        with pytest.raises(CorruptLog):
            Manifest.decode(start + b'"segments":' + segments.encode() + b"}")


def test_a_manifest_never_grows_beyond_one_record() -> None:
    many = tuple(Segment(n, 1, n + 1, 1 << 27, 1_700_000_000_000) for n in range(20_000))
    with pytest.raises(ManifestFull, match="20000 segments"):
        Manifest(segments=many).encode()


def test_file_names_are_parsed_from_the_right() -> None:
    path = segment_path("uuid-1", 3, 12, 4)
    assert path == "uuid-1/3/00000000000000000012-4.log"
    assert parse_file_name(path) == (12, 4, "log")
    for other in ("a/b/x.log", "a/b/1-2.tmp", "a/b/1-2", "a/1-2.log.fenced", "-.log"):
        assert parse_file_name(other) is None
