"""The body of a request: how much of it is looked at before it is refused."""

import pytest

from opentalos.gateway.rest.routing.request import (
    _COUNTED_BYTES,
    CONTAINERS_MAX,
    _counted_containers,
)
from opentalos.model.errors import RequestTooLarge


class Watched(bytes):
    """Notes how far it was read."""

    read_bytes = 0

    def count(self, sub: object, start: object = None, end: object = None) -> int:
        assert isinstance(sub, bytes)
        assert isinstance(start, int)
        assert isinstance(end, int)
        Watched.read_bytes = max(Watched.read_bytes, end)
        return super().count(sub, start, end)


def test_a_body_of_brackets_is_refused_after_its_first_part() -> None:
    text = Watched(b"[" * 20 * _COUNTED_BYTES)
    with pytest.raises(RequestTooLarge, match="more than 100,000 opening brackets"):
        list(_counted_containers(text))
    assert Watched.read_bytes == _COUNTED_BYTES


def test_brackets_are_counted_over_all_parts_and_in_pieces() -> None:
    text = (b"[{" + b"x" * 100) * (CONTAINERS_MAX // 2)
    assert len(list(_counted_containers(text))) > 10
    with pytest.raises(RequestTooLarge):
        list(_counted_containers(text + b"{"))
