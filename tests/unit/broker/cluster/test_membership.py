"""Membership: one server of a name, announced restarts, and coordination that is away."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from tests.unit.broker.cluster.cluster_bed import SESSION_S, ClusterBed, Server, in_cluster
from tests.unit.catalog.support import ALICE

from opentalos.broker.cluster.records import LEAVING, LeavingRecord, decode_record
from opentalos.broker.cluster.state import leaving_path, server_path
from opentalos.broker.cluster.warm_up import WARM_UP_S
from opentalos.broker.messaging.messages import GetQuery
from opentalos.broker.values import Topic
from opentalos.log.manifest.store import manifest_path
from opentalos.log.partition.jobs import seal
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.model.errors import (
    ConfigError,
    NotOwner,
    OutcomeUnknown,
    PartitionNotServing,
    StoreUnavailable,
    TalosError,
)
from opentalos.model.message import PartitionKey

Scenario = Callable[[ClusterBed], Awaitable[None]]
Run = Callable[[Scenario], None]


def the_log(server: Server) -> PartitionLog:
    (log, *_) = server.broker.context.log._partitions.values()
    return log


async def read_at(server: Server, topic: Topic, partition: int, offset: int) -> list[bytes]:
    """The payloads of one read without a wait."""
    query = GetQuery(topic.resource, partition, offset, 100, 1 << 20)
    result = await server.run(partial(server.broker.messages.get, ALICE, query))
    return [bytes(block.payload) for block in result.blocks]


async def became(server: Server, topic: Topic) -> bool:
    """Wait until the server has heard that partition 0 is its own."""
    for _ in range(50):
        if server.cluster.ownership.refusal(topic.uuid, 0) is None:
            return True
        await asyncio.sleep(0.01)
    return False


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return lambda scenario: in_cluster(monkeypatch, scenario)


def test_a_second_server_of_a_name_is_refused_while_the_first_lives(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        first = await bed.server("a")
        with pytest.raises(ConfigError, match="a server named a is alive at a:1"):
            await bed.server("a", "b:1")
        assert server_path("a") in first.meta.storage.records

    run(scenario)


def test_a_crashed_server_returns_at_once_under_its_address(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        first = await bed.server("a")
        first.process.crash()  # its session lasts on
        began_s = bed.loop.time()
        await bed.server("a")
        assert bed.loop.time() - began_s < 1

    run(scenario)


def test_a_graceful_stop_announces_a_restart_and_the_start_takes_it_back(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a = await bed.server("a", restart_s=33.0)
        b = await bed.server("b")
        topic = await bed.topic(a, ["a"])
        await a.put(topic, b"kept")
        await a.close()
        value = bed.storage.records[leaving_path("a")].record.value
        record = decode_record(LeavingRecord, value)
        assert (record.kind, record.wait_s, record.incarnation) == ("restart", 33.0, "a.1")
        assert server_path("a") not in bed.storage.records
        await asyncio.sleep(0.1)
        with pytest.raises(NotOwner) as caught:
            await b.put(topic, b"x")
        assert caught.value.address == ""
        a = await bed.server("a")
        assert not [path for path in bed.storage.records if path.startswith(LEAVING)]
        assert await a.payloads(topic) == [b"kept"]
        assert not a.files.recovered

    run(scenario)


def test_a_stop_that_lends_serves_until_others_have_everything(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a = await bed.server("a", restart="lend")
        b = await bed.server("b")
        topic = await bed.topic(a, ["a", "a"])
        await a.put(topic, b"before")
        closing = asyncio.ensure_future(a.close())
        await asyncio.sleep(1.0)
        value = bed.storage.records[leaving_path("a")].record.value
        assert decode_record(LeavingRecord, value).kind == "lend"
        await a.put(topic, b"while it waits")
        await bed.assign(topic.uuid, ["b", "a"], moved_from={"0": "a"})
        assert await became(b, topic)
        await b.put(topic, b"lent")
        await asyncio.sleep(1.0)
        assert not closing.done()  # the second partition is still there
        await bed.assign(topic.uuid, ["b", "b"], moved_from={"1": "a"})
        began_s = bed.loop.time()
        await closing
        assert bed.loop.time() - began_s < 0.5
        assert not b.files.recovered
        assert await b.payloads(topic) == [b"before", b"while it waits", b"lent"]
        a = await bed.server("a", restart="lend")
        await asyncio.sleep(1.0)
        assert leaving_path("a") in bed.storage.records  # it does not answer requests yet
        await a.run(a.broker.take_requests)
        await asyncio.sleep(0.3)
        assert leaving_path("a") not in bed.storage.records

    run(scenario)


def test_servers_that_all_stop_wait_for_no_borrower(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b = [await bed.server(name, restart="lend") for name in "ab"]
        topic = await bed.topic(a, ["a", "b"])
        await a.put(topic, b"kept")
        began_s = bed.loop.time()
        await asyncio.gather(a.close(), b.close())
        assert bed.loop.time() - began_s < 0.5
        a = await bed.server("a")
        assert await a.payloads(topic) == [b"kept"]
        assert not a.files.recovered

    run(scenario)


def test_only_a_failed_end_of_a_loan_is_reported_as_one(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a = await bed.server("a", restart="lend")
        await a.run(a.broker.take_requests)

        async def fail(*_: object) -> None:
            raise StoreUnavailable("not now")

        monkeypatch.setattr(a.cluster.membership, "_check", fail)
        await asyncio.sleep(0.3)

    run(scenario)
    assert "could not check the session" in caplog.text
    assert "what was lent" not in caplog.text


@pytest.mark.parametrize("hangs", [False, True])
def test_the_slow_first_file_of_a_process_is_no_partition_that_comes_back(
    run: Run, hangs: bool
) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a = await bed.server("a", restart="lend")
        await a.close()
        a = await bed.server("a", restart="lend")
        a.files.held = bed.loop.create_future()
        ready = asyncio.ensure_future(a.run(a.broker.take_requests))
        await asyncio.sleep(2.0)
        assert list(bed.storage.files) == ["warm/a"]
        assert leaving_path("a") in bed.storage.records
        if hangs:
            await asyncio.sleep(WARM_UP_S)
        else:
            a.files.held.set_result(None)
        await ready
        await asyncio.sleep(0.3)
        assert leaving_path("a") not in bed.storage.records
        await a.close()
        a = await bed.server("a", restart="lend")
        await a.run(a.broker.take_requests)
        assert not bed.storage.files

    run(scenario)


@pytest.mark.parametrize("others", [False, True])
def test_a_stop_that_nobody_borrows_from_ends_in_time(run: Run, others: bool) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a = await bed.server("a", restart="lend", stop_s=6.0)
        if others:
            await bed.server("b")
        topic = await bed.topic(a, ["a"])
        await a.put(topic, b"kept")
        began_s = bed.loop.time()
        await a.close()
        assert (bed.loop.time() - began_s > 2.0) == others  # a third of the stop
        assert bed.loop.time() - began_s < 3.0
        a = await bed.server("a")
        assert await a.payloads(topic) == [b"kept"]
        assert not a.files.recovered

    run(scenario)


@pytest.mark.parametrize(
    ("stop_s", "drain_s", "lend_s"), [(18.0, 0.0, 6.0), (15.0, 3.0, 3.5), (5.0, 3.0, 0.0)]
)
def test_lending_leaves_half_of_a_stop_to_seal_after_requests_had_their_time(
    run: Run, stop_s: float, drain_s: float, lend_s: float
) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a = await bed.server("a", restart="lend", stop_s=stop_s, drain_s=drain_s)
        await bed.server("b")
        topic = await bed.topic(a, ["a"])
        await a.put(topic, b"kept")
        began_s = bed.loop.time()
        await a.run(a.broker.announce_restart)
        assert lend_s <= bed.loop.time() - began_s < lend_s + 0.1

    run(scenario)


def test_open_partitions_acknowledge_through_an_outage_of_any_length(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b = await bed.server("a"), await bed.server("b")
        topic = await bed.topic(a, ["a", "a", "b"])
        await a.put(topic, b"before")
        epoch = the_log(a).epoch
        a.meta.suspend()
        b.meta.suspend()
        silence_s = 0.0
        for number in range(60):
            began_s = bed.loop.time()
            await a.put(topic, b"%d" % number)
            silence_s = max(silence_s, bed.loop.time() - began_s)
            await asyncio.sleep(1)
        assert silence_s < 0.1
        with pytest.raises(PartitionNotServing):
            await a.put(topic, b"x", 1)  # it is not open
        with pytest.raises(NotOwner) as elsewhere:
            await a.put(topic, b"x", 2)
        assert elsewhere.value.address == "b:1"  # requests take the ways they took
        query = GetQuery(topic.resource, 0, 1, 100, 1 << 20)
        read = await a.run(partial(a.broker.messages.get, ALICE, query))
        assert read.blocks[0].payload == b"0"
        for server in (a, b):
            server.meta.expire()
            server.meta.renew()
        await asyncio.sleep(1)
        await a.put(topic, b"after")
        assert len(await a.payloads(topic)) == 62
        assert the_log(a).epoch == epoch
        assert not a.files.recovered

    run(scenario)


def test_what_another_server_took_over_meanwhile_is_dropped(run: Run) -> None:
    """A server that is cut off alone: storage refuses it, and it gives the partition up."""

    async def scenario(bed: ClusterBed) -> None:
        a, b = await bed.server("a"), await bed.server("b")
        topic = await bed.topic(a, ["a"])
        await a.put(topic, b"kept")
        a.meta.suspend()
        a.meta.expire()
        await asyncio.sleep(SESSION_S + 1)
        await a.put(topic, b"alone")  # nobody has taken it yet
        a.files.held = bed.loop.create_future()
        flying = a.put(topic, b"flying")
        await asyncio.sleep(0.1)
        queued = a.put(topic, b"queued")
        await bed.assign(topic.uuid, ["b"])
        await asyncio.sleep(1)
        await b.put(topic, b"new")
        assert not flying.done()
        a.meta.renew()
        await asyncio.sleep(1)
        with pytest.raises(OutcomeUnknown):
            await flying
        with pytest.raises(PartitionNotServing):
            await queued
        with pytest.raises(NotOwner):
            await a.put(topic, b"x")
        a.files.held.set_result(None)
        await asyncio.sleep(1)
        assert await b.payloads(topic) == [b"kept", b"alone", b"new"]

    run(scenario)


def test_a_former_owner_never_calls_its_end_the_end(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b = await bed.server("a"), await bed.server("b")
        topic = await bed.topic(a, ["a", "a"])
        await a.put(topic, b"0")
        await a.put(topic, b"0", 1)
        sealed = a.broker.context.log._partitions[PartitionKey(topic.uuid, 1)].writer
        await a.run(lambda: sealed.run(partial(seal, sealed)))
        a.meta.suspend()
        await asyncio.sleep(SESSION_S + 1)
        assert not await read_at(a, topic, 0, 1)  # its own commit proved the end
        with pytest.raises(PartitionNotServing):
            await read_at(a, topic, 1, 1)  # nothing can prove it
        with pytest.raises(PartitionNotServing):
            await read_at(a, topic, 0, 5)  # out of range is not known
        a.meta.expire()
        await bed.assign(topic.uuid, ["b", "b"])
        await asyncio.sleep(0.5)
        await b.put(topic, b"1")
        for _ in range(2):
            with pytest.raises(PartitionNotServing):
                await read_at(a, topic, 0, 1)
        assert await read_at(a, topic, 0, 0) == [b"0"]

    run(scenario)


def test_a_manifest_that_cannot_be_read_keeps_no_server_away(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b = await bed.server("a"), await bed.server("b")
        topic = await bed.topic(a, ["a"] * 3)
        for number in range(3):
            await a.put(topic, b"kept", number)
        a.meta.suspend()
        a.meta.expire()
        await asyncio.sleep(SESSION_S + 1)
        for number, value in enumerate((b"no manifest", b'{"version": 1000}')):
            path = manifest_path(PartitionKey(topic.uuid, number))
            await b.meta.replace(path, value, bed.storage.records[path].record.version)
        a.meta.renew()
        await asyncio.sleep(1)
        assert a.cluster.membership.valid
        await a.put(topic, b"more", 2)
        assert await a.payloads(topic, 2) == [b"kept", b"more"]
        for number in range(2):
            with pytest.raises(TalosError):
                await a.put(topic, b"x", number)

    run(scenario)


def test_an_assignment_is_followed_only_after_the_return(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b = await bed.server("a"), await bed.server("b")
        topic = await bed.topic(a, ["a", "b"])
        await a.put(topic, b"0")
        a.meta.suspend()
        await asyncio.sleep(SESSION_S + 1)
        await bed.assign(topic.uuid, ["b", "a"], {"0": "a", "1": "b"})
        await a.put(topic, b"1")
        a.meta.expire()
        a.meta.renew()
        await asyncio.sleep(1)
        await b.put(topic, b"2")
        assert await b.payloads(topic) == [b"0", b"1", b"2"]
        await a.put(topic, b"3", 1)

    run(scenario)


def test_a_topic_that_was_deleted_meanwhile_leaves_nothing(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b = await bed.server("a"), await bed.server("b")
        topic = await bed.topic(a, ["a"])
        await a.put(topic, b"0")
        a.meta.suspend()
        a.meta.expire()
        await asyncio.sleep(SESSION_S + 1)
        await b.run(lambda: b.broker.topics.delete_topic(ALICE, topic.resource))
        await asyncio.sleep(3)
        with pytest.raises(TalosError):
            await a.put(topic, b"zombie")
        a.meta.renew()
        await asyncio.sleep(3)
        assert not a.broker.context.log._partitions
        assert not [path for path in bed.storage.records if path.startswith("log/")]
        assert not bed.storage.files

    run(scenario)


def test_a_suspended_session_keeps_open_partitions_and_opens_nothing(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a = await bed.server("a")
        topic = await bed.topic(a, ["a", "a"])
        await a.put(topic, b"before")
        a.meta.suspend()
        await a.put(topic, b"suspended")
        refused = a.put(topic, b"x", 1)
        await asyncio.sleep(2)
        a.meta.connected, a.meta.valid_until_s = True, float("inf")
        await refused  # it waited until coordination was back
        assert await a.payloads(topic) == [b"before", b"suspended"]

    run(scenario)


def test_groups_are_read_again_after_a_lapse_and_shards_stop_at_once(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a = await bed.server("a")
        events: list[str] = []
        a.cluster.lapsed = lambda: events.append("shards")
        a.cluster.returned = lambda: events.append("groups")
        a.meta.suspend()
        await asyncio.sleep(SESSION_S + 1)
        assert events == ["shards"]
        with pytest.raises(PartitionNotServing, match="lost its session"):
            a.cluster.ownership.check_shard("t", 0)
        a.meta.expire()
        a.meta.renew()
        await asyncio.sleep(1)
        assert events == ["shards", "groups"]
        assert server_path("a") in bed.storage.records

    run(scenario)


def test_a_record_that_was_taken_away_is_a_lapse(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a = await bed.server("a")
        topic = await bed.topic(a, ["a"])
        await a.put(topic, b"1")
        a.meta.expire()  # the server does not see it by its session
        await asyncio.sleep(1)
        assert server_path("a") in bed.storage.records
        await a.put(topic, b"2")
        assert await a.payloads(topic) == [b"1", b"2"]
        assert not a.files.recovered  # nobody took it

    run(scenario)


# --- deletion -------------------------------------------------------------------------------------


def test_a_server_that_slept_through_a_deletion_acknowledges_nothing(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b = await bed.server("a"), await bed.server("b")
        topic = await bed.topic(a, ["a", "a"])
        await a.put(topic, b"1")
        a.process.pause()
        await b.run(lambda: b.broker.topics.delete_topic(ALICE, topic.resource))
        await asyncio.sleep(3)
        first = [a.put(topic, b"zombie", number) for number in (0, 1)]
        a.process.resume()
        answers = await asyncio.gather(*first, return_exceptions=True)
        assert all(isinstance(error, TalosError) for error in answers)
        await asyncio.sleep(3)
        assert not [path for path in bed.storage.records if path.startswith("log/")]
        assert not bed.storage.files

    run(scenario)


def test_a_stale_copy_of_a_deleted_topic_makes_no_manifest(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b = await bed.server("a"), await bed.server("b")
        topic = await bed.topic(a, ["a"])
        follow = a.broker.catalogs.topics._records.task
        assert follow is not None
        follow.cancel()  # its watch never catches up
        await b.run(lambda: b.broker.topics.delete_topic(ALICE, topic.resource))
        await asyncio.sleep(1)
        with pytest.raises(TalosError):
            await a.put(topic, b"zombie")
        await asyncio.sleep(0.1)
        assert not [path for path in bed.storage.records if path.startswith("log/")]
        assert not a.broker.context.log._partitions

    run(scenario)
