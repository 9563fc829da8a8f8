"""Benchmark of the SDK's codec without a server: messages per second per core."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from bench.plan import Plan
from bench.report import Figure
from bench.sdk_payloads import messages_of, table_of
from opentalos.model.message import Compression, PayloadFormat, StoredBlock
from opentalos.sdk import arrow
from opentalos.sdk.core.blocks import decode_block_records, encode_records
from opentalos.sdk.core.values import Message

SIZES: Final = (100, 1024)
BLOCKS: Final = 10
BLOCK_MESSAGES: Final = 1_000
_TIME_MS: Final = 1_700_000_000_000


def codec(plan: Plan) -> Iterator[Figure]:
    """Encode and decode records and tables: uncompressed and with the default compression."""
    for size in SIZES:
        messages = [
            message._replace(create_ms=_TIME_MS + number // 50, partition_key=f"key-{number:05}")
            for number, message in enumerate(messages_of(size)[:BLOCK_MESSAGES])
        ]
        for compression in (Compression.NONE, Compression.SNAPPY):
            for name, call, count in _calls(size, messages, compression):
                rates = [count / _cpu_s(call) for _ in range(plan.repeats)]
                yield Figure(
                    name=f"{name}, {size} B, {compression.name.lower()}",
                    unit="messages/CPU s",
                    values=rates,
                )


def _calls(
    size: int, messages: list[Message], compression: Compression
) -> Iterator[tuple[str, Callable[[], object], int]]:
    made = encode_records(messages, compression)
    blocks = [
        StoredBlock(
            *(number * BLOCK_MESSAGES, BLOCK_MESSAGES, _TIME_MS, _TIME_MS),
            *(compression, PayloadFormat.TALOS, made.payload),
        )
        for number in range(BLOCKS)
    ]
    table = table_of(size)

    def records() -> None:
        for block in blocks:
            decode_block_records("topic", 0, block, 0)

    yield "records to a block", lambda: encode_records(messages, compression), BLOCK_MESSAGES
    yield "blocks to records", records, BLOCKS * BLOCK_MESSAGES
    yield (
        "a table to blocks",
        lambda: list(arrow.encode_batch(table, compression, create_ms=_TIME_MS)),
        table.num_rows,
    )
    yield (
        "blocks to a table",
        lambda: arrow.decode_table("topic", 0, blocks, 0),
        BLOCKS * BLOCK_MESSAGES,
    )


def _cpu_s(call: Callable[[], object]) -> float:
    """CPU seconds of one call, the best of five, to exclude noise of other processes."""
    call()
    best = float("inf")
    for _ in range(5):
        begin = time.process_time()
        call()
        best = min(best, time.process_time() - begin)
    return best
