"""What an open HDFS file makes of its stream's answers. The stream is one of Python."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pytest
from tests.unit.adapters.hdfs.java import JavaError
from tests.waiting import eventually_async, limit_s, stays_async

from opentalos.adapters.hdfs import append_file, replicas
from opentalos.adapters.hdfs.append_file import HdfsAppendFile, WriterContext
from opentalos.adapters.hdfs.commit_call import Sync
from opentalos.adapters.hdfs.replicas import FIRST_S, Replicas
from opentalos.adapters.io_threads import IoThreads
from opentalos.model.errors import Fenced, NotFound, OutcomeUnknown, StoreUnavailable, WriterDead
from opentalos.model.limits import HdfsLimits
from opentalos.model.message import Durability


class Stream:
    """A stream and the client around it."""

    def __init__(self) -> None:
        self.java_exception = JavaError
        self.commit_call = self.silent_nodes = self
        self.calls: list[Sync] = []
        self.replicas = 3
        self.error: JavaError | None = None
        self.closed_in_hdfs: bool | Exception = False
        self.looks = 0  # for a DataNode that hangs
        self.silent = ""  # its address
        self.gates: Iterator[threading.Event] = iter(())  # of the next commits
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()  # a commit
        self.closed = threading.Event()
        self.asked = threading.Event()  # until then a call for the DataNode that hangs lasts
        self.asked.set()

    def commit(self, stream: object, chunks: Sequence[bytes], how: Sync) -> int:
        self.begun.set()
        next(self.gates, self.gate).wait(limit_s())
        self.calls.append(how)
        if self.error is not None:
            raise self.error
        return self.replicas

    def is_closed(self, _path: str) -> bool:
        if isinstance(self.closed_in_hdfs, Exception):
            raise self.closed_in_hdfs
        return self.closed_in_hdfs

    def drop(self, stream: object) -> str:
        self.looks += 1
        if self.silent:
            self.gate.set()  # the client continues without it
            self.asked.wait(limit_s())
        return self.silent

    def close(self) -> None:
        self.closed.set()
        if self.error is not None:
            raise self.error


class Rig:
    """A file over a stream of Python."""

    def __init__(self, **settings: float) -> None:
        self.stream = Stream()
        patient = {"commit_timeout_s": limit_s(), "call_timeout_s": limit_s()}
        limits = HdfsLimits(**{**patient, **settings})  # type: ignore[arg-type]
        self.threads = IoThreads("t", threads=2)
        self.answer = asyncio.Event()  # to the question how many DataNodes a new file gets
        self.answer.set()
        self.replicas = Replicas(limits.replication, self.ask)
        context = WriterContext(
            self.stream,  # type: ignore[arg-type]
            limits,
            self.threads,
            self.threads,
            self.replicas,
        )
        self.released: list[HdfsAppendFile] = []
        self.context = context

    async def ask(self) -> int:
        await self.answer.wait()
        return 3

    def file(self, durability: Durability = Durability.SYNCED) -> HdfsAppendFile:
        return HdfsAppendFile(
            "p", self.stream, self.context, durability=durability, on_release=self.released.append
        )


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig(replicas_min=2)
    yield made
    made.stream.gate.set()
    assert await made.threads.close(deadline_s=limit_s())


async def dead(file: HdfsAppendFile) -> None:
    for _ in range(2):
        with pytest.raises(WriterDead):
            await file.commit([b"x"])
    with pytest.raises(WriterDead):
        await file.close()


@pytest.mark.parametrize(
    ("durability", "then"), [(Durability.SYNCED, Sync.SYNC), (Durability.FLUSHED, Sync.FLUSH)]
)
async def test_the_length_is_reported_until_the_pipeline_is_known(
    rig: Rig, durability: Durability, then: Sync
) -> None:
    file = rig.file(durability)
    assert [await file.commit([b"ab", b"c"]) for _ in range(3)] == [3, 6, 9]
    assert rig.stream.calls == [Sync.SYNC_LENGTH, then, then]
    assert await file.close() == 9
    assert rig.released == [file]


@pytest.mark.parametrize("durability", list(Durability))
async def test_on_one_datanode_every_commit_reports_the_length(durability: Durability) -> None:
    rig = Rig()
    rig.stream.replicas = 1
    file = rig.file(durability)
    for _ in range(3):
        await file.commit([b"a"])
    assert rig.stream.calls == [Sync.SYNC_LENGTH] * 3
    await rig.threads.close(deadline_s=limit_s())


async def test_too_few_datanodes_end_the_file(rig: Rig) -> None:
    file = rig.file()
    await file.commit([b"a"])
    rig.stream.replicas = 1
    with pytest.raises(OutcomeUnknown, match=r"reached 1 DataNode, but .hdfs. replicas_min is 2"):
        await file.commit([b"b"])
    await dead(file)
    assert rig.released == [file]
    assert await asyncio.to_thread(rig.stream.closed.wait, limit_s())


async def test_a_file_that_lost_a_datanode_is_thin_once_another_is_spare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replicas, "FIRST_S", FIRST_S / 100)
    rig = Rig()
    rig.answer.clear()
    file, whole = rig.file(), rig.file()
    await whole.commit([b"a"])
    await file.commit([b"a"])
    rig.stream.replicas = 2
    await file.commit([b"b"])
    assert rig.replicas.short == 1
    assert not file.thin, "nobody knows yet what a new file gets"
    rig.answer.set()
    await eventually_async("the file is thin", lambda: file.thin)
    assert not whole.thin
    rig.stream.replicas = 3  # replaced by the client at its next failure
    await file.commit([b"c"])
    assert rig.replicas.short == 0
    rig.replicas.close()
    await rig.threads.close(deadline_s=limit_s())


async def test_a_first_commit_on_few_datanodes_is_no_failure_of_one(rig: Rig) -> None:
    noted: list[tuple[int, bool]] = []

    def changed(_file: object, count: int, *, fell: bool) -> None:
        noted.append((count, fell))

    rig.replicas.changed = changed  # type: ignore[method-assign, assignment]
    rig.stream.replicas = 2
    file = rig.file()
    await file.commit([b"a"])
    await file.commit([b"b"])
    rig.stream.replicas = 3
    await file.commit([b"c"])
    rig.stream.replicas = 2
    await file.commit([b"d"])
    assert noted == [(2, False), (3, False), (2, True)]


@pytest.mark.parametrize(
    ("closed", "expected"),
    [(True, Fenced), (NotFound("p"), Fenced), (False, WriterDead),
     (StoreUnavailable("no NameNode"), WriterDead)],
)  # fmt: skip
async def test_a_failed_commit_says_fenced_if_the_file_is_closed(
    rig: Rig, closed: bool | Exception, expected: type[Exception]
) -> None:
    file = rig.file()
    rig.stream.error, rig.stream.closed_in_hdfs = JavaError("IOException"), closed
    with pytest.raises(expected):
        await file.commit([b"a"])
    await dead(file)


async def test_a_lost_lease_is_fenced_without_asking(rig: Rig) -> None:
    rig.stream.error = JavaError("LeaseExpiredException")
    rig.stream.closed_in_hdfs = StoreUnavailable("not asked")
    with pytest.raises(Fenced):
        await rig.file().commit([b"a"])


async def test_a_commit_that_hangs_ends_the_file() -> None:
    rig = Rig(commit_timeout_s=0.3)
    file = rig.file()
    rig.stream.gate.clear()
    with pytest.raises(OutcomeUnknown, match=r"did not answer within 0\.3 s"):
        await file.commit([b"a"])
    await dead(file)
    assert not rig.stream.closed.is_set(), "the thread still uses the stream"
    rig.stream.gate.set()
    assert await asyncio.to_thread(rig.stream.closed.wait, limit_s())
    await dead(file)
    assert await rig.threads.close(deadline_s=limit_s())


async def test_a_commit_continues_without_a_datanode_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(append_file, "LOOK_S", 0.01)
    rig = Rig()
    file = rig.file()
    rig.stream.gate.clear()
    rig.stream.asked.clear()  # else a second look may come before the commit ends
    rig.stream.silent = "dn2:9866"
    assert await file.commit([b"a"]) == 1
    assert rig.stream.looks == 1
    rig.stream.asked.set()
    assert await file.commit([b"b"]) == 2
    await rig.threads.close(deadline_s=limit_s())


def has_begun(file: HdfsAppendFile) -> bool:
    return file._begun_s is not None


def is_under_way(commit: asyncio.Future[int]) -> bool:
    return not commit.done()


async def test_the_time_of_a_commit_counts_from_its_start_on_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two commits of 1.2 s on one thread: neither takes too long, although the second waits."""
    now_s = 0.0
    monkeypatch.setattr(append_file, "monotonic", lambda: now_s)
    monkeypatch.setattr(append_file, "LOOK_S", 0.01)
    rig = Rig(commit_timeout_s=2.2)
    commits = IoThreads("one", threads=1, threads_max=1)
    rig.context = replace(rig.context, commits=commits)
    files = [rig.file() for _ in range(2)]
    gates = [threading.Event() for _ in files]
    rig.stream.gates = iter(gates)
    under_way = [asyncio.ensure_future(file.commit([b"a"])) for file in files]
    for file, commit, gate in zip(files, under_way, gates, strict=True):
        await eventually_async("a thread begins it", partial(has_begun, file))
        now_s += 1.2
        await stays_async("it is not late", partial(is_under_way, commit))
        gate.set()
        assert await commit == 1
    await commits.close(deadline_s=limit_s())
    await rig.threads.close(deadline_s=limit_s())


