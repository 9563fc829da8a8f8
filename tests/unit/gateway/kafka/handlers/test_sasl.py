"""What clients send to prove who they are."""

from types import SimpleNamespace
from typing import cast

import pytest

from opentalos.gateway.kafka.call import ClientSession, KafkaCall
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.handlers.sasl import Exchange, authenticate
from opentalos.gateway.kafka.mechanisms import Step
from opentalos.model.settings.kafka import UNKNOWN_BYTES_MAX
from opentalos.wire.kafka.errors import ErrorCode


@pytest.mark.parametrize(("size", "read"), [(UNKNOWN_BYTES_MAX, 1), (UNKNOWN_BYTES_MAX + 1, 0)])
async def test_a_proof_is_as_small_after_authentication_as_before(size: int, read: int) -> None:
    steps: list[int] = []

    async def step(data: bytes) -> Step:
        steps.append(len(data))
        return Step(b"more")

    session = ClientSession(peer="", network="", private=True, authenticated=True)
    exchange = SimpleNamespace(mechanism=SimpleNamespace(step=step))
    session.state[Exchange] = cast(Exchange, exchange)
    request = SimpleNamespace(auth_bytes=bytes(size))
    call = cast(KafkaCall, SimpleNamespace(session=session, request=request))
    answer = await authenticate(cast(Services, None), call)
    refused = int(ErrorCode.SASL_AUTHENTICATION_FAILED)
    assert (len(steps), answer.error_code) == (read, 0 if read else refused)
    assert session.ends is not bool(read)
