"""Messages of a request: a long value leaves the loop to others after each piece."""

import pytest

from opentalos.broker.long_work import LongWork
from opentalos.gateway.rest.message.format import LONG_PIECE_BYTES, messages_of
from opentalos.gateway.rest.routing.json_text import encoded


@pytest.mark.parametrize("value", [[1.5] * 50_000, ["text"] * 50_000, {"a": [1] * 50_000}])
async def test_the_loop_is_next_after_each_piece_of_a_long_value(value: object) -> None:
    work = LongWork(None, waiting_max=1)
    long_pieces = [piece for piece in encoded(value) if len(piece) > LONG_PIECE_BYTES]
    async with work.turn("alice") as turn:
        (message,) = await messages_of(turn, [{"value": value}], None)
    assert message.data == b"".join(encoded(value))
    assert work.counters.pauses == len(long_pieces) >= 3


async def test_short_messages_share_a_piece() -> None:
    work = LongWork(None, waiting_max=1)
    async with work.turn("alice") as turn:
        found = await messages_of(turn, [{"value": {"n": n}} for n in range(1_000)], None)
    assert [message.data for message in found[:2]] == [b'{"n":0}', b'{"n":1}']
    assert 5 < work.counters.pauses < 50
