"""Messages as text, JSON and TSV, and lines as messages."""

import base64
import json

import pytest

from opentalos.cli.input.message_lines import (
    LINE_BYTES_MAX,
    PART_BYTES,
    PART_MESSAGES,
    Lines,
    parse_json,
    parse_keyed,
    parser,
    parts_of,
)
from opentalos.cli.output.record_format import parse_format, render_json, render_tsv
from opentalos.model.errors import BadRequest
from opentalos.sdk import Message, Record

FULL = Record("orders", 3, 42, "zwölf".encode(), "k:1", "s1", 1000, 2000, 1, "fp", "blue")
BARE = Record("orders", 0, 7, b"\xff\x00", None, None, None, 5, None, None, None)


@pytest.mark.parametrize(
    ("template", "full", "bare"),
    [
        ("%s\\n", "zwölf\n".encode(), b"\xff\x00\n"),
        ("%t/%p/%o", b"orders/3/42", b"orders/0/7"),
        ("%S %k %K", b"6 k:1 3", b"2  -1"),
        ("%T %C", b"2000 1000", b"5 "),
        ("%q,%g", b"s1,blue", b","),
        ("%R%s", b"\0\0\0\x06zw\xc3\xb6lf", b"\0\0\0\x02\xff\0"),
        ("100%%\\t\\\\\\x00\\0\\r", b"100%\t\\\0\0\r", b"100%\t\\\0\0\r"),
        ("ä", "ä".encode(), "ä".encode()),
        ("", b"", b""),
    ],
)
def test_format_strings_are_those_of_kcat(template: str, full: bytes, bare: bytes) -> None:
    render = parse_format(template)
    assert render(FULL) == full
    assert render(BARE) == bare


@pytest.mark.parametrize("template", ["%z", "%", "a\\", "\\q", "\\x", "\\x1", "\\xgg", "%\n"])
def test_unknown_format_characters_are_rejected(template: str) -> None:
    with pytest.raises(BadRequest, match="unknown format"):
        parse_format(template)


@pytest.mark.parametrize("record", [FULL, BARE])
def test_a_json_line_parses_to_the_same_message(record: Record) -> None:
    line = render_json(record)
    assert line.count(b"\n") == 1
    again = parse_json(line)
    assert again.data == record.data
    for name in (
        "partition_key", "sequence_number", "create_ms", "message_type", "schema_fingerprint",
        "tag",
    ):  # fmt: skip
        assert getattr(again, name) == getattr(record, name)


def test_json_has_text_or_base64() -> None:
    assert json.loads(render_json(FULL))["text"] == "zwölf"
    assert json.loads(render_json(BARE))["base64"] == base64.b64encode(b"\xff\x00").decode()


def test_tsv_is_one_line_and_distinguishes_bytes_from_text() -> None:
    assert render_tsv(FULL) == "3\t42\t2000\tk:1\tzwölf\n".encode()
    assert render_tsv(BARE) == b"0\t7\t5\t\t\\xff\x00\n"
    lines = FULL._replace(data=b"a\tb\nc\\xff")
    assert render_tsv(lines) == b"3\t42\t2000\tk:1\ta\\tb\\nc\\\\xff\n"


def test_text_before_the_separator_is_the_key() -> None:
    assert parse_keyed(b"a::b::c", b"::") == Message(b"b::c", partition_key="a")
    assert parse_keyed(b"abc", b"::") == Message(b"abc")
    with pytest.raises(BadRequest, match="UTF-8"):
        parse_keyed(b"\xff:a", b":")
    assert parser("text", None)(b"a:b") == Message(b"a:b")


@pytest.mark.parametrize(
    ("line", "data"),
    [
        ('{"text": "é"}', "é".encode()),
        ('{"base64": "AP8="}', b"\x00\xff"),
        ('{"value": {"a": [1, null]}}', b'{"a":[1,null]}'),
        ('{"value": null, "key": null}', b"null"),
    ],
)
def test_json_data_has_three_forms(line: str, data: bytes) -> None:
    assert parse_json(line.encode()).data == data


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON object"),
        ('{"txt": "a"}', "unknown field 'txt'"),
        ("{}", "pass exactly one of"),
        ('{"text": "a", "value": 1}', "pass exactly one of"),
        ('{"text": 1}', "text must be a string"),
        ('{"base64": "?"}', "base64 is invalid"),
        ('{"text": "\\ud800"}', "text is invalid"),
        ('{"text": "a", "key": 1}', "key must be a string"),
        ('{"text": "a", "type": true}', "type must be an integer"),
    ],
)
def test_invalid_json_messages_name_the_reason(line: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        parse_json(line.encode())


def test_lines_may_span_chunks_and_the_last_may_be_incomplete() -> None:
    lines = Lines()
    assert lines.split(b"a\nb") == [b"a"]
    assert lines.split(b"c\n\nd") == [b"bc", b""]
    assert lines.end() == [b"d"]
    assert Lines().end() == []


def test_an_overlong_line_is_rejected_early() -> None:
    lines = Lines()
    lines.split(b"x" * LINE_BYTES_MAX)
    with pytest.raises(BadRequest, match="longer than"):
        lines.split(b"x")


def test_parts_are_bounded_by_count_and_bytes_and_ordered() -> None:
    small = [Message(b"%d" % number) for number in range(2 * PART_MESSAGES + 1)]
    parts = list(parts_of(small))
    assert [len(part) for part in parts] == [PART_MESSAGES, PART_MESSAGES, 1]
    assert [item for part in parts for item in part] == small
    half = Message(bytes(PART_BYTES // 2))
    large = Message(bytes(2 * PART_BYTES))
    assert [len(part) for part in parts_of([half, half, half, large, half])] == [2, 1, 1, 1]
    assert list(parts_of([])) == []
