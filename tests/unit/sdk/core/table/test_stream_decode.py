"""What a stream's message says, and that bad bytes are refused as such."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sdk.stream_model import SCHEMA, ModelTable

from opentalos.model.change import StreamView
from opentalos.model.errors import ValidationFailed
from opentalos.model.table import StreamSpec, TableSchema
from opentalos.sdk.core.table.stream_decode import StreamDecoder
from opentalos.sdk.core.values import Record
from opentalos.wire.message import MessageFormatError
from opentalos.wire.sds.change import encode_change

SAME = settings(deadline=None, derandomize=True)  # the same examples on every machine
VIEWS = st.sampled_from(StreamView)


def message(view: StreamView) -> bytes:
    table = ModelTable()
    table.put("a", n=1, text="x")
    return encode_change(view, "users", table.increment("a", 3), None)


def record(data: bytes, number: str | None) -> Record:
    return Record("changes", 2, 40, data, "6100", number, 1, 2, 3, None, None)


def test_a_record_has_its_change_and_its_position() -> None:
    decoder = StreamDecoder(SCHEMA, StreamView.MUTATE_LOG)
    found = decoder.record(record(message(StreamView.MUTATE_LOG), "2"))
    assert (found.table, found.partition, found.offset) == ("users", 2, 40)
    assert found.change.sequence == 2
    assert found.change.columns["n"].value == 4
    assert decoder.payload(message(StreamView.MUTATE_LOG)) == (
        "users", found.change._replace(sequence=0)
    )  # fmt: skip


@pytest.mark.parametrize("number", ["-1", "x", "1.0", "\u0661", "9" * 21, "9" * 5_000])
def test_an_invalid_number_is_refused(number: str) -> None:
    decoder = StreamDecoder(SCHEMA, StreamView.MUTATE_LOG)
    with pytest.raises(MessageFormatError, match=r"changes\[2\] offset 40 is not a change"):
        decoder.record(record(message(StreamView.MUTATE_LOG), number))


@SAME
@given(view=VIEWS, data=st.binary(max_size=60))
def test_any_bytes_are_a_change_or_refused(view: StreamView, data: bytes) -> None:
    tried(view, data)


@SAME
@given(view=VIEWS, place=st.integers(0, 200), byte=st.integers(0, 255), cut=st.integers(0, 200))
def test_a_damaged_message_is_a_change_or_refused(
    view: StreamView, place: int, byte: int, cut: int
) -> None:
    damaged = bytearray(message(view))
    damaged[place % len(damaged)] = byte
    tried(view, bytes(damaged))
    tried(view, bytes(damaged[: cut % len(damaged)]))


def tried(view: StreamView, data: bytes) -> None:
    try:
        _, change = StreamDecoder(SCHEMA, view).payload(data, "1")
    except MessageFormatError:
        return
    assert change.key


def test_a_stream_is_found_by_its_topic() -> None:
    streams = {
        "on": StreamSpec(view=StreamView.RECORD_IMAGE),
        "off": StreamSpec(enabled=False),
    }
    schema = TableSchema(
        primary=SCHEMA.primary, attributes=SCHEMA.attributes, streams=streams
    )  # fmt: skip
    assert StreamDecoder.of(schema, "on").view is StreamView.RECORD_IMAGE
    for topic in ("off", "neither"):
        with pytest.raises(ValidationFailed, match=f"no stream into {topic}; it has: on"):
            StreamDecoder.of(schema, topic)
