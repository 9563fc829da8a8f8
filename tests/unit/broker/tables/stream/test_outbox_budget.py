"""How much may wait for topics in all shards of a server together."""

import asyncio

import pytest

from opentalos.broker.tables.stream.outbox import Entry, Outbox
from opentalos.broker.tables.stream.outbox_budget import SUM_S, OutboxBudget
from opentalos.broker.tables.stream.pending_format import Pending
from opentalos.model.settings.tables import SdsLimits

ENTRIES = SdsLimits(pending_entries_max=90, server_pending_entries_max=100)
BYTES = SdsLimits(
    key_bytes_max=100,
    record_bytes_max=4_000,
    pending_bytes_max=9_000,
    server_pending_bytes_max=10_000,
)


def fill(outbox: Outbox, count: int, size: int = 10) -> None:
    for _ in range(count):
        number = outbox.entries
        pending = Pending(number, 1, 1, bytes(size - 8))
        outbox.add(Entry(b"key%d" % (number % 10), number.to_bytes(4), pending))


def room_of(limits: SdsLimits, *boxes: Outbox) -> OutboxBudget:
    return OutboxBudget(limits, lambda: boxes)


async def full(limits: SdsLimits, *boxes: Outbox) -> list[bool]:
    """Which of these shards are full, by a fresh sum."""
    room = room_of(limits, *boxes)
    return [bool(room.why_full(box)) for box in boxes]


async def test_a_single_shard_has_all_of_the_room() -> None:
    limits = SdsLimits(pending_entries_max=100, server_pending_entries_max=100)
    box = Outbox()
    fill(box, 99)
    assert await full(limits, box) == [False]
    fill(box, 1)
    assert await full(limits, box) == [True]


async def test_a_shard_is_full_by_itself() -> None:
    box, other = Outbox(), Outbox()
    fill(box, 90)
    assert await full(ENTRIES, box, other) == [True, False]
    assert "its topic is slower" in room_of(ENTRIES, box, other).why_full(box)


async def test_one_that_holds_much_does_not_stop_the_others() -> None:
    boxes = [Outbox() for _ in range(5)]  # 10 entries each are kept for each, 50 are shared
    fill(boxes[0], 59)
    assert await full(ENTRIES, *boxes) == [False] * 5
    fill(boxes[0], 1)
    assert await full(ENTRIES, *boxes) == [True, False, False, False, False]
    for box in boxes[1:]:
        fill(box, 9)
    assert await full(ENTRIES, *boxes) == [True, False, False, False, False]
    for box in boxes[1:]:
        fill(box, 1)
    assert sum(box.entries for box in boxes) == 100
    assert await full(ENTRIES, *boxes) == [True] * 5
    assert "this server" in room_of(ENTRIES, *boxes).why_full(boxes[1])


async def test_bytes_count_as_entries_do() -> None:
    boxes = [Outbox(), Outbox()]  # 2,500 bytes each, 5,000 shared
    fill(boxes[0], 7, 1_000)
    fill(boxes[1], 2, 1_000)
    assert await full(BYTES, *boxes) == [False, False]
    fill(boxes[0], 1, 1_000)
    assert await full(BYTES, *boxes) == [True, False]


async def test_sums_are_made_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    now_s = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now_s)
    boxes = [Outbox(), Outbox()]
    room = room_of(ENTRIES, *boxes)
    assert not room.why_full(boxes[0])
    fill(boxes[0], 80)
    assert not room.why_full(boxes[0])
    now_s += SUM_S
    assert room.why_full(boxes[0])


def test_a_shard_has_no_more_room_than_its_server() -> None:
    with pytest.raises(ValueError, match="server_pending_entries_max"):
        SdsLimits(pending_entries_max=10, server_pending_entries_max=9)
    with pytest.raises(ValueError, match="_bytes_max"):
        SdsLimits(server_pending_bytes_max=1 << 20)
