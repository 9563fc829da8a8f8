"""Rot at the end of a log is refused; what a crash leaves is cut, counted and logged."""

import random
from dataclasses import replace

import pytest
from tests.unit.log.bed import TOPIC, Bed, crash, open_bed, payloads, put

from opentalos.log.results import TopicLogSettings
from opentalos.log.segment.format import BLOCK_HEADER_BYTES
from opentalos.model.errors import CorruptLog
from opentalos.model.message import Durability

FLUSHED = replace(TOPIC, durability=Durability.FLUSHED)
PAYLOADS = {
    "zeros": bytes(1_200),
    "text": b"plain text of a producer" * 50,
    "random": random.Random(8).randbytes(1_200),
}


async def crashed_log(settings: TopicLogSettings, payload: bytes, count: int) -> tuple[Bed, str]:
    bed = await open_bed()
    for number in range(count):
        await put(bed.store.partition(settings, 0), b"%04d" % number + payload)
    await crash(bed)
    (path,) = [path for path in bed.storage.files if path.endswith(".log")]
    return bed, path


@pytest.mark.parametrize("kind", PAYLOADS)
@pytest.mark.parametrize("settings", [TOPIC, FLUSHED])
async def test_one_flipped_bit_cuts_no_acknowledged_message(
    settings: TopicLogSettings, kind: str
) -> None:
    bed, path = await crashed_log(settings, PAYLOADS[kind], 200)
    content = bed.storage.files[path].content
    at = content.index(b"0003" + PAYLOADS[kind][:8]) + 600
    content[at] ^= 1
    again = await open_bed(bed.storage)
    with pytest.raises(CorruptLog, match=rf"{path} position .* offset 3:"):
        await put(again.store.partition(settings, 0), b"x")
    counters = again.store.counters
    assert (counters.corrupt, counters.truncated, counters.tails_cut) == (1, 0, 0)
    await again.store.close()


@pytest.mark.parametrize("kind", PAYLOADS)
@pytest.mark.parametrize("settings", [TOPIC, FLUSHED])
async def test_rot_in_the_last_acknowledged_group_is_not_cut(
    settings: TopicLogSettings, kind: str
) -> None:
    bed, path = await crashed_log(settings, PAYLOADS[kind], 5)
    content = bed.storage.files[path].content
    last = len(content) - len(PAYLOADS[kind]) - 4 - BLOCK_HEADER_BYTES
    for at in (last, last + 5, last + 30, last + BLOCK_HEADER_BYTES, len(content) - 1):
        content[at] ^= 0x10
        again = await open_bed(bed.storage)
        with pytest.raises(CorruptLog, match=r"offset 4: .*perhaps this block"):
            await put(again.store.partition(settings, 0), b"x")
        assert again.store.counters.tails_cut == 0
        await again.store.close()
        content[at] ^= 0x10


@pytest.mark.parametrize("settings", [TOPIC, FLUSHED])
async def test_a_torn_group_is_cut_counted_and_logged(
    settings: TopicLogSettings, caplog: pytest.LogCaptureFixture
) -> None:
    bed, path = await crashed_log(settings, PAYLOADS["text"], 5)
    del bed.storage.files[path].content[-700:]
    again = await open_bed(bed.storage)
    log = again.store.partition(settings, 0)
    assert len(await payloads(log)) == 4
    assert again.store.counters.tails_cut == 1
    (line,) = [each for each in caplog.messages if "log-tail-cut" in each]
    assert path in line
    assert "offset 4" in line
    await again.store.close()
    assert await _cuts_of_a_further_start(again) == 0


async def _cuts_of_a_further_start(bed: Bed) -> int:
    third = await open_bed(bed.storage)
    await payloads(third.log())
    await third.store.close()
    return third.store.counters.tails_cut


async def test_lost_pages_of_the_group_in_flight_are_cut_from_a_synced_log() -> None:
    bed, path = await crashed_log(TOPIC, PAYLOADS["text"], 5)
    content = bed.storage.files[path].content
    page = (len(content) - 700) // 512 * 512
    content[page : page + 512] = bytes(512)
    again = await open_bed(bed.storage)
    assert len(await payloads(again.log())) == 4
    assert await put(again.log(), b"more") == 4
    await again.store.close()


async def test_a_flipped_bit_in_a_header_cuts_nothing_although_a_payload_has_zeros() -> None:
    flushed = replace(TOPIC, topic_uuid="f", durability=Durability.FLUSHED)
    bed = await open_bed()
    for _ in range(20):
        await put(bed.store.partition(flushed, 0), bytes(1_000))
    await crash(bed)
    bed.storage.files["f/0/00000000000000000000-1.log"].content[20] ^= 1
    again = await open_bed(bed.storage)
    with pytest.raises(CorruptLog):
        await put(again.store.partition(flushed, 0), b"next")
    assert again.store.counters.truncated == 0
    await crash(again)
