"""DataNodes die and hang under a writer; the NameNode restarts."""

import asyncio
import contextlib
import socket
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from tests.e2e.hdfs.conftest import (
    RECORD_BYTES,
    BusyWriter,
    Place,
    assert_records,
    record,
)
from tests.waiting import elapse_async, eventually_async, limit_s, scale, within_limit

from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, Unavailable
from opentalos.model.message import Durability

pytestmark = pytest.mark.backend

SYNCED = Durability.SYNCED
CALL_S = 15.0 * scale()  # of a call to the NameNode
IDLE_S = 18.0  # a DataNode waits 15 s for a word of its writer
# 3 s on a quiet machine; never as much as HDFS alone waits: 5 s, and 5 s for each DataNode.
PAUSED_S = min(9.0 * scale(), 20.0)
FULL_QUEUE = 4  # connections, for a queue of none
GIVEN_UP_S = 0.45  # while the pipeline is being mended


async def test_a_killed_datanode_does_not_stop_a_writer(place: Place) -> None:
    store = await place.store()
    writer = await place.writer(store, "killed")
    async with place.killed(place.pipeline(writer.file)[1]):
        await writer.reach(writer.acked + 50)
        assert len(place.pipeline(writer.file)) == 2
    await writer.reach(writer.acked + 10)
    await writer.stop()
    assert await writer.file.close() == RECORD_BYTES * writer.acked


async def test_an_idle_writer_keeps_its_pipeline(place: Place) -> None:
    store = await place.store()
    files = [await store.create(f"idle/{number}", durability=SYNCED) for number in range(20)]
    for file in files:
        await file.commit([b"before"])
    nodes = [sorted(place.pipeline(file)) for file in files]
    await elapse_async("a DataNode misses its writer", IDLE_S)
    for file in files:
        await file.commit([b"after"])
    assert [sorted(place.pipeline(file)) for file in files] == nodes
    for file in files:
        assert await file.close() == 11


async def test_too_few_datanodes_acknowledge_nothing_until_they_are_back(place: Place) -> None:
    store = await place.store(replicas_min=3)
    writer = BusyWriter(await store.create("short", durability=SYNCED))
    await writer.reach(20)
    async with place.killed("dn2"):
        error = await writer.fails()
        assert "replicas_min is 3" in str(error)
        length = await store.recover("short", deadline_s=limit_s())
        assert_records(await store.read("short", position=0, bytes_max=length), writer.acked)
        again = await store.create("short-again", durability=SYNCED)
        with pytest.raises(OutcomeUnknown):
            await again.commit([b"refused"])
    attempts = iter(range(1_000))

    async def serves_a_new_file() -> bool:
        """As a log does."""
        file = await store.create(f"back/{next(attempts)}", durability=SYNCED)
        try:
            await file.commit([b"served"])
        except (OutcomeUnknown, Unavailable):
            return False
        return True

    await eventually_async("HDFS serves a new file", serves_a_new_file)


@pytest.mark.parametrize("place_in_pipeline", [0, 1, 2])
async def test_a_paused_datanode_costs_a_writer_less_than_a_timeout_of_hdfs(
    place: Place, place_in_pipeline: int
) -> None:
    store, other = await place.store(), await place.store()
    writer = await place.writer(store, "hangs")
    async with place.paused(place.pipeline(writer.file)[place_in_pipeline]):
        paused, began_s = writer.acked, time.monotonic()
        await writer.reach(paused + 2)  # one may have been acknowledged already
        assert time.monotonic() - began_s < PAUSED_S  # the claim is about time
        await writer.reach(paused + 50)
        assert len(place.pipeline(writer.file)) == 2
        await writer.stop()
        began_s = time.monotonic()
        length = await other.recover("hangs", deadline_s=limit_s())
        assert time.monotonic() - began_s < PAUSED_S  # the claim is about time
        assert_records(await other.read("hangs", position=0, bytes_max=length), writer.acked)


