"""HeapTrim: trims after growth, a few times, and not again until the process grows further."""

import asyncio

from opentalos.server.measuring.heap_trim import CHECK_S, GROWTH, TRIMS, HeapTrim, resident_bytes

MIB = 1 << 20


class Process:
    """A process whose freed memory stays resident until it is trimmed."""

    def __init__(self) -> None:
        self.used = self.kept = 100 * MIB
        self.trims = 0

    def resident(self) -> int:
        self.kept = max(self.kept, self.used)
        return self.kept

    def trim(self) -> None:
        self.trims += 1
        self.kept = self.used


async def checks(count: int) -> None:
    await asyncio.sleep(count * CHECK_S + 1)


async def test_a_burst_that_is_freed_later_is_returned_within_a_minute() -> None:
    process = Process()
    heap = HeapTrim(process.resident, process.trim)
    heap.start()
    process.used = 600 * MIB
    await checks(1)
    assert process.trims == 1
    await asyncio.sleep(CHECK_S * (TRIMS - 2))
    process.used = 100 * MIB
    await checks(1)
    assert process.kept == 100 * MIB
    heap.stop()


async def test_a_process_that_does_not_grow_is_not_trimmed_again() -> None:
    process = Process()
    heap = HeapTrim(process.resident, process.trim)
    heap.start()
    await checks(10)
    assert process.trims == 0
    process.used = int(100 * MIB * GROWTH) + 1
    await checks(100)
    assert process.trims == TRIMS
    heap.stop()
    process.used *= 2
    await checks(10)
    assert process.trims == TRIMS


def test_the_size_of_this_process_is_known() -> None:
    assert 10 * MIB < resident_bytes() < 1 << 40
