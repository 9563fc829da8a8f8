"""Two clients of one MetaStore for every case in this folder, on every adapter."""

import uuid
from collections.abc import AsyncIterator

import pytest
from tests.contract.openers import META_STORES, Place, Storage, params_of

from opentalos.ports.meta_store import MetaStore


@pytest.fixture(params=params_of(META_STORES))
async def storage(
    request: pytest.FixtureRequest, place: Place
) -> AsyncIterator[Storage[MetaStore]]:
    async with META_STORES[request.param](place) as opened:
        yield opened


@pytest.fixture
async def store(storage: Storage[MetaStore]) -> MetaStore:
    return await storage.client()


@pytest.fixture
async def other(storage: Storage[MetaStore]) -> MetaStore:
    """A second client of the same storage."""
    return await storage.client()


@pytest.fixture
def folder() -> str:
    """A folder that no other case uses."""
    return f"case-{uuid.uuid4().hex}"
