"""Arrow tables: the same columns and bytes as the plain codec, and no length is trusted."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.sdk.arrow.encoders import DECODERS, ENCODERS

from opentalos.model.errors import BadRequest
from opentalos.model.message import Compression, MessageBlock, PayloadFormat, StoredBlock
from opentalos.sdk import arrow
from opentalos.sdk.arrow import message_columns, native_columns
from opentalos.sdk.core.blocks import decode_block_records, encode_records
from opentalos.sdk.core.values import Message, Record
from opentalos.wire.message import (
    MessageFormatError,
    decode_block,
    encode_block,
    encode_kafka_block,
    encode_messages,
)

APPEND_MS = 1700000009000
TIME_MS = 1700000000000
NONE = Compression.NONE
TEXTS = st.none() | st.text(st.characters(codec="utf-8"), max_size=4) | st.just("é" * 70)
MESSAGES = st.builds(
    Message,
    st.binary(max_size=20) | st.sampled_from([b"x" * 127, b"x" * 128, b"x" * 16384]),
    partition_key=TEXTS,
    sequence_number=TEXTS,
    create_ms=st.none() | st.just(TIME_MS) | st.integers(-(2**50), 2**50),
    append_ms=st.none(),
    message_type=st.none() | st.just(1) | st.integers(-(2**31), 2**31 - 1),
    schema_fingerprint=TEXTS,
    tag=TEXTS,
    traceparent=st.none(),  # no column has it
)
PLAIN = Message(b"data", "key", "7", TIME_MS, None, 1)


def stored(
    payload: bytes,
    messages: int,
    compression: int = NONE,
    base: int = 10,
    append_ms: int = APPEND_MS,
) -> StoredBlock:
    return StoredBlock(base, messages, append_ms, 0, compression, PayloadFormat.TALOS, payload)


def put(blocks: Sequence[MessageBlock], base: int = 10) -> Iterator[StoredBlock]:
    for block in blocks:
        yield stored(block.payload, block.messages, block.compression, base)
        base += block.messages


def time_of(ms: int | None) -> int | None:
    return None if ms is None or abs(ms) > (2**63 - 1) // 1000 else ms * 1000


def rows(records: Sequence[Record]) -> list[tuple[object, ...]]:
    """What a table of these records holds, times in us."""
    return [
        (*record[:6], time_of(record.create_ms), record.append_ms * 1000, *record[8:11])
        for record in records
    ]


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    assert table.schema == arrow.SCHEMA
    table.validate(full=True)
    for name in ("create_time", "append_time"):
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, table.column(name).cast(pa.int64()))
    return [tuple(row.values()) for row in table.to_pylist()]


def refuse_the_slow_way(*_: object) -> list[Record]:
    raise AssertionError("the slow way was taken")


@settings(max_examples=50, deadline=None)
@given(
    blocks=st.lists(st.lists(MESSAGES, min_size=1, max_size=5), max_size=4),
    compression=st.sampled_from(Compression),
    first=st.integers(8, 24),
)
def test_a_table_holds_what_the_records_hold(
    blocks: list[list[Message]], compression: Compression, first: int
) -> None:
    fetched = list(put([encode_records(messages, compression) for messages in blocks]))
    expected = [
        record for block in fetched for record in decode_block_records("t", 3, block, first)
    ]
    for native in DECODERS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native_columns, "NATIVE", native)
            patch.setattr("opentalos.sdk.arrow.decode.decode_block_records", refuse_the_slow_way)
            table = arrow.decode_table("t", 3, fetched, first)
        assert rows_of(table) == rows(expected)


@pytest.mark.usefixtures("decoder")
def test_all_shapes_that_are_not_plain_are_read_too() -> None:
    blocks = [
        stored(encode_block([PLAIN, PLAIN], NONE, 1), 2),
        stored(encode_block([PLAIN], NONE, 2), 1, base=12),
        stored(encode_kafka_block([PLAIN, PLAIN]), 2, base=13),
        stored(encode_block([PLAIN._replace(append_ms=5)], NONE), 1, base=15),
        stored(encode_messages([PLAIN], 1) + encode_messages([PLAIN], 3), 2, base=16),
        stored(b"V\0\3\0\0\0\0\5\x08\6\1x\0", 1, base=18),  # a field head in the long form
        stored(encode_block([PLAIN._replace(create_ms=2**62)], NONE), 1, base=19),
    ]
    expected = [record for block in blocks for record in decode_block_records("t", 3, block, 11)]
    assert [item.offset for item in expected] == list(range(11, 20))
    assert rows_of(arrow.decode_table("t", 3, blocks, 11)) == rows(expected)


@pytest.mark.usefixtures("decoder")
def test_a_batch_ends_with_a_block_and_is_bounded() -> None:
    block = encode_records([PLAIN] * 4_000, Compression.SNAPPY)
    batches = list(arrow.decode_batches("t", 0, put([block] * 7), 5_000))
    assert [batch.num_rows for batch in batches] == [11_010, 12_000]
    large = encode_records([Message(bytes(3 << 20))], NONE)
    batches = list(arrow.decode_batches("t", 0, put([large] * 7), 0))
    assert [batch.num_rows for batch in batches] == [3, 3, 1]


def test_a_message_of_a_trace_is_read_without_it() -> None:
    traced = PLAIN._replace(traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    (block,) = put([encode_records([traced, PLAIN], NONE)])
    assert fast(block) == slow(block)


def test_no_block_is_an_empty_table() -> None:
    assert rows_of(arrow.decode_table("t", 0, [], 0)) == []
    old = encode_records([PLAIN], NONE)
    assert rows_of(arrow.decode_table("t", 0, put([old]), 11)) == []


def slow(block: StoredBlock) -> list[tuple[object, ...]] | None:
    try:
        return rows(decode_block_records("t", 0, block, 0))
    except MessageFormatError:
        return None


def fast(block: StoredBlock) -> list[tuple[object, ...]] | None:
    """What each decoder makes of a block, which is the same."""
    view = block._replace(payload=memoryview(bytes(block.payload)))
    found: list[list[tuple[object, ...]] | None] = []
    for native in DECODERS:
        for stored_block in (block, view):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(native_columns, "NATIVE", native)
                try:
                    found.append(rows_of(arrow.decode_table("t", 0, [stored_block], 0)))
                except MessageFormatError:
                    found.append(None)
    assert all(made == found[0] for made in found)
    return found[0]


@settings(max_examples=120, deadline=None)
@given(
    messages=st.lists(MESSAGES, min_size=1, max_size=4),
    changes=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=3),
    cut=st.integers(0, 9),
    count=st.integers(-1, 1),
)
def test_damaged_blocks_are_what_the_plain_decoder_makes_of_them(
    messages: list[Message], changes: list[tuple[int, int]], cut: int, count: int
) -> None:
    data = bytearray(encode_messages(messages))
    for place, value in changes:
        data[place % len(data)] = value
    block = stored(bytes(data[: len(data) - cut]), len(messages) + count)
    assert fast(block) == slow(block)


@settings(max_examples=100, deadline=None)
@given(contents=st.lists(st.binary(max_size=16), min_size=1, max_size=3))
@example(contents=[b"\x38\x0bx\0", b"\x38\1y\0"])  # data that reach into the next message
@example(contents=[b"\x38\xff\xff\xff\xff\x07x\0"])  # 2 GiB
@example(contents=[b"\x38\x80\x80\x80\x80\x80\x80\x80\x80\x80\1\0"])  # 2 ** 63 bytes
@example(contents=[b"\x38\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\0"])  # -1 as 64 bits
@example(contents=[b"\x38\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02\0"])  # 65 bits
@example(contents=[b"\x38\x81\x80\0x\0"])  # a length in three bytes that fits one
@example(contents=[b"\x38\1x\x16" + b"\xff" * 9 + b"\1\0"])  # the smallest time
@example(contents=[b"\x38\1x\x35\xff\xff\xff\xff\x0f\0"])  # the smallest type
@example(contents=[b"\x38\1x\x35\xff\xff\xff\xff\x1f\0"])  # a type of 33 bits
@example(contents=[b"\x18\1k\x28\1x\0", b"\x28\1s\x18\1x\0", b"\x38\1x\0"])  # mixed fields
@example(contents=[b"\x18\2\xed\xa0\x28\1x\0"])  # no UTF-8
@example(contents=[b"\x18\3\xed\xa0\x80\x28\1x\0"])  # a surrogate
@example(contents=[b"\x18\1\xc3\x28\1x\0", b"\x18\1\xa9\x28\1x\0"])  # UTF-8 only if joined
@example(contents=[b"\x18\1k\0"])  # no data
@example(contents=[b"\x38\1x\0", b""])
@example(contents=[b"\x38\1x\x28\1y\0"])  # the data are followed by another field of bytes
def test_any_structs_are_what_the_plain_decoder_makes_of_them(contents: list[bytes]) -> None:
    payload = b"".join(
        b"V\0\3\0" + len(content).to_bytes(4, "big") + content for content in contents
    )
    block = stored(payload, len(contents))
    assert fast(block) == slow(block)


@settings(max_examples=80, deadline=None)
@given(
    payload=st.binary(max_size=60),
    start=st.sampled_from([b"", b"V\0\3\0", b"V\0\3\0\0\0\0\4\x38\1x\0", b"K\0\0\0", b"V\0\2\0"]),
    compression=st.integers(-1, 5),
    count=st.sampled_from([-1, 0, 1, 2, 2**31 - 1]),
)
def test_any_bytes_are_what_the_plain_decoder_makes_of_them(
    payload: bytes, start: bytes, compression: int, count: int
) -> None:
    block = stored(start + payload, count, compression)
    assert fast(block) == slow(block)


def test_lengths_that_lead_out_of_the_buffer_are_never_followed() -> None:
    encoded = encode_messages([PLAIN])
    for place in range(len(encoded)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            data = encoded + encoded[:place] + bytes((value,)) + encoded[place + 1 :] + encoded
            block = stored(data, 3)
            assert fast(block) == slow(block)


def test_times_of_a_block_that_are_none_are_an_error() -> None:
    block = encode_records([PLAIN], NONE)
    for append_ms in (2**62, -(2**62)):
        with pytest.raises(MessageFormatError, match="append time"):
            arrow.decode_table("t", 0, [stored(block.payload, 1, append_ms=append_ms)], 0)


def table_of(messages: Sequence[Message]) -> pa.Table:
    times = [time_of(message.create_ms) for message in messages]
    return pa.table(
        {
            "data": pa.array([message.data for message in messages], pa.binary()),
            "partition_key": pa.array([message.partition_key for message in messages], pa.string()),
            "sequence_number": pa.array(
                [message.sequence_number for message in messages], pa.string()
            ),
            "create_time": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "message_type": pa.array([message.message_type for message in messages], pa.int32()),
            "schema_fingerprint": pa.array(
                [message.schema_fingerprint for message in messages], "string"
            ),
            "tag": pa.array([message.tag for message in messages], pa.string()),
        }
    )


@pytest.mark.parametrize("native", ENCODERS)
@settings(max_examples=50, deadline=None)
@given(
    messages=st.lists(MESSAGES, max_size=12),
    compression=st.sampled_from(Compression),
    bytes_max=st.sampled_from([1, 60, 200, 1 << 20]),
    messages_max=st.sampled_from([1, 3, 100]),
    window=st.sampled_from([1, 2, 5, 100]),
    chunk=st.integers(1, 12),
)
def test_blocks_of_a_table_are_those_of_the_plain_encoder(
    native: ModuleType | None,
    messages: list[Message],
    compression: Compression,
    bytes_max: int,
    messages_max: int,
    window: int,
    chunk: int,
) -> None:
    table = pa.Table.from_batches(table_of(messages).to_batches(chunk), table_of([]).schema)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opentalos.sdk.arrow.native_rows.NATIVE", native)
        patch.setattr("opentalos.sdk.arrow.encode._WINDOW_ROWS_MAX", window)
        blocks = list(arrow.encode_batch(table, compression, bytes_max, messages_max))
    at = 0
    for block in blocks:
        assert block == encode_records(messages[at : at + block.messages], compression)
        size = len(encode_messages(messages[at : at + block.messages]))
        assert block.messages == 1 or size <= bytes_max
        assert block.messages <= messages_max
        at += block.messages
    assert at == len(messages)


@pytest.mark.usefixtures("encoder")
def test_blocks_are_full_where_windows_meet() -> None:
    messages = [Message(b"x" * 990, create_ms=TIME_MS, message_type=1)] * 50_000
    blocks = list(arrow.encode_batch(table_of(messages), NONE, bytes_max=1 << 20))
    assert {block.messages for block in blocks[:-1]} == {
        (1 << 20) // len(encode_messages(messages[:1]))
    }
    assert sum(block.messages for block in blocks) == 50_000


@pytest.mark.usefixtures("encoder")
def test_what_was_consumed_can_be_put_again() -> None:
    messages = [PLAIN, PLAIN._replace(partition_key=None, data=b"")]
    table = arrow.decode_table("t", 0, put([encode_records(messages, NONE)]), 0)
    (block,) = arrow.encode_batch(table, Compression.LZ4)
    assert decode_block(block.payload, Compression.LZ4, 2) == messages
    (block,) = arrow.encode_batch(table.to_batches()[0].slice(1), Compression.LZ4)
    assert decode_block(block.payload, Compression.LZ4, 1) == messages[1:]


@pytest.mark.usefixtures("encoder")
@pytest.mark.parametrize(
    "data",
    [
        pa.array(["a", "é"]),
        pa.array([b"a", "é".encode()], pa.large_binary()),
        pa.array(["a", "é"]).dictionary_encode(),
        pa.chunked_array([["a"], ["é"]]),
    ],
)
def test_data_may_be_text_or_bytes_of_any_width(data: pa.Array) -> None:
    (block,) = arrow.encode_batch(pa.table({"data": data}), NONE)
    assert decode_block(block.payload, NONE, 2) == [Message(b"a"), Message("é".encode())]


@pytest.mark.usefixtures("encoder")
def test_missing_create_times_are_filled_in_on_request() -> None:
    table = table_of([PLAIN, PLAIN._replace(create_ms=None)])
    (block,) = arrow.encode_batch(table, NONE, create_ms=TIME_MS + 2)
    assert [item.create_ms for item in decode_block(block.payload, NONE, 2)] == [
        TIME_MS,
        TIME_MS + 2,
    ]
    assert block.create_ms == TIME_MS + 1
    (block,) = arrow.encode_batch(pa.table({"data": ["a"]}), NONE, create_ms=TIME_MS)
    assert decode_block(block.payload, NONE, 1) == [Message(b"a", create_ms=TIME_MS)]
    assert block.create_ms == TIME_MS


@pytest.mark.usefixtures("encoder")
@pytest.mark.parametrize("create_ms", [TIME_MS, 0, -1, 2**62])
@pytest.mark.parametrize("nulls", [False, True])
def test_a_default_create_time_gives_the_blocks_of_a_column_of_it(
    create_ms: int, nulls: bool
) -> None:
    data = pa.array([b"a", b"bb", b"ccc"])
    kind = pa.timestamp("ms", "UTC")
    written = pa.table({"data": data, "create_time": pa.array([create_ms] * 3).view(kind)})
    absent = pa.table({"data": data})
    if nulls:
        absent = absent.append_column("create_time", pa.nulls(3, kind))
    expected = list(arrow.encode_batch(written, NONE, messages_max=2))
    assert list(arrow.encode_batch(absent, NONE, messages_max=2, create_ms=create_ms)) == expected
    assert [block.create_ms for block in expected] == [create_ms] * 2


@pytest.mark.usefixtures("encoder")
@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"partition_key": ["k"]}, "the column data is missing"),
        ({"data": pa.array([None], pa.binary())}, "nulls"),
        ({"data": [b"a", None]}, "nulls"),
        ({"data": [b"a"], "colour": ["red"]}, "colour"),
        ({"data": [1.5]}, "does not fit"),
        ({"data": [b"a"], "create_time": [5]}, "with a time zone"),
        ({"data": [b"a"], "create_time": [datetime(2026, 1, 1)]}, "with a time zone"),
        ({"data": [b"a"], "message_type": [2**40]}, "does not fit"),
        ({"data": [b"a"], "partition_key": [b"\xff"]}, "does not fit"),
    ],
)
def test_an_unsuitable_table_is_refused(columns: dict[str, object], reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        list(arrow.encode_batch(pa.table(columns), NONE))


@pytest.mark.usefixtures("encoder")
def test_a_column_there_twice_is_refused() -> None:
    table = pa.Table.from_arrays([pa.array([b"a"]), pa.array([b"b"])], names=["data", "data"])
    with pytest.raises(BadRequest, match="duplicate"):
        list(arrow.encode_batch(table, NONE))


@pytest.mark.usefixtures("encoder")
def test_times_of_every_unit_become_milliseconds() -> None:
    time = datetime(2026, 1, 1, 0, 0, 0, 7_900, UTC)
    for unit, ms in (("s", 0), ("ms", 7), ("us", 7), ("ns", 7)):
        created = pa.array([time], pa.timestamp("us", "Asia/Shanghai"))
        created = created.cast(pa.timestamp(unit, "Asia/Shanghai"), safe=False)
        (block,) = arrow.encode_batch(pa.table({"data": [b"a"], "create_time": created}), NONE)
        assert block.create_ms == int(time.timestamp()) * 1000 + ms


def test_without_pyarrow_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import opentalos.sdk\n"
        "try: import opentalos.sdk.arrow\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install 'opentalos[arrow]'" in done.stdout


def test_places_end_where_the_payload_ends() -> None:
    encoded = encode_messages([PLAIN])
    assert message_columns.message_places(encoded * 3, 3) == [0, len(encoded), 2 * len(encoded)]
    for data, count in (
        (encoded, 2),
        (encoded * 2, 1),
        (encoded[:-1], 1),
        (encoded + b"\0", 1),
        (b"", 1),
    ):
        with pytest.raises(message_columns.NotPlain):
            message_columns.message_places(data, count)
