"""JSON texts in pieces: what Python's decoder says, in many short steps."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.matrix import matrix

from opentalos.gateway.rest.routing import json_text
from opentalos.gateway.rest.routing.json_text import DEPTH_MAX, decoded, encoded, parse
from opentalos.model.errors import BadRequest

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=40,
)  # fmt: skip


def parsed(text: bytes, *, keep: bool = True) -> tuple[Any, int]:
    """The document and the number of pieces."""
    pieces = parse(text, keep=keep)
    count = 0
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return end.value, count
        count += 1


def outcome(text: bytes, decode: Any) -> Any:
    try:
        return decode(text)
    except BadRequest:
        return BadRequest


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is taken apart, as it is in large texts."""
    monkeypatch.setattr(json_text, "WINDOW_CHARS", 8)
    monkeypatch.setattr(json_text, "_RUN_CHARS_MIN", 3)
    monkeypatch.setattr(json_text, "PIECE_COST", 40)


@settings(deadline=None)
@given(VALUES, st.sampled_from([None, 1, 3]), st.booleans())
def test_any_document_is_what_the_decoder_makes_of_it(
    value: Any, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "WINDOW_CHARS", 8)
        patch.setattr(json_text, "_RUN_CHARS_MIN", 3)
        assert parsed(text)[0] == decoded(text)
        assert (
            b"".join(encoded(value))
            == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        )


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet='[]{}",: \\u0dD89aeE.-+1tnf\n', max_size=60))
def test_any_text_is_valid_for_both_or_for_neither(text: str) -> None:
    sent = text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "WINDOW_CHARS", 5)
        patch.setattr(json_text, "_RUN_CHARS_MIN", 2)
        whole = outcome(sent, decoded)
        assert outcome(sent, lambda each: parsed(each)[0]) == whole
        checked = outcome(sent, lambda each: parsed(each, keep=False)[0])
        stored = outcome(sent, lambda each: decoded(each, keep=False))
        assert (checked is BadRequest) == (stored is BadRequest)
        assert whole in (stored, BadRequest)


@matrix(
    "text",
    [
        b"", b" ", b"[", b"[1,]", b"[1 2]", b"{", b'{"a"}', b'{"a":}', b'{"a":1,}', b"{1:2}",
        b"[1]x", b'"', b'"\n"', b"NaN", b"[Infinity]", b"1e999", b"tru", b"[1,,2]", b"[,1]",
        b'{"a":1,"a":1}', b'{"a":1,"b":{"c":[{"d":1,"e":2,"d":3}]}}', b'{"a":[1,2,3,4],"a":[5]}',
        b'["\\ud800"]', b'{"\\ud800":1}', b'["\\udc00\\ud800"]', b'"\xff"', b"[1],[2]",
    ],
)  # fmt: skip
@pytest.mark.usefixtures("small_windows")
def test_what_the_decoder_refuses_is_refused(text: bytes) -> None:
    for large in (text, b"[" + b"1," * 30 + text):
        assert outcome(large, lambda each: parsed(each)[0]) is BadRequest


@pytest.mark.usefixtures("small_windows")
def test_a_pair_of_surrogates_is_one_character() -> None:
    assert parsed(b'["\\ud83d\\ude00", {"\\uD83D\\uDE00": 1}]')[0] == [
        "\U0001f600",
        {"\U0001f600": 1},
    ]


def test_depth_is_bounded() -> None:
    deep = b"[" * DEPTH_MAX + b"]" * DEPTH_MAX
    assert parsed(deep)[1] >= 1
    with pytest.raises(BadRequest, match="levels"):
        parsed(b"[" * 100_000 + b"]" * 100_000)
    with pytest.raises(BadRequest):
        parsed(b"[" * 1_000_000)


@pytest.mark.parametrize(
    "item",
    [b"[],", b"1,", b"1.5,", b'"",', b'{"":1},', b"[[[1],2],3],", b"[" + b"1," * 3_000 + b"1],"],
)
def test_no_piece_of_a_large_text_is_long(item: bytes) -> None:
    text = b"[" + item * (500_000 // len(item)) + b"1]"
    found, pieces = parsed(text)
    assert found == json.loads(text)
    assert pieces >= len(text) / (json_text.PIECE_COST + json_text.WINDOW_CHARS + 100)
    assert max(len(piece) for piece in encoded(found)) <= 2 * json_text.PIECE_COST


def test_an_object_with_many_fields_is_parsed_in_pieces() -> None:
    value = {f"k{number}": number for number in range(20_000)}
    found, pieces = parsed(json.dumps(value).encode())
    assert found == value
    assert pieces > 20


def test_a_check_keeps_no_values() -> None:
    found, _ = parsed(b"[" + b"[1,2]," * 10_000 + b"1]", keep=False)
    assert found == []


def test_other_encodings_of_unicode_are_read() -> None:
    for encoding in ("utf-8-sig", "utf-16", "utf-32-be"):
        assert decoded('["ä"]'.encode(encoding)) == parsed('["ä"]'.encode(encoding))[0] == ["ä"]


def test_numbers_with_a_fraction_are_parsed_in_shorter_pieces() -> None:
    """Python code checks each of them, which takes six times as long as an integer."""
    _, integers = parsed(b"[" + b"1111," * 100_000 + b"1]")
    _, fractions = parsed(b"[" + b"11.5," * 100_000 + b"1]")
    assert fractions > 2 * integers


def test_a_piece_of_fractions_is_shorter_since_python_writes_them_slowly() -> None:
    numbers = [1.5] * 20_000
    pieces = list(encoded(numbers))
    assert json.loads(b"".join(pieces)) == numbers
    assert max(piece.count(b".") for piece in pieces) < 1_200  # about 1 ms
    whole = list(encoded([1] * 20_000))
    assert len(whole) < len(pieces) / 3


EXACT = b'[12345678901234567890.123456789,0.1234567890123456789012,1e-400,{"a":9007199254740993.5}]'


@pytest.mark.parametrize("window", [8, json_text.WINDOW_CHARS])
def test_numbers_that_no_double_is_are_written_as_they_were_sent(
    monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(json_text, "WINDOW_CHARS", window)
    monkeypatch.setattr(json_text, "_RUN_CHARS_MIN", 3)
    for found in (decoded(EXACT), parsed(EXACT)[0]):
        assert b"".join(encoded(found)) == EXACT
        assert found[1] == 0.1234567890123456789012
    assert list(encoded(decoded(b"[1.10, 1E2, -0.0]"))) == [b"[1.1,100.0,-0.0]"]


def test_a_field_that_is_given_twice_is_named() -> None:
    many = b"{" + b",".join(b'"k%d":%d' % (number, number) for number in range(2_000))
    for text in (b'{"a":{"b":1,"b":2}}', b'[{"a":1},{"b":1,"b":1}]', many + b',"b":1,"b":1}'):
        for decode in (decoded, lambda each: parsed(each)[0]):
            with pytest.raises(BadRequest, match='the field "b" is given twice'):
                decode(text)


def test_a_stored_message_may_have_a_field_twice() -> None:
    text = b'{"a":1,"a":2}'
    assert decoded(text, keep=False) == {"a": 2}
    assert parsed(text, keep=False)[1] >= 1
