"""A producer warns of a hot partition once per window, and only of messages with keys."""

import logging

import pytest

from opentalos.sdk.core.producer.accumulator import Batch
from opentalos.sdk.core.producer.key_spread import WINDOW_S, KeySpread
from opentalos.sdk.core.values import Message


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def batch(partition: int, count: int, key: str | None) -> Batch:
    made = Batch(partition, ticket=1, born_s=0.0, room=1)
    made.messages = [Message(b"", key)] * count
    return made


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    caplog.clear()
    return found


def test_a_window_with_a_hot_partition_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    spread = KeySpread("orders", clock)
    for _ in range(10):
        spread.count(batch(5, 90, "a"), 8)
        spread.count(batch(2, 10, "b"), 8)
    assert warnings(caplog) == []  # the window is not over
    clock.now_s += WINDOW_S
    spread.count(batch(2, 10, "b"), 8)
    (said,) = warnings(caplog)
    assert said.startswith("partition 5 of topic orders got 90% of 1000 messages with keys")
    spread.end(8)
    assert warnings(caplog) == []  # the new window has ten messages


def test_messages_without_keys_and_even_keys_are_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    spread = KeySpread("orders", Clock())
    spread.count(batch(5, 5_000, None), 8)
    for partition in range(8):
        spread.count(batch(partition, 500, "k"), 8)
    spread.end(8)
    assert warnings(caplog) == []


def test_rows_whose_keys_chose_the_partition_count(caplog: pytest.LogCaptureFixture) -> None:
    spread = KeySpread("orders", Clock())
    rows = Batch(1, ticket=1, born_s=0.0, room=1)
    rows.rows, rows.keyed = range(2_000), True
    spread.count(rows, 4)
    spread.end(4)
    assert "100% of 2000 messages" in warnings(caplog)[0]
