"""Records as JSON with a format version."""

import pytest

from opentalos.catalog.records.record_format import decode_record, encode_record
from opentalos.model.errors import CorruptLog, NewerFormat


def _number(value: bytes) -> int:
    return decode_record(value, 1, "numbers", lambda record: int(record["number"]))


def test_a_record_is_read_as_it_was_written() -> None:
    assert encode_record(1, number=7) == b'{"version":1,"number":7,"crc":"b7e5769f"}'
    assert _number(encode_record(1, number=7)) == 7
    assert _number(b'{"version":1,"number":7}') == 7, "older versions write no checksum"


def test_a_newer_format_and_damage_are_named() -> None:
    with pytest.raises(NewerFormat, match="numbers has format 2"):
        _number(encode_record(2, number=7))
    damaged = b'{"version":1,"number":3,"crc":"b7e5769f"}'
    for value in (b"", b"[]", b"{}", b'{"version":1}', b'{"version":1,"number":"x"}', damaged):
        with pytest.raises(CorruptLog, match="invalid record of numbers"):
            _number(value)
