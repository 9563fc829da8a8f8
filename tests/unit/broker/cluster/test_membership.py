"""Membership: one server of a name, announced restarts, and sessions that lapse."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.unit.broker.cluster.cluster_bed import SESSION_S, ClusterBed, in_cluster
from tests.unit.catalog.support import ALICE

from opentalos.broker.cluster.records import LEAVING, LeavingRecord, decode_record
from opentalos.broker.cluster.state import leaving_path, server_path
from opentalos.model.errors import (
    ConfigError,
    NotOwner,
    OutcomeUnknown,
    PartitionNotServing,
    TalosError,
)

Scenario = Callable[[ClusterBed], Awaitable[None]]
Run = Callable[[Scenario], None]


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


def test_a_lapsed_session_drops_all_and_reports_what_is_unknown(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a = await bed.server("a")
        topic = await bed.topic(a, ["a"])
        await a.put(topic, b"kept")
        a.files.held = bed.loop.create_future()
        flying = a.put(topic, b"flying")
        await asyncio.sleep(0.1)
        queued = a.put(topic, b"queued")
        a.meta.suspend()
        await asyncio.sleep(SESSION_S - 0.1)
        assert not flying.done()  # suspended is not lapsed
        await asyncio.sleep(0.3)
        with pytest.raises(OutcomeUnknown):
            await flying
        with pytest.raises(PartitionNotServing):
            await queued
        with pytest.raises(PartitionNotServing, match="lost its session"):
            await a.put(topic, b"x")
        a.files.held.set_result(None)
        a.files.held = None
        await asyncio.sleep(5)
        with pytest.raises(PartitionNotServing, match="lost its session"):
            await a.put(topic, b"x")
        a.meta.expire()
        a.meta.renew()
        await asyncio.sleep(1)
        await a.put(topic, b"after")
        found = await a.payloads(topic)
        assert found in ([b"kept", b"after"], [b"kept", b"flying", b"after"])

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


def test_a_session_that_lapsed_forgets_its_groups(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a = await bed.server("a")
        forgotten: list[str] = []
        a.cluster.lapsed = lambda: forgotten.append("groups")
        a.meta.expire()
        a.meta.renew()
        await asyncio.sleep(1)
        assert forgotten == ["groups"]
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
        assert a.files.recovered

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
