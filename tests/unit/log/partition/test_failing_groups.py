"""Groups that always fail: bounded attempts, the poisonous block alone is refused."""

import asyncio
import errno
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.unit.log.bed import Answers, Bed, block, open_bed, payloads, put, until
from tests.waiting import eventually_async, within_limit

from opentalos.adapters.local import LocalFaults, LocalFileStore
from opentalos.adapters.memory import MemoryAppendFile, MemoryFileStore, MemoryStorage
from opentalos.model.errors import (
    BadRequest,
    OutcomeUnknown,
    PartitionNotServing,
    StorageFull,
    TalosError,
)
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability, ProducerStamp

LIMITS = LogLimits(space_reserve_bytes=0)


@pytest.fixture(autouse=True)
def short_delays() -> None:
    """The real delays, in virtual time."""


Poison = Callable[[bytes], Exception | None]  # what a commit of these bytes raises


class PoisonedFile:
    """AppendFile whose outcome depends on what is written, not on luck."""

    thin = False

    def __init__(self, inner: MemoryAppendFile, poison: Poison) -> None:
        self.inner, self.poison = inner, poison

    async def commit(
        self, chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
    ) -> int:
        await asyncio.sleep(0)
        error = self.poison(b"".join(chunks))
        if error is not None:
            raise error
        return await self.inner.commit(chunks, durability=durability)

    async def close(self) -> int:
        return await self.inner.close()


class PoisonedFiles(MemoryFileStore):
    def __init__(self, storage: MemoryStorage, poison: Poison) -> None:
        super().__init__(storage)
        self.poison = poison

    async def create(  # type: ignore[override]
        self, path: str, *, durability: Durability
    ) -> PoisonedFile:
        return PoisonedFile(await super().create(path, durability=durability), self.poison)


async def poisoned_bed(poison: Poison, limits: LogLimits = LIMITS) -> Bed:
    storage = MemoryStorage()
    bed = await open_bed(storage, files=PoisonedFiles(storage, poison), limits=limits)
    await put(bed.log(), b"first")
    return bed


async def one_group(bed: Bed, *contents: bytes) -> list[Answers]:
    """Queue blocks together, so that one group takes them."""
    answers = [Answers() for _ in contents]
    for content, answer in zip(contents, answers, strict=True):
        bed.log().append(block(content), answer)
    async with within_limit("the blocks are answered"):
        await until(lambda: all(answer.got for answer in answers))
    return answers


@pytest.mark.parametrize("raised", [OutcomeUnknown("EIO"), StorageFull("EFBIG"), OSError("odd")])
async def test_a_poisonous_block_is_refused_and_its_neighbours_are_stored(
    raised: Exception,
) -> None:
    bed = await poisoned_bed(lambda content: raised if b"poison" in content else None)
    before, poisoned, after = await one_group(bed, b"before", b"poison", b"after")
    assert (before.bases, after.bases) == ([1], [2])
    (refused,) = poisoned.errors
    assert isinstance(refused, StorageFull | PartitionNotServing)
    assert str(raised) in str(refused)
    assert await payloads(bed.log()) == [b"first", b"before", b"after"]
    assert bed.store.counters.isolated == 1
    assert bed.store.counters.openings <= 6
    await bed.store.close()


async def test_poisonous_blocks_in_a_row_refuse_no_other() -> None:
    """Nothing is stored between them, so no success tells that the store works."""
    bed = await poisoned_bed(
        lambda content: OutcomeUnknown("EIO") if b"poison" in content else None
    )
    for _ in range(3):
        (refused,) = await one_group(bed, b"poison")
        assert len(refused.errors) == 1
    poisoned, after = await one_group(bed, b"poison", b"after")
    assert len(poisoned.errors) == 1
    assert after.bases == [1]
    assert bed.store.counters.isolated == 4
    assert await payloads(bed.log()) == [b"first", b"after"]
    await bed.store.close()


async def test_a_block_that_cannot_be_encoded_needs_no_opening() -> None:
    bed = await poisoned_bed(lambda _: None)
    odd = block(b"odd", producer=ProducerStamp(1, 0, 0))
    odd = odd._replace(compression=1.5)  # type: ignore[arg-type]
    before, refused, after = Answers(), Answers(), Answers()
    bed.log().append(block(b"before"), before)
    bed.log().append(odd, refused)
    bed.log().append(block(b"after", producer=ProducerStamp(1, 0, 0)), after)
    await until(lambda: bool(after.got and refused.got))
    assert (before.bases, after.bases) == ([1], [2])
    assert [type(error) for error in refused.errors] == [BadRequest]
    assert "cannot be stored" in str(refused.errors[0])
    assert bed.store.counters.openings == 1
    assert await payloads(bed.log()) == [b"first", b"before", b"after"]
    await bed.store.close()


