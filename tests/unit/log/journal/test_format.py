"""Frames and records, and the bytes that are laid over a segment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentalos.log.journal.extents import Extents
from opentalos.log.journal.format import (
    Kind,
    Record,
    encode_frame,
    file_path,
    number_of,
    record_header,
    records_of,
)
from opentalos.log.segment.format import BlockPlace, block_fault, block_payload, read_header
from opentalos.model.errors import CorruptLog


def test_a_frame_is_a_block_that_counts_its_records() -> None:
    parts = [record_header(Kind.NAME, 0, 0, 1), b"p", record_header(Kind.GROUP, 0, 64, 2), b"ab"]
    raw = encode_frame(parts, 10, BlockPlace(0x5EED, 10, 1))
    assert block_fault(raw, 0, 0x5EED) == ""
    header = read_header(raw, 0)
    assert (header.base_offset, header.committed, header.next_offset) == (10, 10, 12)
    assert list(records_of(block_payload(raw, 0, header))) == [
        Record(Kind.NAME, 0, 0, b"p"),
        Record(Kind.GROUP, 0, 64, b"ab"),
    ]


@pytest.mark.parametrize("cut", [1, 10, 17])
def test_a_record_that_claims_more_than_there_is_is_refused(cut: int) -> None:
    raw = record_header(Kind.GROUP, 0, 0, 2) + b"ab"
    with pytest.raises(CorruptLog):
        list(records_of(raw[: len(raw) - cut]))


def test_file_names_have_their_number() -> None:
    assert number_of(file_path("a-1", 7)) == 7
    assert number_of("journal/a-1/ended") is None


@given(
    st.lists(st.tuples(st.integers(0, 3), st.binary(min_size=1, max_size=5)), max_size=8),
    st.integers(0, 20),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_bytes_laid_over_a_file_are_read_as_if_they_were_written(
    pieces: list[tuple[int, bytes]], file_bytes: int, position: int, bytes_max: int
) -> None:
    extents, whole = Extents(), bytearray(range(100, 100 + file_bytes))
    file, at = bytes(whole), file_bytes // 2
    for skipped, data in pieces:
        at += skipped if at + skipped <= len(whole) else 0
        extents.add(at, data)
        whole[at : at + len(data)] = data
        at += len(data)
    assert extents.first_gap(file_bytes) is None
    raw = file[position:][:bytes_max]
    assert extents.laid_over(raw, position, bytes_max) == bytes(whole)[position:][:bytes_max]


def test_a_gap_between_file_and_bytes_is_found() -> None:
    extents = Extents()
    extents.add(10, b"xx")
    assert extents.first_gap(10) is None
    assert extents.first_gap(9) == 9


def test_bytes_do_not_overlap() -> None:
    extents = Extents()
    extents.add(10, b"xx")
    with pytest.raises(ValueError, match="12 is reached"):
        extents.add(11, b"y")


def test_a_reader_keeps_what_is_dropped_meanwhile() -> None:
    extents = Extents()
    extents.add(0, b"abc")
    now = extents.as_now()
    extents.drop_below(3)
    assert extents.start is None
    assert now.laid_over(b"", 0, 3) == b"abc"
