"""A flipped bit in a record is found, and versions without checksums are understood."""

import json

import pytest

from opentalos.wire.record_crc import CRC_BYTES, checked, with_crc

FORMER = b'{"version":1,"next_offset":77,"name":"\xc3\xa9"}'
RECORD = b'{"version":1,"next_offset":77,"name":"\xc3\xa9","crc":"d698df06"}'


def test_the_checksum_is_one_more_member() -> None:
    assert with_crc(FORMER) == RECORD
    assert len(RECORD) == len(FORMER) + CRC_BYTES
    assert checked(RECORD) == RECORD
    assert json.loads(RECORD) == {**json.loads(FORMER), "crc": "d698df06"}


@pytest.mark.parametrize("record", [FORMER, b"{}", b"", b'"}', b'"12345678"}'])
def test_a_record_without_a_checksum_is_taken_as_it_is(record: bytes) -> None:
    assert checked(record) == record


def test_no_flipped_bit_gives_another_record() -> None:
    wanted = json.loads(FORMER)
    for position in range(len(RECORD)):
        for bit in range(8):
            damaged = bytearray(RECORD)
            damaged[position] ^= 1 << bit
            try:
                found = json.loads(checked(bytes(damaged)))
            except ValueError:
                continue
            # In the member's own name: all that was checked is whole.
            assert {name: found[name] for name in wanted} == wanted, (position, bit)
            assert len(found) == len(wanted) + 1
