"""Lines of JSON as messages: nothing of a value is lost or guessed."""

import pytest

from opentalos.cli.input.message_lines import parse_json
from opentalos.model.errors import BadRequest


def test_a_value_keeps_every_digit() -> None:
    line = b'{"value": {"n": 12345678901234567890.5, "t": "\xc3\xbc"}, "key": "k"}'
    assert parse_json(line).data == b'{"n":12345678901234567890.5,"t":"\xc3\xbc"}'


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"text": "a", "text": "b"}', 'the field "text" is given twice'),
        (b'{"value": {"a": 1, "a": 2}}', 'the field "a" is given twice'),
        (b'{"value": "\\ud800"}', "value is invalid"),
        (b'{"value": 1e999}', "1e999 is too large"),
    ],
)
def test_a_line_that_can_mean_two_things_is_refused(line: bytes, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        parse_json(line)
