"""What a znode of ours holds, byte by byte."""

import pytest

from opentalos.adapters.zookeeper.node_format import (
    BARE,
    Content,
    Kind,
    decode_content,
    encode_content,
)
from opentalos.model.errors import CorruptLog, NewerFormat

NONCE = b"0123456789ab"


def test_a_record_is_laid_out_as_documented() -> None:
    record = Content(Kind.RECORD, NONCE, b"value")
    assert encode_content(record) == b"OT\x01R0123456789abvalue"
    assert decode_content("/x", encode_content(record)) == record


def test_a_tombstone_and_a_bare_node_hold_no_value() -> None:
    tombstone = Content(Kind.TOMBSTONE, NONCE, b"")
    assert decode_content("/x", encode_content(tombstone)) == tombstone
    assert encode_content(BARE) == b""
    assert decode_content("/x", b"") == BARE


@pytest.mark.parametrize("data", [b"x", b"theirs, long enough", b"OT\x01Xnonce", b"OT\x01R123"])
def test_other_data_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(CorruptLog, match="/talos/x"):
        decode_content("/talos/x", data)


def test_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(CorruptLog, match="/talos/x"):
        decode_content("/talos/x", b"OT\x01X" + NONCE)


def test_a_newer_format_is_refused_by_name() -> None:
    with pytest.raises(NewerFormat, match="/talos/x"):
        decode_content("/talos/x", b"OT\x02R" + NONCE)
