"""Many files that wait for their lease recovery cost one look."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.waiting import eventually_async, limit_s, stays_async

from opentalos.adapters.hdfs import endings
from opentalos.adapters.hdfs.endings import Endings, Length
from opentalos.model.errors import NotFound, StoreUnavailable


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "POLL_S", 0.001)


class Files:
    """The answer of each check, and the paths that it asked for."""

    def __init__(self) -> None:
        self.lengths: dict[str, Length] = {}
        self.asked: list[Sequence[str]] = []
        self.error: StoreUnavailable | None = None

    async def look(self, paths: Sequence[str]) -> Sequence[Length]:
        self.asked.append(list(paths))
        if self.error is not None:
            raise self.error
        return [self.lengths.get(path) for path in paths]


async def test_many_files_are_asked_for_together() -> None:
    files = Files()
    waiting = Endings(files.look)
    files.lengths = {str(number): number for number in range(10)}
    found = await asyncio.gather(
        *(waiting.length(path, wait_s=limit_s()) for path in files.lengths)
    )
    assert found == list(range(10))
    assert [len(paths) for paths in files.asked] == [10]


async def test_a_file_that_stays_open_is_reported_and_not_polled_again() -> None:
    files = Files()
    waiting = Endings(files.look)
    assert await waiting.length("open", wait_s=0.02) is None
    await eventually_async("the last check ends", lambda: waiting._task is None)
    looks = len(files.asked)
    await stays_async("nothing is checked", lambda: len(files.asked) == looks)
    files.lengths["open"] = 5  # a later call is served again
    assert await waiting.length("open", wait_s=limit_s()) == 5


async def test_one_missing_file_harms_no_other() -> None:
    files = Files()
    waiting = Endings(files.look)
    files.lengths = {"gone": NotFound("gone"), "there": 3}
    gone = asyncio.ensure_future(waiting.length("gone", wait_s=limit_s()))
    assert await waiting.length("there", wait_s=limit_s()) == 3
    with pytest.raises(NotFound):
        await gone


async def test_a_failed_check_is_reported_to_all_waiters() -> None:
    files = Files()
    files.error = StoreUnavailable("away")
    waiting = Endings(files.look)
    with pytest.raises(StoreUnavailable):
        await waiting.length("a", wait_s=limit_s())


async def test_close_wakes_all_waiters() -> None:
    waiting = Endings(Files().look)
    caller = asyncio.ensure_future(waiting.length("a", wait_s=limit_s()))
    await asyncio.sleep(0)
    await waiting.close()
    with pytest.raises(StoreUnavailable):
        await caller
