"""A partition whose storage hangs: puts are answered in time, a hung commit costs a new file."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.unit.log.bed import Answers, Bed, block, open_bed, payloads, put, until
from tests.unit.log.faults import FaultyFiles, Steps
from tests.waiting import eventually_async, scale

from opentalos.adapters.local import LocalFaults, LocalFileStore
from opentalos.adapters.memory import MemoryStorage
from opentalos.log.partition.jobs import seal
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.results import TopicLogSettings
from opentalos.model.errors import OutcomeUnknown, PartitionNotServing, TalosError
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability
from opentalos.testing.simulation.loop import SimulationLoop

LIMITS = LogLimits(space_reserve_bytes=0, close_s=0.05)
Which = Callable[[str, str, bool], bool]  # name and path of a call, whether after its effect


@pytest.fixture(autouse=True)
def short_delays() -> None:
    """The real delays, in virtual time."""


class Hanging(Steps):
    """Holds the calls that ``which`` names until it is released; commits take ``commit_s``."""

    def __init__(self) -> None:
        super().__init__()
        self.which: Which = lambda _name, _path, _after: False
        self.released = asyncio.Event()
        self.commit_s = 0.0

    async def step(self, name: str, path: str, after: bool) -> None:
        if self.which(name, path, after):
            await self.released.wait()
        if name == "commit" and after and self.commit_s:
            await asyncio.sleep(self.commit_s)


async def hanging_bed(limits: LogLimits = LIMITS) -> tuple[Bed, Hanging]:
    storage, steps = MemoryStorage(), Hanging()
    bed = await open_bed(storage, files=FaultyFiles(storage, steps), limits=limits)
    return bed, steps


class Timed(Answers):
    """Answers with the time that the caller of each waited."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_s: list[float] = []

    def append(self, log: PartitionLog, payload: bytes) -> bool:
        """Put; False: refused at once."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()

        def waiter(base: int, error: TalosError | None) -> None:
            self.waited_s.append(loop.time() - began_s)
            self(base, error)

        try:
            log.append(block(payload), waiter)
        except PartitionNotServing:
            return False
        return True


@pytest.mark.parametrize("after", [False, True])
async def test_a_commit_that_hangs_moves_its_partition_to_a_fresh_file(after: bool) -> None:
    bed, steps = await hanging_bed()
    log, answers = bed.log(), Timed()
    await put(log, b"first")
    steps.which = lambda name, path, late: (name, late) == ("commit", after) and "-1.log" in path
    assert answers.append(log, b"hung")
    await asyncio.sleep(0)
    assert answers.append(log, b"queued")
    await until(lambda: len(answers.got) == 2)
    assert answers.bases == [1, 2]
    assert 1.0 <= max(answers.waited_s) < 1.6
    assert bed.store.counters.hung_commits == 1
    steps.released.set()  # the late result changes nothing
    await asyncio.sleep(1)
    assert await put(log, b"later") == 3
    assert await payloads(log) == [b"first", b"hung", b"queued", b"later"]
    assert not bed.store._context.shares.of_topic("topic-uuid").given_up
    await bed.store.close()


@pytest.mark.parametrize("call", ["commit", "recover", "create", "list"])
async def test_every_put_is_answered_within_the_deadline_while_storage_hangs(call: str) -> None:
    bed, steps = await hanging_bed()
    log, answers = bed.log(), Timed()
    await put(log, b"first")
    steps.which = lambda name, _path, after: name in (call, "commit") and not after
    sent = refused = 0
    for number in range(400):
        accepted = answers.append(log, b"%d" % number)
        sent += accepted
        refused += not accepted
        await asyncio.sleep(0.1)
    await until(lambda: len(answers.got) == sent)
    assert max(answers.waited_s) <= LIMITS.commit_deadline_s
    assert {type(error) for error in answers.errors} <= {OutcomeUnknown, PartitionNotServing}
    # Once the file is fenced, what it does not hold was not done.
    unknown = sum(isinstance(error, OutcomeUnknown) for error in answers.errors)
    assert unknown == (call in ("recover", "list"))
    assert refused > 250
    assert bed.store._context.pending_bytes == 0
    assert bed.store.counters.openings <= 3
    steps.which = lambda _name, _path, _after: False
    steps.released.set()
    await asyncio.sleep(10)
    await put(log, b"later")
    found = await payloads(log)
    assert found[0] == b"first"
    assert found[-1] == b"later"
    assert len(found) <= 3  # and the one whose outcome was unknown
    await bed.store.close()


@pytest.mark.parametrize("call", ["commit", "close"])
async def test_a_seal_whose_commit_hangs_moves_to_a_fresh_file(call: str) -> None:
    """``close`` hangs: a job's commit is a roll, which closes the old file."""
    small = replace(LIMITS, segment_bytes_max=1_024 if call == "close" else 1 << 20)
    bed, steps = await hanging_bed(small)
    log, answers = bed.log(), Timed()
    first = b"first" * 250
    await put(log, first)
    steps.which = lambda name, path, after: (name, after) == (call, False) and "-1.log" in path
    sealing = asyncio.ensure_future(log.writer.run(lambda: seal(log.writer)))
    await asyncio.sleep(0)
    for payload in (b"hung", b"queued"):
        assert answers.append(log, payload)
    await until(lambda: len(answers.got) == 2)
    assert answers.bases == [1, 2]
    assert max(answers.waited_s) < 1.6
    await sealing
    assert log.writer.segment is None
    steps.released.set()
    await asyncio.sleep(1)
    assert await put(log, b"later") == 3
    assert await payloads(log) == [first, b"hung", b"queued", b"later"]
    await bed.store.close()


