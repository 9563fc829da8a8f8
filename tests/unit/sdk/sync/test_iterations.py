"""Iterations of synchronous consumers: an error of one partition does not end them."""

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from opentalos.sdk import ClientConfig, CorruptLog, TalosConsumer
from opentalos.sdk.core.consumer.continuing import Continuing
from opentalos.sdk.core.consumer.delivery import Chunk, Delivery
from opentalos.sdk.core.values import Message, StoredBlock
from opentalos.wire.message import encode_messages

CONFIG = ClientConfig(endpoints=("http://h:1",), key_id="k", secret="s")


def delivery(base: int) -> Delivery:
    payload = encode_messages([Message(b"1"), Message(b"2")])
    return Delivery(Chunk("t", 1, base, [StoredBlock(base, 2, 1_000, 0, 0, 0, payload)]))


@pytest.mark.parametrize(
    ("iterate", "seen"),
    [(iter, [0, 1, 2, 3]), (TalosConsumer.batches, [(0, 1), (2, 3)])],
)
def test_the_next_request_has_the_others_or_the_same_error(
    monkeypatch: pytest.MonkeyPatch, iterate: Callable[[Any], Iterator[Any]], seen: list[Any]
) -> None:
    damage = CorruptLog("partition 0 is damaged")
    found = iter([delivery(0), damage, damage, delivery(2), None])

    def following(timeout_s: float | None = None) -> Delivery | None:
        item = next(found)
        if isinstance(item, CorruptLog):
            raise item
        return item

    consumer = TalosConsumer(CONFIG, "t", "g")
    monkeypatch.setattr(consumer, "_next", following)
    items = iterate(consumer)
    half = len(seen) // 2
    assert [offsets(next(items)) for _ in range(half)] == seen[:half]
    for _ in range(2):
        with pytest.raises(CorruptLog, match="partition 0 is damaged"):
            next(items)
    assert [offsets(item) for item in items] == seen[half:]
    consumer.close()


def offsets(item: Any) -> Any:
    return tuple(record.offset for record in item) if isinstance(item, list) else item.offset


def test_an_iteration_that_is_closed_stays_closed() -> None:
    def numbers() -> Generator[int, None, None]:
        yield 1
        raise CorruptLog("damaged")

    items = Continuing(numbers)
    assert next(items) == 1
    with pytest.raises(CorruptLog):
        next(items)
    assert items.send(None) == 1
    items.close()
    assert list(items) == []
