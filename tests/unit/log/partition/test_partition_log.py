"""Appends, reads and restarts of one partition on memory adapters."""

from tests.unit.log.bed import crash, open_bed, payloads, put


async def test_what_was_put_is_read_back_in_order() -> None:
    bed = await open_bed()
    log = bed.log()
    assert [await put(log, b"a"), await put(log, b"bc", 2), await put(log, b"d")] == [0, 1, 3]
    assert await payloads(log) == [b"a", b"bc", b"d"]
    assert await log.offsets() == (0, 4)
    await bed.store.close()


async def test_a_sealed_log_is_read_after_a_restart() -> None:
    bed = await open_bed()
    for number in range(10):
        await put(bed.log(), b"%d" % number)
    await bed.store.close()
    again = await open_bed(bed.storage)
    assert await payloads(again.log()) == [b"%d" % number for number in range(10)]
    assert await put(again.log(), b"next") == 10
    await again.store.close()


async def test_a_crashed_log_keeps_what_was_acknowledged() -> None:
    bed = await open_bed()
    for number in range(10):
        await put(bed.log(), b"%d" % number)
    await crash(bed)
    again = await open_bed(bed.storage)
    assert await payloads(again.log()) == [b"%d" % number for number in range(10)]
    assert await put(again.log(), b"next") == 10
    await again.store.close()