@pytest.mark.parametrize("handing_over", [False, True])
@pytest.mark.parametrize("after", [False, True])
async def test_a_seal_whose_close_hangs_keeps_no_put_until_the_storage_answers(
    handing_over: bool, after: bool
) -> None:
    """What is only flushed is closed before a hand-over too."""
    bed, steps = await hanging_bed()
    flushed = TopicLogSettings("t", Durability.FLUSHED, 86_400.0)
    log, answers = bed.store.partition(flushed, 0), Timed()
    await put(log, b"first")
    steps.which = lambda name, path, late: (name, late) == ("close", after) and "-1.log" in path
    sealing = asyncio.ensure_future(
        log.writer.run(lambda: seal(log.writer, handing_over=handing_over))
    )
    await asyncio.sleep(0.1)
    for payload in (b"second", b"third"):
        assert answers.append(log, payload)
    await until(lambda: len(answers.got) == 2)
    assert answers.bases == [1, 2]
    assert max(answers.waited_s) < LIMITS.commit_deadline_s
    with pytest.raises(OutcomeUnknown):
        await sealing
    steps.released.set()
    await asyncio.sleep(1)
    assert await payloads(log) == [b"first", b"second", b"third"]
    await bed.store.close()


async def test_a_close_that_hangs_after_a_hand_off_ends_in_the_background() -> None:
    """It has one of a bounded number of places; what it leaves open the next owner recovers."""
    bed, steps = await hanging_bed()
    log = bed.log()
    await put(log, b"first")
    steps.which = lambda name, path, late: name == "close" and "-1.log" in path
    await log.writer.run(lambda: seal(log.writer, handing_over=True))
    background = bed.store._context.background
    await asyncio.wait_for(background.drain(), LIMITS.recover_deadline_s + 5)
    assert await put(log, b"second") == 1
    assert await payloads(log) == [b"first", b"second"]
    await bed.store.close()


async def test_a_store_that_is_only_slow_does_not_thrash() -> None:
    bed, steps = await hanging_bed()
    await put(bed.log(), b"first")
    openings = bed.store.counters.openings
    steps.commit_s = 1.7
    for number in range(50):
        assert await put(bed.log(), b"%d" % number) == number + 1
    assert bed.store.counters.hung_commits <= 2
    assert bed.store.counters.openings - openings <= 3
    await bed.store.close()


