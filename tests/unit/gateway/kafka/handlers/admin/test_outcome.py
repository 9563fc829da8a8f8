import asyncio
from types import SimpleNamespace
from typing import cast

import pytest
from tests.unit.catalog.support import MovableTime

from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.handlers.admin.outcome import Refused, Turns
from opentalos.wire.kafka.errors import ErrorCode


async def no_pause(_items: int) -> None: ...


async def test_items_begin_within_the_timeout_and_the_first_one_always() -> None:
    time = MovableTime(asyncio.get_running_loop())
    call = cast(KafkaCall, SimpleNamespace(piece=no_pause))
    turns, patient = Turns(call, 5_000), Turns(call)
    time.advance(6)
    await turns.take()
    with pytest.raises(Refused) as refused:
        await turns.take()
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
    await patient.take()
    await patient.take()