async def test_a_commit_that_no_thread_begins_is_never_written() -> None:
    rig = Rig(commit_timeout_s=0.5)
    commits = IoThreads("one", threads=1, threads_max=1)
    rig.context = replace(rig.context, commits=commits)
    rig.stream.gate.clear()
    hanging = asyncio.ensure_future(rig.file().commit([b"a"]))
    await eventually_async("the commit begins", rig.stream.begun.is_set)
    with pytest.raises(OutcomeUnknown, match="no thread was free"):
        await rig.file().commit([b"b"])
    await asyncio.gather(hanging, return_exceptions=True)
    rig.stream.gate.set()
    await commits.close(deadline_s=limit_s())
    assert len(rig.stream.calls) == 1
    await rig.threads.close(deadline_s=limit_s())


async def test_a_recovery_waits_for_a_commit_of_its_own_process() -> None:
    rig = Rig()
    file = rig.file()
    await file.settled(1.0)  # nothing is under way
    rig.stream.gate.clear()
    commit = asyncio.ensure_future(file.commit([b"a"]))
    await eventually_async("the commit begins", rig.stream.begun.is_set)
    commit.cancel()  # the log has given the file up
    settled = asyncio.ensure_future(file.settled(limit_s()))
    await stays_async("the recovery waits", lambda: not settled.done())
    rig.stream.gate.set()
    await settled
    assert rig.stream.calls
    await rig.threads.close(deadline_s=limit_s())


async def test_an_interrupted_commit_ends_the_file(rig: Rig) -> None:
    file = rig.file()
    rig.stream.gate.clear()
    commit = asyncio.ensure_future(file.commit([b"a"]))
    await eventually_async("the commit begins", rig.stream.begun.is_set)
    commit.cancel()
    await asyncio.gather(commit, return_exceptions=True)
    rig.stream.gate.set()
    await dead(file)


async def test_a_failed_close_is_unknown(rig: Rig) -> None:
    file = rig.file()
    await file.commit([b"a"])
    rig.stream.error = JavaError("IOException")
    with pytest.raises(OutcomeUnknown):
        await file.close()
    await dead(file)


async def test_close_of_a_store_wakes_all_waiters(rig: Rig) -> None:
    file = rig.file()
    rig.stream.gate.clear()
    commit = asyncio.ensure_future(file.commit([b"a"]))
    await eventually_async("the commit begins", rig.stream.begun.is_set)
    file.abandon(WriterDead("closing"))
    with pytest.raises(OutcomeUnknown):
        await commit
    await dead(file)
