"""Repeated puts under a key: the first answer, and what is forgotten."""

import asyncio

import pytest

from opentalos.broker.messaging import keyed_puts
from opentalos.broker.messaging.keyed_puts import WINDOW_S, KeyedPuts, KeyReused, PutKey, Stored
from opentalos.model.errors import OutcomeUnknown, StorageFull, TalosError
from opentalos.model.identity import Principal

EVE, BOB = Principal(id="eve", number=1), Principal(id="bob", number=2)
KEY = PutKey("k", b"request")


class Puts:
    """Puts that end as the test says, and how many there were."""

    def __init__(self, *outcomes: Stored | Exception) -> None:
        self._outcomes = list(outcomes)
        self.count = 0

    async def __call__(self) -> Stored:
        self.count += 1
        outcome = self._outcomes.pop(0)
        await asyncio.sleep(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


FIRST, SECOND = Stored(0, 5, 1), Stored(0, 9, 1)


async def test_a_repeat_gets_the_first_answer_also_while_it_is_under_way() -> None:
    keyed, put = KeyedPuts(), Puts(FIRST)
    calls = [keyed.once(EVE, "r", KEY, put) for _ in range(3)]
    assert await asyncio.gather(*calls) == [FIRST] * 3
    assert put.count == 1


async def test_another_request_is_refused_and_another_caller_or_topic_is_not() -> None:
    keyed, put = KeyedPuts(), Puts(FIRST, SECOND, SECOND)
    await keyed.once(EVE, "r", KEY, put)
    with pytest.raises(KeyReused):
        await keyed.once(EVE, "r", PutKey("k", b"another"), put)
    assert await keyed.once(BOB, "r", KEY, put) == SECOND
    assert await keyed.once(EVE, "r2", KEY, put) == SECOND


@pytest.mark.parametrize("error", [StorageFull("no"), OutcomeUnknown("perhaps")])
async def test_what_did_not_end_well_goes_to_the_log_again(error: TalosError) -> None:
    keyed, put = KeyedPuts(), Puts(error, FIRST)
    first, second = keyed.once(EVE, "r", KEY, put), keyed.once(EVE, "r", KEY, put)
    outcomes = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(error)] * 2
    assert len(keyed) == 0
    assert await keyed.once(EVE, "r", KEY, put) == FIRST


async def test_a_call_that_broke_off_leaves_its_repeats_with_an_unknown_outcome() -> None:
    keyed, started = KeyedPuts(), asyncio.Event()

    async def hang() -> Stored:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    first = asyncio.create_task(keyed.once(EVE, "r", KEY, hang))
    await started.wait()
    second = asyncio.create_task(keyed.once(EVE, "r", KEY, hang))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(OutcomeUnknown):
        await second
    assert len(keyed) == 0


async def test_answers_are_kept_for_the_window_and_within_the_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keyed_puts, "KEYS_MAX", 3)
    keyed = KeyedPuts()
    for number in range(5):
        await keyed.once(EVE, "r", PutKey(str(number), b""), Puts(FIRST))
    assert len(keyed) == 3
    keyed._forget_old(asyncio.get_running_loop().time() + WINDOW_S)
    assert len(keyed) == 0
    assert keyed._of_caller == {}


def test_stamps_differ_by_caller_topic_key_and_request() -> None:
    stamps = {
        key.stamp(caller, resource)
        for caller in (EVE, BOB)
        for resource in ("r", "r2")
        for key in (KEY, PutKey("k2", b"request"), PutKey("k", b"another"))
    }
    assert len(stamps) == 12
    assert KEY.stamp(EVE, "r") in stamps
    assert all(0 < stamp.producer_id < 1 << 63 for stamp in stamps)
