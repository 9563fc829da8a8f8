"""What the MetaStore on ZooKeeper does when ZooKeeper, the network or the process fail."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from tests.e2e.zookeeper.conftest import SESSION_S, Opener
from tests.tcp_proxy import TcpProxy
from tests.waiting import elapse_async, ended, eventually_async, limit_s, scale, within_limit

from opentalos.adapters.zookeeper import ZookeeperMetaStore, open_zookeeper_meta_store
from opentalos.backends.zookeeper import ZookeeperBackend
from opentalos.model.errors import (
    ConfigError,
    CorruptLog,
    OutcomeUnknown,
    StoreUnavailable,
    TalosError,
    Unavailable,
    VersionConflict,
)
from opentalos.model.limits import ZookeeperLimits
from opentalos.ports.meta_store import MetaStore, Record

pytestmark = pytest.mark.backend
ROOT = Path(__file__).resolve().parents[3]
HOLDER = "tests.e2e.zookeeper.holder"
HELD_S = SESSION_S * scale()  # session of a holder
DROPS, ACKED_MIN = 40, 100
LIVE_S = 0.2 * scale()  # a connection lives up to so long before it is dropped


async def session_is_valid(store: ZookeeperMetaStore) -> None:
    await eventually_async(
        "the store has a valid session",
        lambda: store.session().connected and not store.session().lost,
        state=store.session,
    )


async def connection_is_lost(store: ZookeeperMetaStore) -> None:
    await eventually_async("the connection is lost", lambda: not store.session().connected)


async def until_done(write: Callable[[], Awaitable[int]]) -> None:
    """Repeat a write that is surely not done."""

    async def is_done() -> bool:
        try:
            await write()
        except Unavailable:
            return False
        return True

    await eventually_async("a write is done", is_done)


# --- ZooKeeper goes and comes ---------------------------------------------------------------------


async def test_zookeeper_may_be_gone_for_ten_seconds(
    zookeeper: ZookeeperBackend, opened: Opener
) -> None:
    store = await opened(zookeeper.hosts, call_timeout_s=limit_s())
    version = await store.create("a", b"before")
    states = store.watch("")
    assert await anext(states) == {"a": Record(b"before", version)}
    waiting = asyncio.ensure_future(anext(states))
    zookeeper.daemon("zookeeper").kill()
    await connection_is_lost(store)
    for call in (store.get("a"), store.replace("a", b"x", version), store.create("b", b"")):
        asked_s = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await call
        waited = time.monotonic() - asked_s > limit_s() / 2  # the claim is about time
        assert not waited, "it waited for an answer"
    # Nobody can tell any more that it lives.
    await eventually_async("the session is lost", lambda: store.session().lost)
    await elapse_async("ZooKeeper is away for ten seconds", 10.0)
    assert not waiting.done()
    zookeeper.start(print)
    await session_is_valid(store)
    assert await store.get("a") == Record(b"before", version)
    version = await store.replace("a", b"after", version)
    async with within_limit("the watch shows the write"):
        assert await waiting == {"a": Record(b"after", version)}


async def test_a_silent_server_is_left_before_the_session_ends(
    proxy: TcpProxy, opened: Opener
) -> None:
    session_s = 4.0 * scale()
    store = await opened(proxy.address, session_s=session_s, call_timeout_s=session_s + 2.0)
    version = await store.create("a", b"1")
    proxy.silence()
    valid_until_s = store.session().valid_until_s
    write = asyncio.ensure_future(store.replace("a", b"2", version))
    silent_s = time.monotonic()
    await connection_is_lost(store)
    assert time.monotonic() - silent_s < session_s  # the claim is about time
    assert store.session().valid_until_s <= valid_until_s + 0.1
    loop = asyncio.get_running_loop()

    def has_lapsed() -> bool:
        return loop.time() > store.session().valid_until_s  # the claim is about time

    await eventually_async("the session lapses", has_lapsed)
    assert store.session().lost
    with pytest.raises(OutcomeUnknown):
        await write
    proxy.restore()
    await session_is_valid(store)
    assert (await store.get("a")) in (Record(b"1", version), Record(b"2", version + 1))


async def count_in(store: MetaStore) -> int:
    """Its value; 0 while there is no connection."""
    try:
        record = await store.get("count")
    except StoreUnavailable:
        return 0
    assert record is not None
    return int(record.value)


async def test_nothing_is_lost_or_done_twice_while_connections_break(
    proxy: TcpProxy, opened: Opener
) -> None:
    """Two clients count up by compare-and-set; a watch of a third never goes back."""
    clients = [await opened(proxy.address) for _ in range(3)]
    await clients[0].create("count", b"0")
    acked: list[int] = []
    unknown = 0
    stopping = asyncio.Event()

    async def add(store: MetaStore) -> None:
        nonlocal unknown
        while not stopping.is_set():
            try:
                record = await store.get("count")
                assert record is not None
                number = int(record.value) + 1
                await store.replace("count", b"%d" % number, record.version)
                acked.append(number)
            except (VersionConflict, StoreUnavailable):
                await elapse_async("the two do not race in lockstep", 0.002)
            except OutcomeUnknown:
                unknown += 1

    states = clients[2].watch("")
    seen = [int((await anext(states))["count"].value)]

    async def follow() -> None:
        async for state in states:
            seen.append(int(state["count"].value))  # noqa: PERF401 - read meanwhile

    following = asyncio.ensure_future(follow())
    adding = [asyncio.ensure_future(add(store)) for store in clients[:2]]
    rng = random.Random(4)

    async def are_dropped() -> bool:
        await elapse_async("connections live for a while", rng.random() * LIVE_S)
        proxy.drop()
        return len(acked) > ACKED_MIN

    for _ in range(DROPS):
        await are_dropped()
    await eventually_async("more is counted while connections break", are_dropped)
    stopping.set()
    await asyncio.gather(*adding)
    count = 0

    async def is_shown() -> bool:
        # Read each time: a write whose outcome is unknown may be done later than the first read.
        nonlocal count
        assert not following.done(), following
        count = await count_in(clients[0])
        return seen[-1] == count

    await eventually_async("the watch shows the last count", is_shown)
    assert len(set(acked)) == len(acked)
    assert len(acked) <= count <= len(acked) + unknown
    assert seen == sorted(seen)
    following.cancel()


# --- sessions -------------------------------------------------------------------------------------


async def test_an_expired_session_is_replaced_and_watches_continue(
    zookeeper: ZookeeperBackend, opened: Opener
) -> None:
    store = await opened(zookeeper.hosts)
    other = await opened(zookeeper.hosts)
    await store.create("live", b"", ephemeral=True)
    states = store.watch("")
    assert set(await anext(states)) == {"live"}
    waiting = asyncio.ensure_future(anext(states))
    before = store.session()
    assert (before.lost, before.incarnation) == (False, 1)
    kazoo: Any = store._connection._client
    session_id, password = kazoo._kazoo.client_id
    await asyncio.to_thread(end_session, zookeeper.hosts, session_id, password)
    await eventually_async("there is a second session", lambda: store.session().incarnation == 2)
    await session_is_valid(store)
    assert store.session().incarnation == 2
    assert await other.get("live") is None
    await other.create("a", b"1")
    async with within_limit("the watch shows the new record alone"):
        while set(await waiting) != {"a"}:
            waiting = asyncio.ensure_future(anext(states))
    await store.create("live", b"again", ephemeral=True)


def end_session(hosts: str, session_id: int, password: bytes) -> None:
    """What the servers do to a session that lapsed."""
    killer = KazooClient(hosts=hosts, client_id=(session_id, password))
    killer.start(limit_s())
    killer.stop()
    killer.close()


class Holder:
    """A process that holds the ephemeral record ``live``."""

    def __init__(self, url: str, session_s: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", HOLDER, url, str(session_s)],
            stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        self.until("ready")

    def until(self, event: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            reported: dict[str, Any] = json.loads(line)
            if reported["event"] == event:
                return reported
        raise AssertionError(f"the process ended before {event!r}")

    def kill(self) -> None:
        self.process.kill()
        ended(self.process)
        assert self.process.stdout is not None
        self.process.stdout.close()


async def test_kill_9_of_its_owner_removes_an_ephemeral_record(
    zookeeper: ZookeeperBackend, opened: Opener, request: pytest.FixtureRequest
) -> None:
    store = await opened(zookeeper.hosts)
    url = f"zookeeper://{zookeeper.hosts}/{request.node.name}"
    holder = await asyncio.to_thread(Holder, url, HELD_S)
    states = store.watch("")
    assert set(await anext(states)) == {"live"}
    await asyncio.to_thread(holder.kill)
    async with within_limit("the watch shows no record"):
        assert await anext(states) == {}


async def test_a_process_stopped_for_longer_than_its_session_knows_at_once(
    zookeeper: ZookeeperBackend, opened: Opener, request: pytest.FixtureRequest
) -> None:
    store = await opened(zookeeper.hosts)
    url = f"zookeeper://{zookeeper.hosts}/{request.node.name}"
    holder = await asyncio.to_thread(Holder, url, HELD_S)
    try:

        async def is_gone() -> bool:  # after the first session there is none
            return await store.get("live") is None

        for incarnation in range(2, 5):
            os.kill(holder.process.pid, signal.SIGSTOP)
            # Rounded up to ticks.
            await elapse_async("the session of a stopped process ends", HELD_S + 1.5 * scale())
            await eventually_async("the record of that session is gone", is_gone)
            os.kill(holder.process.pid, signal.SIGCONT)
            first = await asyncio.to_thread(holder.until, "first look after a pause")
            assert not first["valid"]
            session = await asyncio.to_thread(holder.until, "session")
            while not (session["valid"] and session["incarnation"] == incarnation):
                assert not session["valid"]
                session = await asyncio.to_thread(holder.until, "session")
    except BaseException:
        os.kill(holder.process.pid, signal.SIGABRT)
        ended(holder.process)
        raise
    finally:
        await asyncio.to_thread(holder.kill)


# --- tombstones, foreign nodes, access ------------------------------------------------------------


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


async def test_old_tombstones_are_swept_and_younger_ones_keep_versions(
    zookeeper: ZookeeperBackend, opened: Opener, request: pytest.FixtureRequest
) -> None:
    young = await opened(zookeeper.hosts)
    last = 0
    for _ in range(3):
        version = await young.create("topics/a", b"")
        assert version > last
        await young.delete("topics/a", version)
        last = version
    removed_ms = wall_ms()
    # The next change is newer than the tombstone by ZooKeeper's clock, which is this machine's.
    await eventually_async("the clock moves on", lambda: wall_ms() > removed_ms)
    kept = await young.create("topics/kept", b"")
    assert await young.children("topics") == ["kept"]
    raw = KazooClient(hosts=zookeeper.hosts)
    await asyncio.to_thread(raw.start, limit_s())
    folder = f"/{request.node.name}/topics"
    assert sorted(raw.get_children(folder)) == ["a", "kept"]
    sweeping = await opened(zookeeper.hosts, tombstone_s=0.0)
    assert await sweeping.children("topics") == ["kept"]
    assert await sweeping.get("topics/kept") == Record(b"", kept)
    assert raw.get_children(folder) == ["kept"]
    await asyncio.to_thread(raw.stop)
    raw.close()


async def test_an_ephemeral_record_takes_the_place_of_a_tombstone(
    zookeeper: ZookeeperBackend, opened: Opener
) -> None:
    store, other = await opened(zookeeper.hosts), await opened(zookeeper.hosts)
    await store.delete("leader", await store.create("leader", b"1"))
    version = await store.create("leader", b"2", ephemeral=True)
    assert await other.get("leader") == Record(b"2", version)
    await store.close()
    assert await other.get("leader") is None


async def test_a_node_that_is_not_ours_is_named(
    zookeeper: ZookeeperBackend, opened: Opener, request: pytest.FixtureRequest
) -> None:
    store = await opened(zookeeper.hosts)
    raw = KazooClient(hosts=zookeeper.hosts)
    await asyncio.to_thread(raw.start, limit_s())
    raw.create(f"/{request.node.name}/theirs", b"something else")
    await asyncio.to_thread(raw.stop)
    raw.close()
    with pytest.raises(CorruptLog, match="theirs"):
        await store.get("theirs")


async def test_with_a_credential_nobody_else_reads_or_writes(
    zookeeper: ZookeeperBackend, opened: Opener
) -> None:
    ours = await opened(zookeeper.hosts, auth="digest:talos:secret")
    version = await ours.create("a", b"1")
    again = await opened(zookeeper.hosts, auth="digest:talos:secret")
    assert await again.replace("a", b"2", version) > version
    for auth in ("", "digest:talos:wrong"):
        with pytest.raises(ConfigError, match=r"\[zookeeper\] auth"):
            await opened(zookeeper.hosts, auth=auth)


# --- opening and latency --------------------------------------------------------------------------


async def test_an_unreachable_zookeeper_is_reported_in_time() -> None:
    limits = ZookeeperLimits(connect_timeout_s=1.0)
    began_s = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1"):
        await open_zookeeper_meta_store("zookeeper://127.0.0.1:1/talos", limits)
    took_s = time.monotonic() - began_s
    assert took_s < ZookeeperLimits().connect_timeout_s * scale()  # the claim is about time


@pytest.mark.parametrize(
    "url", ["zookeeper://h:2181", "zookeeper:///x", "http://h/x", "zookeeper://u:p@h/x"]
)
async def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        await open_zookeeper_meta_store(url, ZookeeperLimits())


async def test_a_watch_of_many_records_is_quick(
    zookeeper: ZookeeperBackend, opened: Opener
) -> None:
    store = await opened(zookeeper.hosts, call_timeout_s=limit_s())  # for 2,000 calls at once
    other = await opened(zookeeper.hosts, call_timeout_s=limit_s())
    count = 2000
    made = [store.create(f"log/{number % 50}/{number}", b"x" * 200) for number in range(count)]
    versions = await asyncio.gather(*made)
    began_s = time.monotonic()
    states = other.watch("log")
    assert len(await anext(states)) == count
    all_s = time.monotonic() - began_s
    lags = []
    version = versions[0]
    for number in range(50):
        waiting = asyncio.ensure_future(anext(states))
        version = await store.replace("log/0/0", b"%d" % number, version)
        written_s = time.monotonic()
        while (await waiting)["log/0/0"].version != version:
            waiting = asyncio.ensure_future(anext(states))
        lags.append(time.monotonic() - written_s)
    assert sorted(lags)[len(lags) // 2] < all_s / 4, "all are read again"


async def test_a_request_error_never_hides_a_lost_connection(
    proxy: TcpProxy, opened: Opener
) -> None:
    store = await opened(proxy.address)
    version = await store.create("a", b"1")
    proxy.cut()
    await connection_is_lost(store)
    for call in (store.delete("a", version), store.children("")):
        with pytest.raises(TalosError) as caught:
            await call
        assert isinstance(caught.value, StoreUnavailable)
    proxy.restore()
    await until_done(lambda: store.replace("a", b"2", version))
