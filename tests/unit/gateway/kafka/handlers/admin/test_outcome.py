import asyncio

import pytest
from tests.unit.catalog.support import MovableTime

from opentalos.gateway.kafka.handlers.admin.outcome import Refused, Turns
from opentalos.wire.kafka.errors import ErrorCode


async def test_items_begin_within_the_timeout_and_the_first_one_always() -> None:
    time = MovableTime(asyncio.get_running_loop())
    turns, patient = Turns(5_000), Turns()
    time.advance(6)
    await turns.take()
    with pytest.raises(Refused) as refused:
        await turns.take()
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
    await patient.take()
    await patient.take()