async def test_commits_that_take_seconds_on_each_file_succeed_within_the_deadline() -> None:
    """The fresh file is slow as well: its first commit says so, and it is kept."""
    bed, steps = await hanging_bed()
    log, answers = bed.log(), Timed()
    await put(log, b"first")
    steps.commit_s = 3.0
    for _ in range(30):
        assert answers.append(log, b"slow")
        await asyncio.sleep(0.5)
    await until(lambda: len(answers.got) == 30)
    assert not answers.errors
    assert max(answers.waited_s) < LIMITS.commit_deadline_s
    assert bed.store.counters.hung_commits == 1
    await bed.store.close()


async def test_a_hung_commit_is_waited_for_while_coordination_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing can be opened then, so giving it up would only lose what it still may store."""
    bed, steps = await hanging_bed()
    await put(bed.log(), b"first")
    steady = False
    monkeypatch.setattr(bed.store._context.guard, "steady", lambda: steady, raising=False)
    steps.commit_s = 4.0
    assert await put(bed.log(), b"slow") == 1
    assert bed.store.counters.hung_commits == 0
    steady = True
    assert await put(bed.log(), b"slow") == 2
    await bed.store.close()


async def test_time_in_which_the_loop_stood_still_is_no_hang() -> None:
    """A busy machine or a paused process: the store's answer is there, behind other callbacks."""
    bed, steps = await hanging_bed()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulationLoop)
    steps.commit_s = 0.3
    for stall in range(20):
        answer = asyncio.ensure_future(put(bed.log(), b"x"))
        await asyncio.sleep(0.01 * stall)
        loop._virtual.now_s += 2.0
        assert await answer == stall
    assert bed.store.counters.hung_commits == 0
    await bed.store.close()


async def test_a_hang_gets_twice_the_time_after_each() -> None:
    bed, steps = await hanging_bed()
    await put(bed.log(), b"first")
    answers, held = Timed(), set[str]()

    def which(name: str, path: str, after: bool) -> bool:
        """The second commit of each file hangs: the one after its header."""
        if name != "commit" or after:
            return False
        hangs = path in held
        held.add(path)
        return hangs

    held.add("topic-uuid/0/00000000000000000000-1.log")
    steps.which = which
    answers.append(bed.log(), b"x")
    await until(lambda: bool(answers.got))
    assert max(answers.waited_s) <= LIMITS.commit_deadline_s
    assert bed.store.counters.hung_commits in (3, 4)
    steps.released.set()
    await bed.store.close()


def topic(name: str, tenant: str) -> TopicLogSettings:
    return TopicLogSettings(name, Durability.SYNCED, 86_400.0, tenant=tenant)


@pytest.mark.parametrize("call", ["commit", "recover"])
async def test_what_hangs_together_is_not_answered_and_opened_at_once(call: str) -> None:
    """Neither answers nor openings of many partitions fall into one turn of the loop."""
    bed, steps = await hanging_bed()
    sick = [bed.store.partition(topic(f"sick-{n % 4}", "a"), n) for n in range(48)]
    for log in sick:
        await put(log, b"first")
    steps.which = lambda name, _path, after: name in (call, "commit") and not after
    loop, turns = asyncio.get_running_loop(), Counter[tuple[str, float]]()
    opened = bed.store.counters.openings

    def waiter(_base: int, _error: TalosError | None) -> None:
        turns["answer", loop.time()] += 1

    for log in sick:
        log.append(block(b"hung"), waiter)
    for _ in range(1_200):
        await asyncio.sleep(0.01)
        turns["opening", loop.time()] = bed.store.counters.openings - opened
        opened = bed.store.counters.openings
    assert sum(count for (kind, _), count in turns.items() if kind == "answer") == 48
    assert sum(count for (kind, _), count in turns.items() if kind == "opening") >= 24
    assert max(turns.values()) <= 6
    steps.which = lambda _name, _path, _after: False
    steps.released.set()
    await asyncio.sleep(10)
    await bed.store.close()