async def test_a_store_that_always_fails_answers_everyone_with_few_openings() -> None:
    broken = False
    bed = await poisoned_bed(
        lambda content: OutcomeUnknown("EIO") if broken and b"put" in content else None
    )
    broken, openings = True, bed.store.counters.openings
    answers = await one_group(bed, *(b"put %d" % number for number in range(20)))
    errors = [error for answer in answers for error in answer.errors]
    assert len(errors) == 20
    assert all(isinstance(error, PartitionNotServing) for error in errors)
    assert all("EIO" in str(error) for error in errors)
    assert bed.store.counters.openings - openings <= LIMITS.reopen_attempts_max + 1
    # Refused at once from now on, but for one attempt after each pause.
    refused: list[TalosError] = []
    tried = 0
    for _ in range(600):
        answer = Answers()
        try:
            bed.log().append(block(b"put"), answer)
            tried += 1
        except PartitionNotServing as error:
            refused.append(error)
        await asyncio.sleep(0.1)
    assert "EIO" in str(refused[0])
    assert 5 <= tried <= 200
    assert bed.store.counters.openings - openings <= 40
    broken = False
    await asyncio.sleep(10)
    assert await put(bed.log(), b"put at last") == 1
    assert await payloads(bed.log()) == [b"first", b"put at last"]
    await bed.store.close()


async def test_the_deadline_holds_for_those_that_came_later() -> None:
    """Each failing attempt takes long, so the number of attempts does not end it."""
    limits = LogLimits(space_reserve_bytes=0, recover_deadline_s=3.0, reopen_attempts_max=1_000)
    broken = False

    def poison(content: bytes) -> Exception | None:
        return OutcomeUnknown("EIO") if broken and b"put" in content else None

    bed = await poisoned_bed(poison, limits)
    broken = True
    loop, waited_s = asyncio.get_running_loop(), []

    def waiter() -> Callable[[int, TalosError | None], None]:
        began_s = loop.time()
        return lambda _base, _error: waited_s.append(loop.time() - began_s)

    sent = 0
    for _ in range(100):
        try:
            bed.log().append(block(b"put"), waiter())
            sent += 1
        except PartitionNotServing:
            pass
        await asyncio.sleep(0.1)
    await asyncio.sleep(5)
    assert len(waited_s) == sent > 10
    assert max(waited_s) < 4.5
    await bed.store.close()


async def test_a_failure_long_ago_does_not_count() -> None:
    """A put that fails once is tried again although others were given up an hour before."""
    broken = False
    bed = await poisoned_bed(
        lambda content: OutcomeUnknown("EIO") if broken and b"put" in content else None
    )
    broken = True
    await one_group(bed, b"put")
    await asyncio.sleep(3_600)
    answer = Answers()
    bed.log().append(block(b"put"), answer)
    await until(lambda: bed.store.counters.commit_failures > 3)
    broken = False
    await until(lambda: bool(answer.got))
    assert answer.bases == [1]
    await bed.store.close()


@pytest.mark.real_time  # the store has threads
@pytest.mark.parametrize("number", [errno.EFBIG, errno.EDQUOT, errno.EIO])
async def test_a_disk_that_refuses_one_topic_ends_in_answers(tmp_path: Path, number: int) -> None:
    faults = LocalFaults()
    files = LocalFileStore(tmp_path, faults=faults)
    limits = LogLimits(space_reserve_bytes=0, reopen_attempts_max=4)
    bed = await open_bed(files=files, limits=limits)
    await put(bed.log(), b"first")
    openings = bed.store.counters.openings
    faults.error_number, faults.error_prefix, faults.partial_bytes = number, "topic-uuid/0", 100
    answers = await one_group(bed, b"a", b"b")
    assert all(answer.errors for answer in answers)
    assert bed.store.counters.openings - openings <= limits.reopen_attempts_max + 1
    faults.error_prefix = None
    await bed.store.upkeep.measure_space()
    await eventually_async("the log is at rest", lambda: not bed.log().writer.busy())
    await bed.store.close()
    assert len(await files.list("")) <= 8
    await files.close()
