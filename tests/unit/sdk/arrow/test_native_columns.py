"""The accelerator's decoder: what its callers may get wrong, and what it keeps of what they give.

That it makes the same columns as numpy and Arrow is tested with them, in test_arrow.py.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from scripts.build_accelerator import COLUMNS
from tests.unit.sdk.arrow.encoders import DECODERS

from opentalos.sdk.arrow import native_columns
from opentalos.sdk.arrow.message_columns import NotPlain
from opentalos.sdk.arrow.native_columns import Content
from opentalos.wire.message import Message, encode_messages

DATA = [b"", b"a", b"x" * 200, b"y" * 70_000]
PAYLOAD = encode_messages([Message(data, "key") for data in DATA])


def test_both_sides_name_one_interface() -> None:
    assert f"#define INTERFACE {native_columns.INTERFACE} " in COLUMNS.read_text()


if (NATIVE := DECODERS[-1]) is not None:
    decode = NATIVE.decode

    def values(blocks: Sequence[Content]) -> list[bytes]:
        column: pa.Array = native_columns.native_columns(blocks)[0]
        column.validate(full=True)
        found: list[bytes] = column.to_pylist()
        return found

    def test_first_messages_that_are_not_wanted_have_no_rows() -> None:
        for skipped in range(len(DATA) + 1):
            blocks = [Content(PAYLOAD, len(DATA), skipped), Content(PAYLOAD, len(DATA), 3)]
            assert values(blocks) == DATA[skipped:] + DATA[3:]

    def test_another_number_of_messages_than_there_are_is_not_plain() -> None:
        for messages in (0, 1, 3, 5, 2**31, 2**62):
            with pytest.raises(NotPlain):
                values([Content(PAYLOAD, messages, 0)])
        with pytest.raises(NotPlain):
            values([Content(PAYLOAD[:-1], len(DATA), 0)])
        assert values([]) == values([Content(b"", 0, 0)]) == []

    @pytest.mark.parametrize(
        ("blocks", "kind"),
        [
            ([(PAYLOAD, 4, 0)], TypeError),
            ((PAYLOAD,), TypeError),
            (((PAYLOAD, 4),), TypeError),
            ((("text", 4, 0),), TypeError),
            (((PAYLOAD, -1, 0),), ValueError),
            (((PAYLOAD, 4, 5),), ValueError),
            (((PAYLOAD, 4, -1),), ValueError),
        ],
    )
    def test_arguments_that_are_no_blocks_are_refused(blocks: Any, kind: type[Exception]) -> None:
        with pytest.raises(kind):
            decode(blocks)
        with pytest.raises(kind):
            decode((*((PAYLOAD, 4, 0),), *blocks) if isinstance(blocks, tuple) else blocks)

    def test_payloads_are_released_whatever_was_found() -> None:
        held = bytearray(PAYLOAD)
        for messages in (4, 5, -1):
            try:
                decode(((held, messages, 0),))
            except ValueError:
                assert messages < 0
            held.append(1)
            held.pop()

    def test_a_column_keeps_no_more_memory_than_it_fills() -> None:
        """Each column is given the room of all payloads at first."""
        found = native_columns.native_columns([Content(PAYLOAD, len(DATA), 0)])
        assert [buffer.size for buffer in found[1].buffers() if buffer] == [4 * 5, 3 * 4]