@pytest.mark.parametrize("call", ["commit", "recover"])
async def test_no_tenant_waits_for_the_hanging_partitions_of_another(call: str) -> None:
    """A quarter of the partitions hangs: those of one tenant, in four topics."""
    bed, steps = await hanging_bed()
    sick = [bed.store.partition(topic(f"sick-{n % 4}", "a"), n) for n in range(50)]
    well = [bed.store.partition(topic(f"well-{n % 4}", "b"), n) for n in range(150)]
    for log in (*sick, *well):
        await put(log, b"first")
    steps.which = lambda name, path, after: (
        path.startswith("sick") and name in ("commit", call) and not after
    )
    hung, fine = Timed(), Timed()
    for turn in range(300):
        for log in sick:
            hung.append(log, b"x")
        for number in range(10):
            assert fine.append(well[(turn * 10 + number) % 150], b"y")
        await asyncio.sleep(0.05)
    await asyncio.sleep(11)
    assert not fine.errors
    # While a few lanes are being retired, what was behind them waits for ``lane_stall_ms``.
    assert max(fine.waited_s) < 0.1
    assert sorted(fine.waited_s)[-30] < 0.01
    assert len(hung.errors) == len(hung.got) > 50
    assert max(hung.waited_s) <= LIMITS.commit_deadline_s
    steps.released.set()
    await asyncio.sleep(12)
    for log in sick:
        await put(log, b"again")
    shares = bed.store._context.shares.of_tenant("a")
    held = (shares.lanes, shares.hanging, shares.given_up, shares.steps, shares.pending_bytes)
    assert held == (0, 0, 0, 0, 0)
    await bed.store.close()


@pytest.mark.real_time  # the store has threads
async def test_hanging_files_of_the_local_disk_are_answered_and_leave_others(
    tmp_path: Path,
) -> None:
    faults = LocalFaults()
    files = LocalFileStore(tmp_path, faults=faults)
    hang_s = 0.2 * scale()
    limits = LogLimits(
        space_reserve_bytes=0, commit_hang_s=hang_s, commit_deadline_s=6 * hang_s, close_s=1.0
    )
    bed = await open_bed(files=files, limits=limits)
    sick = [bed.store.partition(topic(f"sick-{n % 2}", "a"), n) for n in range(40)]
    well = bed.store.partition(topic("well", "b"), 0)
    for log in (*sick, well):
        await put(log, b"first")
    faults.hang_prefix = "sick"
    hung = Timed()
    for log in sick:
        hung.append(log, b"x")
    meanwhile = 0
    for _ in range(100):
        await put(well, b"y")
        meanwhile += not hung.got
        await asyncio.sleep(0.01)
    assert meanwhile > 10, "the other tenant waited for those that hang"
    await eventually_async("those that hang are answered", lambda: len(hung.got) == len(sick))
    assert len(hung.errors) == len(sick)
    faults.release()

    async def again(log: PartitionLog) -> int | None:
        try:
            return await put(log, b"again")
        except PartitionNotServing:
            return None

    for log in sick:
        assert await eventually_async("it is served again", partial(again, log)) in (1, 2)
    await bed.store.close()
    await files.close()


async def test_groups_whose_commits_hung_together_are_answered_in_a_turn_each() -> None:
    bed, steps = await hanging_bed()
    logs = [bed.log(number) for number in range(8)]
    for log in logs:
        await put(log, b"first")
    steps.which = lambda name, _path, after: name == "commit" and not after
    answered: list[PartitionLog] = []

    def waiter_of(log: PartitionLog) -> Callable[[int, TalosError | None], None]:
        return lambda _base, _error: answered.append(log)

    for log in logs:
        log.append(block(b"hung"), waiter_of(log))
    await asyncio.sleep(0.5)  # stalled, not given up
    assert not answered
    steps.released.set()
    in_one_turn, before = [], 0
    while len(answered) < len(logs):
        await asyncio.sleep(0)
        in_one_turn.append(len(answered) - before)
        before = len(answered)
    assert max(in_one_turn) == 1, "all others wait for the answers of all of them"
    await bed.store.close()
