"""Converts the arguments of puts to messages and blocks, for both TalosProducer classes."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from opentalos.model.errors import TalosError
from opentalos.sdk.core.blocks import message_of
from opentalos.sdk.core.producer.accumulator import Watch, WhenFailed, WhenStored, size_of
from opentalos.sdk.core.producer.partitioner import Partitioner
from opentalos.sdk.core.producer.settings import OnError, OnSuccess, Outcome, ProducerSettings
from opentalos.sdk.core.values import Message, MessageBlock, Stored


class Rows(NamedTuple):
    """Rows of a table as a block; ``partition``: chosen by their keys, None: no keys."""

    block: MessageBlock
    numbers: Sequence[int]
    partition: int | None


def watch_of(on_success: WhenStored | None, on_error: WhenFailed | None) -> Watch | None:
    """The callbacks, or None if there are none."""
    return None if on_success is None and on_error is None else (on_success, on_error)


def watch_into(
    stored: Callable[[Stored], object], failed: Callable[[TalosError], object]
) -> tuple[OnSuccess, OnError]:
    """Callbacks of one message that pass its outcome on."""

    def on_success(_message: Message, partition: int, offset: int | None) -> None:
        stored(Stored(partition, offset))

    def on_error(_message: Message, error: TalosError, _outcome: Outcome) -> None:
        failed(error)

    return on_success, on_error


def portions(
    given: Sequence[Message | bytes], now_ms: int, settings: ProducerSettings
) -> Iterator[list[Message]]:
    """Split messages into parts to buffer atomically: one part if the producer does not block."""
    messages = [message_of(message, now_ms) for message in given]
    if settings.when_full == "raise":
        if messages:
            yield messages
        return
    bytes_max = min(settings.batch_bytes_max, settings.waiting_bytes_max // 2)
    ends = list(accumulate(map(size_of, messages)))
    at, taken = 0, 0
    while at < len(messages):
        end = max(bisect_right(ends, taken + bytes_max), at + 1)
        yield messages[at:end]
        at, taken = end, ends[end - 1]


def rows_of(
    table: Any,
    settings: ProducerSettings,
    partitioner: Partitioner,
    partitions: int,
    now_ms: int,
) -> Iterator[Rows]:
    """Encode the rows of a table or record batch as blocks of one partition each, lazily."""
    from opentalos.sdk.arrow import encode_batch
    from opentalos.sdk.arrow.partitions import split_by_key

    for partition, rows, numbers in split_by_key(table, partitioner, partitions):
        at = 0
        for block in encode_batch(
            rows,
            settings.compression,
            settings.batch_bytes_max,
            settings.batch_messages_max,
            now_ms,
        ):
            yield Rows(block, numbers[at : at + block.messages], partition)
            at += block.messages
