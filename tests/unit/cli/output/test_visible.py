"""What a message does to the terminal that shows it."""

import json

import pytest

from opentalos.cli.output.visible import visible


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x1b]0;title\x07", b"\\u001b]0;title\\u0007"),
        (b"\x1b[2J\r\x08", b"\\u001b[2J\\u000d\\u0008"),
        ("\x9b2J".encode(), b"\\u009b2J"),
        (b"\x9b2J \xff", b"\\x9b2J \\xff"),
        ("a\u202eb\u2066".encode(), b"a\\u202eb\\u2066"),
        (b"\x7f\0", b"\\u007f\\u0000"),
    ],
)
def test_no_control_character_reaches_a_terminal(data: bytes, shown: bytes) -> None:
    assert visible(data) == shown


@pytest.mark.parametrize("text", ["zwölf\tlines\n", "日本語 👩‍👩‍👧", ""])
def test_text_is_left_as_it_is(text: str) -> None:
    assert visible(text.encode()) == text.encode()


def test_an_escaped_json_line_is_the_same_json() -> None:
    line = json.dumps({"text": "a\x7f\x9b\u202e"}, ensure_ascii=False).encode()
    assert json.loads(visible(line)) == json.loads(line)
    assert visible(line).isascii()