async def test_a_commit_given_up_on_a_paused_datanode_is_fenced_soon(place: Place) -> None:
    """The log gives a commit up after a second and takes a fresh file."""
    store = await place.store()
    writer = await place.writer(store, "given-up")
    await writer.stop()
    async with place.paused(place.pipeline(writer.file)[1]):
        began_s = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(GIVEN_UP_S):
                await writer.file.commit([b"unknown\n"])
        length = await store.recover("given-up", deadline_s=limit_s())
        assert time.monotonic() - began_s < PAUSED_S  # the claim is about time
        content = await store.read("given-up", position=0, bytes_max=length)
        assert content.removesuffix(b"unknown\n") == b"".join(map(record, range(writer.acked)))


async def test_commits_continue_while_the_namenode_restarts(place: Place) -> None:
    store = await place.store(call_timeout_s=CALL_S)
    writer = BusyWriter(await store.create("open", durability=SYNCED))
    await writer.reach(20)
    async with place.killed("nn"):
        await writer.reach(writer.acked + 50)
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: store.list(""),
            lambda: store.create("new", durability=SYNCED),
            lambda: store.recover("open", deadline_s=limit_s()),
        ]
        for call in calls:
            began_s = time.monotonic()
            with pytest.raises(StoreUnavailable) as caught:
                await call()
            assert time.monotonic() - began_s < CALL_S  # the claim is about time
            assert "did not answer" not in str(caught.value)
    await writer.reach(writer.acked + 50)
    await writer.stop()
    assert await writer.file.close() == RECORD_BYTES * writer.acked
    new = await store.create("new", durability=SYNCED)
    assert await new.commit([b"done"]) == 4


async def test_a_hanging_namenode_stops_neither_commits_nor_the_close(place: Place) -> None:
    store = await place.store(call_timeout_s=2.0 * scale())
    writer = BusyWriter(await store.create("open", durability=SYNCED))
    await writer.reach(20)
    async with place.paused("nn"):
        await writer.reach(writer.acked + 50)
        with pytest.raises(StoreUnavailable, match="did not answer"):
            await store.list("")
        with pytest.raises(OutcomeUnknown):
            await store.create("unknown", durability=SYNCED)
        await writer.stop()
        async with within_limit("a store closes while the NameNode hangs"):
            await store.close()


@pytest.mark.parametrize(
    ("calls", "data", "silent"),
    [
        ("open", "open", False),
        ("hangs", "open", True),
        ("filtered", "open", False),
        ("filtered", "filtered", True),
        ("refused", "filtered", False),
    ],
)
async def test_ports_of_a_datanode_that_answer_and_that_do_not(
    place: Place, calls: str, data: str, silent: bool
) -> None:
    """With the exceptions of the real client."""
    store = await place.store()
    silent_nodes = store._client.silent_nodes
    assert silent_nodes is not None
    with contextlib.ExitStack() as stack:
        ports = {
            "open": {"calls": place.hdfs.ports["dn1-ipc"], "data": place.hdfs.ports["dn1"]},
            "hangs": {"calls": stack.enter_context(listening())},
            "filtered": dict.fromkeys(("calls", "data"), stack.enter_context(filtered())),
            "refused": {"calls": refused()},
        }
        node = datanode(calls=ports[calls]["calls"], data=ports[data]["data"])
        began_s = time.monotonic()
        assert await asyncio.to_thread(silent_nodes._is_silent, node) == silent
        assert time.monotonic() - began_s < PAUSED_S  # the claim is about time


def datanode(*, calls: int, data: int) -> Any:
    """What the Java client knows of a DataNode with these ports."""
    jpype = sys.modules["jpype"]
    made = jpype.JClass("org.apache.hadoop.hdfs.protocol.DatanodeID")(
        "127.0.0.1", "127.0.0.1", str(uuid.uuid4()), data, 0, 0, calls
    )
    builder = jpype.JClass("org.apache.hadoop.hdfs.protocol.DatanodeInfo$DatanodeInfoBuilder")
    return builder().setNodeID(made).build()


@contextlib.contextmanager
def listening() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextlib.contextmanager
def filtered() -> Iterator[int]:
    """A port whose connections get no answer: its queue of connections is full."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as server,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(FULL_QUEUE):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield server.getsockname()[1]


def refused() -> int:
    """A port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
