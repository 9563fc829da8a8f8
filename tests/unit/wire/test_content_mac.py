"""Tags of bodies: what they cover, and what is not a tag."""

import pytest

from opentalos.wire.content_mac import content_mac, is_content_mac

ID = b"0123456789abcdef0123456789abcdef"
EXAMPLE = b"603458b182fd52c6ef57eec463554d3f"


def test_a_tag_is_of_one_secret_one_request_and_one_body() -> None:
    tag = content_mac(b"secret", ID, b"body")
    assert len(tag) == 32
    assert is_content_mac(b"secret", ID, b"body", tag)
    assert not is_content_mac(b"other", ID, b"body", tag)
    assert not is_content_mac(b"secret", ID[::-1], b"body", tag)
    assert not is_content_mac(b"secret", ID, b"Body", tag)


def test_the_tag_of_an_example_is_that_of_the_documentation() -> None:
    assert content_mac(b"example-secret", ID, b"\x82\x21\x01") == EXAMPLE


@pytest.mark.parametrize("sent", [b"", b"0", b"x" * 32, b"00" * 15, b"00" * 17, b"\xff" * 32])
def test_what_is_not_a_tag_never_matches(sent: bytes) -> None:
    assert not is_content_mac(b"secret", ID, b"body", sent)


@pytest.mark.parametrize("request_id", [None, b"", b"short"])
def test_an_id_that_may_repeat_makes_no_key(request_id: bytes | None) -> None:
    tag = content_mac(b"secret", request_id or b"", b"body")
    assert not is_content_mac(b"secret", request_id, b"body", tag)
