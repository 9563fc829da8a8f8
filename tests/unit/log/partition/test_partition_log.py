"""Appends, reads and restarts of one partition on memory adapters."""

import asyncio

from tests.unit.log.bed import Answers, block, crash, open_bed, payloads, put

from opentalos.model.message import ProducerStamp, StoredBefore


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


async def test_a_duplicate_is_told_from_the_first_put_also_in_compiled_code() -> None:
    bed = await open_bed()
    answers, stamped = Answers(), block(b"one", producer=ProducerStamp(1, 0, 0))
    bed.log().append(stamped, answers)
    bed.log().append(stamped, answers)  # of the same group
    async with asyncio.timeout(5):
        assert await put(bed.log(), b"other") == 1
        bed.log().append(stamped, answers)  # of a later one
        assert await put(bed.log(), b"more") == 2
    assert answers.bases == [0, 0, 0]
    assert [type(base) is StoredBefore for base in answers.bases] == [False, True, True]
    await bed.store.close()
