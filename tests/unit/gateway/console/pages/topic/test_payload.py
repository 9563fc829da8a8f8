"""Views of a message's data, and what masks hide in all of them."""

import json
from itertools import product

from tests.unit.matrix import matrix

from opentalos.gateway.console.pages.topic.payload import (
    MASK,
    hex_rows,
    names_of,
    printable,
    shown,
)

MOST = 1 << 16
CARD = names_of("card, Secret")
NONE = names_of("")
VIEWS = ["auto", "json", "text", "hex"]


MASKED = [
    b'{"card": "4111", "n": 1}',
    b'{"CARD": "4111"}',
    b'{"a": [{"b": {"secret": {"x": "4111"}}}]}',
    b'{"card": "4111", "card": "x"}',
    b'{"a": {"card": "4111"}, "a": 2}',
    b'{"n": 1}\n{"card": "4111"}\n',
    b'\xef\xbb\xbf{"card": "4111"}',
    '{"card": "4111"}'.encode("utf-16"),
    b'  {"c\\u0061rd": "4111"}  ',
]


@matrix(("data", "view"), product(MASKED, VIEWS))
def test_no_view_shows_a_masked_value(data: bytes, view: str) -> None:
    found = shown(data, view, CARD, MOST)
    assert found.hidden >= 1
    assert "4111" not in found.text
    assert b"4111".hex(" ") not in found.text
    assert found.bytes_count == len(data)


def test_views() -> None:
    data = b'{"a":1}'
    assert shown(data, "auto", CARD, MOST)[:2] == ("json", '{"a": 1}')
    assert shown(data, "json", CARD, MOST)[:2] == ("json", '{\n  "a": 1\n}')
    assert shown(data, "text", CARD, MOST)[:2] == ("text", '{"a":1}')
    assert shown(data, "hex", CARD, MOST).text.startswith("00000000  7b 22 61 22 3a 31 7d ")
    assert shown(b"plain", "json", NONE, MOST).view == "text"
    assert shown(b"\x00\x01", "auto", NONE, MOST).view == "hex"
    assert shown(b"\x1b[31m", "text", NONE, MOST).view == "hex"
    assert shown(b"", "auto", CARD, MOST)[:2] == ("text", "")
    assert shown(b"42", "auto", NONE, MOST)[:2] == ("text", "42")


WITHHELD = [
    (b"card 4111", "text"),
    (b"4111", "text"),
    (b'"4111"', "text"),
    (b'{"card": "4111"', "text"),
    (b'{"n": 1}\ncard 4111\n', "text"),
    (b"[" * 100_000 + b"4111", "text"),
    (b"\x00\x00\x00\x00\x07\x084111", "binary data, perhaps with schema id 7"),
    (b"\x0a\x094111 1111", "text"),  # so may tags and lengths of Protobuf look
    (b"\x12\x044111", "binary data"),
    (b"\x00\x084111", "binary data, perhaps with schema id 137638193"),
    (b"\x00\x08", "binary data"),
    (b"Obj\x01\x044111", "an Avro file"),
]


@matrix(("withheld", "view"), product(WITHHELD, VIEWS))
def test_what_has_no_fields_is_withheld_while_there_are_masks(
    withheld: tuple[bytes, str], view: str
) -> None:
    data, kind = withheld
    found = shown(data, view, CARD, MOST)
    assert (found.view, found.bytes_count, found.hidden) == ("withheld", len(data), 0)
    assert found.text == f"{kind}: not shown, because it cannot be masked by field"
    assert shown(data, view, NONE, MOST).view != "withheld"
    named = shown(data, view, CARD, MOST, named=True)
    assert named.text == shown(data, view, NONE, MOST).text


def test_a_document_that_is_too_deep_is_text() -> None:
    assert shown(b"[" * 100_000, "auto", NONE, MOST).view == "text"


def test_only_the_start_of_long_data_is_shown() -> None:
    for data, view in ((b"x" * 100, "text"), (bytes(100), "hex"), (json.dumps(["x"] * 50), "json")):
        found = shown(data if isinstance(data, bytes) else data.encode(), view, NONE, 64)
        assert (found.view, found.cut) == (view, True)


def test_rows_in_hexadecimal() -> None:
    assert list(hex_rows(b"0123456789abcdef\x00\xff")) == [
        "00000000  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  0123456789abcdef",
        "00000010  00 ff                                             ..",
    ]


def test_text_is_what_can_be_printed() -> None:
    assert printable("Grüße\t\n".encode()) == "Grüße\t\n"
    for data in (b"\x00", b"\x7f", "\x85".encode(), b"\xff"):
        assert printable(data) is None


def test_names_of_masks() -> None:
    assert names_of(" a, B ,,", "c") == {"a", "b", "c"}
    assert MASK in shown(b'{"a": 1}', "json", names_of("A"), MOST).text
