"""What a crash leaves is told from rot: prefixes and missing pages against flipped bits."""

import random

import pytest
from tests.unit.matrix import matrix

from opentalos.log.segment.damage import PAGE_BYTES, left_by_crash
from opentalos.log.segment.format import (
    BLOCK_HEADER_BYTES,
    BlockPlace,
    block_fault,
    encode_block,
    end_mark_block,
)
from opentalos.model.message import MessageBlock

SEED = 0xC0FFEE42
PAYLOADS = {
    "zeros": bytes(6_000),
    "text": b"a line of text and another one\n" * 190,
    "random": random.Random(5).randbytes(6_000),
    "small": b"7",
}


def stored(payload: bytes, base: int = 40) -> bytes:
    return encode_block(MessageBlock(payload, 1), base, BlockPlace(SEED, 40, 1_000)) + payload


def judged(raw: bytes, position: int, *, at_end: bool = True) -> bool:
    return left_by_crash(raw, position, len(raw), SEED, at_end=at_end)


@pytest.mark.parametrize("kind", PAYLOADS)
def test_a_flipped_bit_anywhere_is_rot_whatever_the_payload(kind: str) -> None:
    block = stored(PAYLOADS[kind])
    for at in range(0, len(block) * 8, max(len(block) * 8 // 700, 1)):
        rotten = bytearray(block)
        rotten[at // 8] ^= 1 << at % 8
        assert block_fault(bytes(rotten), 0, SEED), at
        assert not judged(bytes(rotten), 1_000), at
        assert not judged(bytes(rotten), 1_000, at_end=False), at


@matrix("at", range(BLOCK_HEADER_BYTES))
def test_a_flipped_bit_in_a_header_is_rot_with_other_blocks_behind(at: int) -> None:
    rotten = bytearray(stored(b"abc" * 50) + stored(b"behind" * 30, base=41))
    rotten[at] ^= 4
    behind = len(stored(b"abc" * 50))
    assert not left_by_crash(bytes(rotten[:behind]), 777, behind, SEED, at_end=False)


@pytest.mark.parametrize("kind", PAYLOADS)
def test_every_prefix_of_a_block_is_left_by_a_crash(kind: str) -> None:
    block = stored(PAYLOADS[kind])
    for count in range(1, len(block), max(len(block) // 500, 1)):
        assert judged(block[:count], 1_000), count


@pytest.mark.parametrize("position", [64, 511, 512, 1_000])
@pytest.mark.parametrize("kind", ["text", "random"])
def test_a_missing_page_is_left_by_a_crash(kind: str, position: int) -> None:
    group = stored(PAYLOADS[kind]) + stored(PAYLOADS["small"], base=41)
    first = PAGE_BYTES - position % PAGE_BYTES
    starts = [0, *range(first, len(stored(PAYLOADS[kind])), PAGE_BYTES)]
    for start in starts:
        stop = min(start + PAGE_BYTES - (position + start) % PAGE_BYTES, len(group))
        raw = group[:start] + bytes(stop - start) + group[stop:]
        assert judged(raw, position), start
        assert judged(bytes(len(group)), position)


def test_several_wrong_bytes_of_a_whole_block_are_rot() -> None:
    block = bytearray(stored(PAYLOADS["text"]))
    block[700:720] = bytes(20)  # zeros, but no page of them
    assert not judged(bytes(block), 1_000)


def test_a_length_that_rotted_is_rot_although_the_block_looks_cut_short() -> None:
    block = bytearray(stored(PAYLOADS["text"]))
    block[5] ^= 0x11  # two bits: 1 MiB and more
    assert not judged(bytes(block), 1_000)


def test_a_whole_block_in_a_wrong_place_is_no_torn_write() -> None:
    assert not judged(stored(PAYLOADS["text"], base=99), 1_000)


def test_zeros_before_a_valid_block_are_a_missing_page_only_if_aligned() -> None:
    assert judged(bytes(PAGE_BYTES), 2_048, at_end=False)
    assert not judged(bytes(PAGE_BYTES // 2), 2_048, at_end=False)


def test_a_lost_page_that_held_one_bit_of_a_short_block_is_no_flipped_bit() -> None:
    """The page is zero behind the block as well, where another block was."""
    block = stored(b"\0\0\0\4")
    raw = bytearray(block + stored(b"behind" * 200, base=41))
    position = PAGE_BYTES - len(block) + 4  # the last four bytes lie in the next page
    start = len(block) - 4
    raw[start : start + PAGE_BYTES] = bytes(PAGE_BYTES)
    assert judged(bytes(raw), position)


@pytest.mark.parametrize("position", [1_984, 1_984 - 5, 1_984 + 7])
def test_a_lost_page_at_the_end_that_held_one_bit_of_an_end_mark_is_no_flipped_bit(
    position: int,
) -> None:
    mark = end_mark_block(56, BlockPlace(SEED, 56, 1_000))
    kept = PAGE_BYTES - position % PAGE_BYTES
    assert sum(each.bit_count() for each in mark[kept:]) == 1
    raw = mark[:kept] + bytes(len(mark) - kept)
    assert judged(raw, position)


def test_a_flipped_bit_in_a_short_block_at_the_end_is_rot_unless_its_page_is_zero() -> None:
    mark = end_mark_block(56, BlockPlace(SEED, 56, 1_000))
    for at in range(len(mark) * 8):
        rotten = bytearray(mark)
        rotten[at // 8] ^= 1 << at % 8
        assert not judged(bytes(rotten), 1_024), at
