"""How a consumer ends, over a group without sockets: by errors, by close."""

import asyncio

import pytest
from tests.unit.sdk.aio.consumer.test_talos_consumer import consumer, scenario
from tests.unit.sdk.fake_group import FakeGroup

from opentalos.model.errors import PermissionDenied
from opentalos.sdk.core.values import Record
from opentalos.sdk.errors import ClientClosed


@scenario
async def test_an_error_of_a_callback_ends_the_consumer_and_repeats_its_batch(
    group: FakeGroup,
) -> None:
    group.put(0, 4, size=100)
    group.put(0, 4, size=100)
    source = consumer(group, fetch_bytes=100)

    async def process(records: list[Record]) -> None:
        if records[0].offset:
            raise ValueError("cannot be processed")

    with pytest.raises(ValueError, match="cannot be processed"):
        await source.run(process)
    assert group.checkpoints == {0: 3}
    assert group.owners == {}
    assert [item async for item in source] == []
    async with consumer(group) as again:
        assert (await anext(again)).offset == 4


@scenario
async def test_close_ends_a_loop_elsewhere(group: FakeGroup) -> None:
    source = consumer(group)
    seen: list[Record] = []

    async def read() -> None:
        seen.extend([record async for record in source])

    reading = asyncio.create_task(read())
    group.put(0, 3)
    await asyncio.sleep(1)
    await source.close()
    await reading
    assert len(seen) == 3
    assert group.checkpoints == {0: 2}, "the fourth was asked for"
    assert await source.poll(1.0) == []
    with pytest.raises(ClientClosed):
        await source.commit()
    with pytest.raises(ClientClosed):
        await source.start()
    await source.close()


@scenario
async def test_a_permanent_refusal_reaches_the_application(group: FakeGroup) -> None:
    source = consumer(group)
    group.down = PermissionDenied("no")
    with pytest.raises(PermissionDenied):
        await anext(source)
    group.down = None
    group.put(0, 1)
    assert (await anext(source)).offset == 0
    group.down = PermissionDenied("not any more")
    with pytest.raises(PermissionDenied, match="not any more"):
        await anext(source)
    await source.close()
