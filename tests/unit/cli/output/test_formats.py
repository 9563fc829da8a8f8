"""Tables as text, JSON lines and TSV."""

import json
from typing import Any

import pytest

from opentalos.cli.output.formats import Output, escaped

ROWS: list[dict[str, Any]] = [
    {"name": "a\tb", "count": 1, "tags": ["x", "y"], "more": {"k": None}},
    {"name": "é\n", "count": None, "tags": [], "more": {}},
]
COLUMNS = ("name", "count", "tags")


def shown(form: str, capsys: pytest.CaptureFixture[str]) -> str:
    Output(form).table(COLUMNS, ROWS)
    return capsys.readouterr().out


def test_text_has_columns_of_one_width_and_no_raw_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shown("text", capsys) == (
        "NAME  COUNT  TAGS\n"
        "a\\tb  1      x, y\n"
        "é\\n   -      -\n"
    )  # fmt: skip


def test_json_has_one_object_per_line_with_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown("json", capsys).splitlines()
    assert [json.loads(line) for line in lines] == ROWS


def test_tsv_has_a_header_and_can_be_parsed(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown("tsv", capsys) == (
        'name\tcount\ttags\na\\tb\t1\t["x", "y"]\né\\n\t\t[]\n'
    )  # fmt: skip


def test_no_rows_are_reported_on_stderr_only(capsys: pytest.CaptureFixture[str]) -> None:
    Output("text").table(COLUMNS, [], empty="none")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "none\n")
    Output("tsv").table(COLUMNS, [], empty="none")
    assert capsys.readouterr().out == "name\tcount\ttags\n"
    Output("json").table(COLUMNS, [], empty="none")
    assert capsys.readouterr().out == ""


def test_a_record_is_a_field_per_line_or_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    Output("text").record({"a_b": 1, "c": True})
    assert capsys.readouterr().out == "a b: 1\nc:   yes\n"
    Output("tsv").record({"a_b": 1, "c": True})
    assert capsys.readouterr().out == "a_b\tc\n1\ttrue\n"


def test_done_is_a_sentence_or_fields(capsys: pytest.CaptureFixture[str]) -> None:
    Output("text").done("did it", name="x")
    Output("json").done("did it", name="x")
    assert capsys.readouterr().out == 'did it\n{"name": "x"}\n'


@pytest.mark.parametrize("text", ["a\\tb", "a\tb", "\r\n\\", "\\\\n"])
def test_escapes_can_be_undone(text: str) -> None:
    back, rest = "", iter(escaped(text))
    for item in rest:
        back += {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}[next(rest)] if item == "\\" else item
    assert back == text
