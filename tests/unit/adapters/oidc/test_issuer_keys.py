"""When the issuer's keys are fetched, and how long they count."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.adapters.oidc.issuer import Issuer, settings
from tests.unit.catalog.support import MovableTime

from opentalos.adapters.oidc.issuer_keys import IssuerKeys
from opentalos.model.errors import StoreUnavailable


class Fetches:
    """Counts fetches; fails while ``failing``."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer, self.count, self.failing = issuer, 0, False

    async def __call__(self) -> Mapping[str, Any]:
        self.count += 1
        await asyncio.sleep(0)
        if self.failing:
            raise StoreUnavailable("the issuer is away")
        return self.issuer.key_set()


@pytest.fixture(scope="module")
def two_keys() -> Issuer:
    issuer = Issuer()
    issuer.add("one", "ES256")
    issuer.add("two", "ES256")
    return issuer


@pytest.fixture
def issuer(two_keys: Issuer) -> Issuer:
    return Issuer(keys=dict(two_keys.keys), algorithms=dict(two_keys.algorithms))


async def test_calls_that_need_a_key_at_once_share_one_fetch(issuer: Issuer) -> None:
    fetches = Fetches(issuer)
    keys = IssuerKeys(settings(), fetches)
    await asyncio.gather(*(keys.ready("one") for _ in range(50)))
    assert (fetches.count, keys.get("one") is not None) == (1, True)
    await keys.ready("two")
    assert fetches.count == 1


async def test_made_up_key_ids_cause_one_fetch_per_interval(issuer: Issuer) -> None:
    fetches, time = Fetches(issuer), MovableTime(asyncio.get_running_loop())
    keys = IssuerKeys(settings(fetch_interval_s=10), fetches)
    for index in range(100):
        await keys.ready(f"made-up-{index}")
    assert fetches.count == 1
    time.advance(11)
    for index in range(100):
        await keys.ready(f"made-up-{index}")
    assert (fetches.count, keys.get("made-up-1")) == (2, None)


async def test_a_new_key_of_the_issuer_is_found_by_its_first_token(issuer: Issuer) -> None:
    fetches, time = Fetches(issuer), MovableTime(asyncio.get_running_loop())
    keys = IssuerKeys(settings(), fetches)
    await keys.ready("one")
    issuer.add("three", "ES256")
    time.advance(11)
    await keys.ready("three")
    assert keys.get("three") is not None


async def test_a_removed_key_ends_with_the_next_refresh(issuer: Issuer) -> None:
    fetches, time = Fetches(issuer), MovableTime(asyncio.get_running_loop())
    keys = IssuerKeys(settings(refresh_interval_s=300), fetches)
    await keys.ready("one")
    version = keys.version
    del issuer.keys["one"]
    time.advance(301)
    await keys.ready("one")  # it does not wait for the refresh that it starts
    assert keys.get("one") is not None
    for _ in range(5):
        await asyncio.sleep(0)
    assert keys.get("one") is None
    assert keys.version != version


async def test_while_the_issuer_is_away_its_keys_stay_for_a_time(issuer: Issuer) -> None:
    fetches, time = Fetches(issuer), MovableTime(asyncio.get_running_loop())
    keys = IssuerKeys(settings(keys_age_max_s=1_000), fetches)
    await keys.ready("one")
    fetches.failing = True
    time.advance(900)
    await keys.ready("one")
    assert keys.get("one") is not None
    time.advance(101)
    with pytest.raises(StoreUnavailable):
        await keys.ready("one")
    assert keys.get("one") is None


async def test_fetches_back_off_while_the_issuer_fails(issuer: Issuer) -> None:
    fetches, time = Fetches(issuer), MovableTime(asyncio.get_running_loop())
    fetches.failing = True
    keys = IssuerKeys(settings(fetch_interval_s=10), fetches)
    for _ in range(200):
        with pytest.raises(StoreUnavailable):
            await keys.ready("one")
        time.advance(5)
    assert 4 <= fetches.count <= 8
    fetches.failing = False
    time.advance(400)
    await keys.ready("one")
    assert keys.get("one") is not None


@pytest.mark.parametrize(
    "document", [{}, {"keys": 5}, {"keys": [5, {}, {"kty": "oct", "k": "AA"}]}]
)
async def test_a_set_without_usable_keys_has_none(document: Mapping[str, Any]) -> None:
    async def fetch() -> Mapping[str, Any]:
        return document

    keys = IssuerKeys(settings(), fetch)
    try:
        await keys.ready("")
    except StoreUnavailable:
        pass
    assert keys.get("") is None


async def test_a_token_without_a_key_id_means_the_only_key(issuer: Issuer) -> None:
    keys = IssuerKeys(settings(), Fetches(issuer))
    await keys.ready("one")
    assert keys.get("") is None
    del issuer.keys["two"]
    keys = IssuerKeys(settings(), Fetches(issuer))
    await keys.ready("")
    assert keys.get("") is not None
