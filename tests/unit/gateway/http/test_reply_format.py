"""The status line of replies."""

import pytest

from opentalos.gateway.http.reply_format import TEXT, head, head_saying


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("unknown key", b"unknown key"),
        ("two\r\nX-Lines: 1", b"two??X-Lines: 1"),
        ("städte\x00\x7f", b"st?dte??"),
        ("x" * 300, b"x" * 200),
    ],
)
def test_a_text_in_the_status_line_stays_one_line(reason: str, said: bytes) -> None:
    assert head_saying(401, TEXT, reason) == head(401, TEXT).replace(b"Unauthorized", said)
