import asyncio

import pytest
from tests.unit.broker.support import world
from tests.unit.catalog.support import ALICE

from opentalos.adapters.memory import MemoryMetaStore
from opentalos.model.errors import NewerFormat
from opentalos.wire.record_crc import CRC_BYTES, with_crc


async def test_a_record_of_a_newer_version_stops_the_start_and_leaves_nothing_running() -> None:
    async with world() as w:
        await w.topic(ALICE)
        meta = MemoryMetaStore(w.storage)
        record = await meta.get("topics/alice/t")
        assert record is not None
        plain = record.value[: -CRC_BYTES - 1] + b"}"
        newer = with_crc(plain.replace(b'"version":1', b'"version":7'))
        await w.broker.close()
        await meta.replace("topics/alice/t", newer, record.version)
        running = asyncio.all_tasks()
        with pytest.raises(NewerFormat, match="record topics/alice/t: topic record has format 7"):
            await w.restart()
        assert asyncio.all_tasks() == running


async def test_closing_twice_is_harmless() -> None:
    async with world() as w:
        await w.broker.close()
        running = asyncio.all_tasks()
        await w.broker.close()
        assert asyncio.all_tasks() == running
