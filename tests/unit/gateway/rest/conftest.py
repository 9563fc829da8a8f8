"""A REST gateway for each test of this folder."""

from collections.abc import AsyncIterator

import pytest
from tests.unit.gateway.rest.support import Rest, rest


@pytest.fixture
async def call() -> AsyncIterator[Rest]:
    async with rest() as client:
        yield client
