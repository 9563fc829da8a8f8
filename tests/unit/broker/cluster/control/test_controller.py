"""The controller: election, take-over, restarts, joins, drains, and controllers that are stale."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

from tests.unit.broker.cluster.controller_bed import (
    LIMITS,
    TOPICS,
    ControllerBed,
    in_control,
)

from opentalos.broker.cluster.ownership_guard import JOURNAL_PATIENCE
from opentalos.broker.cluster.records import (
    LEADER,
    WEIGHTS,
    Leader,
    LeavingKind,
    WeightsRecord,
    encode_record,
)
from opentalos.broker.cluster.state import leaving_path, put_record, server_path
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import manifest_path
from opentalos.model.message import PartitionKey
from opentalos.placement.ring import node_count


def test_the_first_server_leads_and_serves_everything_at_once() -> None:
    async def scenario(bed: ControllerBed) -> None:
        (a,) = await bed.start("a")
        took_s = await bed.until(lambda: len(bed.owners()) == 60, 1.0)
        assert took_s < 0.5
        assert set(bed.owners().values()) == {"a"}
        assert bed.leader() == "a"
        assert a.controller.leading

    in_control(scenario)


def test_one_of_many_servers_leads() -> None:
    async def scenario(bed: ControllerBed) -> None:
        members = await bed.start("a", "b", "c")
        await asyncio.sleep(1)
        assert [member.name for member in members if member.controller.leading] == [bed.leader()]

    in_control(scenario)


def test_a_joining_server_gets_partitions_when_it_lasted() -> None:
    async def scenario(bed: ControllerBed) -> None:
        await bed.start("a")
        await bed.until(lambda: len(bed.owners()) == 60, 1.0)
        await bed.start("b")
        await asyncio.sleep(LIMITS.stable_after_s - 0.1)
        assert set(bed.owners().values()) == {"a"}
        await bed.until(lambda: "b" in bed.owners().values(), 0.5)
        assert len(bed.moving()) <= LIMITS.moves_at_once
        await bed.until(lambda: not bed.moving(), 20)
        assert 20 <= list(bed.owners().values()).count("b") <= 40

    in_control(scenario)


def test_a_crash_is_taken_over_within_a_second_although_the_session_lasts() -> None:
    async def scenario(bed: ControllerBed) -> None:
        _, b, _ = await bed.steady("a", "b", "c")
        before = bed.owners()
        b.crash()
        took_s = await bed.until(lambda: "b" not in bed.owners().values(), 1.0)
        assert took_s < 1.0
        assert server_path("b") in bed.storage.records
        after = bed.owners()
        assert [key for key in after if after[key] != before[key] and before[key] != "b"] == []
        assert not bed.moving()

    in_control(scenario)


def test_a_crash_of_the_controller_is_taken_over_within_a_second() -> None:
    async def scenario(bed: ControllerBed) -> None:
        await bed.steady("a", "b", "c")
        leader = bed.leader()
        bed.members[leader].crash()
        took_s = await bed.until(lambda: leader not in bed.owners().values(), 1.2)
        assert took_s < 1.0
        assert bed.leader() != leader

    in_control(scenario)


def test_a_paused_server_does_not_refuse_and_loses_nothing_before_its_session() -> None:
    async def scenario(bed: ControllerBed) -> None:
        _, b, _ = await bed.steady("a", "b", "c")
        before = bed.owners()
        b.process.pause()
        await asyncio.sleep(5)
        assert bed.owners() == before
        b.meta.expire()
        await bed.until(lambda: "b" not in bed.owners().values(), 1.0)

    in_control(scenario)


def test_one_refusal_is_not_a_crash() -> None:
    async def scenario(bed: ControllerBed) -> None:
        _, b, _ = await bed.steady("a", "b", "c")
        before = bed.owners()
        for _ in range(20):
            bed.peers.refusing.add(b.record.address)
            await asyncio.sleep(0.15)  # below probe_confirm_s
            bed.peers.refusing.discard(b.record.address)
            await asyncio.sleep(0.5)
        assert bed.owners() == before

    in_control(scenario)


def test_a_falsely_suspected_server_becomes_a_joiner() -> None:
    async def scenario(bed: ControllerBed) -> None:
        _, b, _ = await bed.steady("a", "b", "c")
        bed.peers.refusing.add(b.record.address)
        await bed.until(lambda: "b" not in bed.owners().values(), 1.0)
        bed.peers.refusing.discard(b.record.address)
        await asyncio.sleep(2 * LIMITS.stable_after_s - 1)
        assert "b" not in bed.owners().values()
        await bed.until(lambda: "b" in bed.owners().values(), 3)

    in_control(scenario)


def test_an_announced_restart_in_time_moves_nothing() -> None:
    async def scenario(bed: ControllerBed) -> None:
        await bed.steady("a", "b", "c")
        before, ring = bed.records(), bed.ring()
        for name in "abc":  # the controller among them
            await bed.members[name].stop()
            await asyncio.sleep(15)
            await bed.start(name)
            await asyncio.sleep(5)
            assert not bed.leaving()
        assert bed.records() == before
        assert bed.ring() == ring

    in_control(scenario)


def test_an_announced_restart_that_takes_too_long_is_over() -> None:
    async def scenario(bed: ControllerBed) -> None:
        _, b, _ = await bed.steady("a", "b", "c")
        before = bed.owners()
        await b.stop(wait_s=20.0)
        await asyncio.sleep(19)
        assert bed.owners() == before
        await bed.until(lambda: "b" not in bed.owners().values(), 2)
        await bed.until(lambda: not bed.leaving(), 1)

    in_control(scenario)


def test_every_reservation_expires() -> None:
    async def scenario(bed: ControllerBed) -> None:
        _, b, _ = await bed.steady("a", "b", "c")
        await b.stop(wait_s=1e9)
        await asyncio.sleep(598)
        assert "b" in bed.owners().values()
        await bed.until(lambda: "b" not in bed.owners().values(), 3)

    in_control(scenario)


def test_a_restart_that_was_announced_but_not_made_is_forgotten() -> None:
    """Else a crash, days later, would be taken for that restart."""

    async def scenario(bed: ControllerBed) -> None:
        _, b, _ = await bed.steady("a", "b", "c")
        await b.announce(LeavingKind.RESTART)
        await asyncio.sleep(50)
        assert bed.leaving()
        await bed.until(lambda: not bed.leaving(), 15)
        b.crash()
        await bed.until(lambda: "b" not in bed.owners().values(), 1)

    in_control(scenario)


def test_a_drain_empties_the_server_and_lasts_until_it_is_taken_back() -> None:
    async def scenario(bed: ControllerBed) -> None:
        a, b, _ = await bed.steady("a", "b", "c")
        await b.announce(LeavingKind.DRAIN)
        await bed.until(lambda: "b" not in bed.owners().values(), 10)
        assert "b" not in bed.ring().servers
        await asyncio.sleep(60)
        assert "b" not in bed.owners().values()
        record = a.state.leaving.get(leaving_path("b"))
        assert record is not None
        await a.state.leaving.remove(leaving_path("b"), record)
        await bed.until(lambda: "b" in bed.owners().values(), 10)

    in_control(scenario)


def test_a_drain_is_forgotten_once_its_server_is_gone() -> None:
    async def scenario(bed: ControllerBed) -> None:
        _, b, _ = await bed.steady("a", "b", "c")
        await b.announce(LeavingKind.DRAIN)
        await bed.until(lambda: "b" not in bed.owners().values(), 10)
        b.crash()
        b.meta.expire()
        await bed.until(lambda: not bed.leaving(), LIMITS.stable_after_s + 2)

    in_control(scenario)


def test_a_planned_move_waits_until_the_former_owner_has_sealed() -> None:
    async def scenario(bed: ControllerBed) -> None:
        _, b, _ = await bed.steady("a", "b", "c")
        key = next(key for key, owner in bed.owners().items() if owner == "b")
        unsealed = Manifest(epoch=1, owner="b", segments=(Segment(0, 1),))
        await bed.meta.create(manifest_path(key), unsealed.encode())
        await b.announce(LeavingKind.DRAIN)
        await bed.until(lambda: "b" not in bed.owners().values(), 10)
        await bed.until(lambda: bed.moving() == ["b"], 1)
        sealed = unsealed.with_last_sealed(Segment(0, 1, 5, 100, 0))
        await bed.meta.replace(manifest_path(key), sealed.encode(), 1)
        await bed.until(lambda: not bed.moving(), 1)

    in_control(scenario)


def test_a_move_whose_former_owner_never_seals_ends_all_the_same() -> None:
    async def scenario(bed: ControllerBed) -> None:
        _, b, _ = await bed.steady("a", "b", "c")
        for key in bed.owners():
            unsealed = Manifest(epoch=1, owner="b", segments=(Segment(0, 1),))
            await bed.meta.create(manifest_path(key), unsealed.encode())
        await b.announce(LeavingKind.DRAIN)
        rounds = 60 / LIMITS.moves_at_once
        await bed.until(
            lambda: "b" not in bed.owners().values() and not bed.moving(),
            rounds * (JOURNAL_PATIENCE * LIMITS.handover_s + 1),
        )

    in_control(scenario)


def test_topics_are_placed_when_made_and_forgotten_when_gone() -> None:
    async def scenario(bed: ControllerBed) -> None:
        await bed.steady("a", "b")
        leader = bed.members[bed.leader()].controller
        bed.topics["new"] = 4
        leader.wake()
        assert await bed.until(lambda: "new" in bed.records(), 1) < 0.2
        bed.topics["new"] = 6
        leader.wake()
        assert await bed.until(lambda: len(bed.records()["new"].owners) == 6, 1) < 0.2
        assert all(bed.records()["new"].owners)
        del bed.topics["new"]
        leader.wake()
        await bed.until(lambda: "new" not in bed.records(), 10)

    in_control(scenario)


def test_a_new_controller_whose_topics_are_older_takes_nothing_away() -> None:
    async def scenario(bed: ControllerBed) -> None:
        await bed.steady("a", "b", "c")
        before = bed.records()
        bed.topics.clear()
        bed.members[bed.leader()].crash()
        await asyncio.sleep(3)
        bed.topics.update(TOPICS)
        await asyncio.sleep(10)
        assert set(bed.records()) == set(before)
        assert [len(record.owners) for record in bed.records().values()] == [12] * 5

    in_control(scenario)


def test_a_topic_that_is_being_deleted_is_not_moved() -> None:
    """Its new owner would write files that the deletion has already looked for."""

    async def scenario(bed: ControllerBed) -> None:
        _, b, _ = await bed.steady("a", "b", "c")
        before = bed.records()["topic-1"]
        del bed.topics["topic-1"]
        await b.announce(LeavingKind.DRAIN)
        await asyncio.sleep(3)
        assert bed.records()["topic-1"] == before
        await bed.until(lambda: "topic-1" not in bed.records(), 5)

    in_control(scenario)


def test_weights_change_the_ring() -> None:
    async def scenario(bed: ControllerBed) -> None:
        a, _ = await bed.steady("a", "b")
        await put_record(a.state.control, WEIGHTS, WeightsRecord(servers={"a": 96, "b": 0}))
        await bed.until(lambda: node_count(bed.ring().servers["a"]) == 96, 1)
        assert node_count(bed.ring().servers["b"]) == 32  # nonsense counts as not asked for
        await asyncio.sleep(20)
        assert list(bed.owners().values()).count("a") > 35

    in_control(scenario)


def test_two_controllers_at_once_end_with_one_assignment() -> None:
    """The leader record is deleted under its owner again and again; both continue to plan."""

    async def scenario(bed: ControllerBed) -> None:
        await bed.steady("a", "b", "c", "d")
        for turn in range(10):
            held = bed.storage.records[LEADER]
            del bed.storage.records[LEADER]  # the watches see nothing: it continues for a while
            other = Leader(name="a", incarnation="a.1", session=1)
            await bed.meta.create(LEADER, encode_record(other))
            name = f"topic-{turn}-new"
            bed.topics[name] = 6
            for member in bed.members.values():
                member.controller.wake()
            await asyncio.sleep(0.05)
            bed.storage.records[LEADER] = held
            bed.storage.record_changed(LEADER)
            await asyncio.sleep(0.05)
        await asyncio.sleep(5)
        assert len(bed.owners()) == 60 + 60
        assert set(bed.owners().values()) <= set("abcd")
        first = bed.owners()
        await asyncio.sleep(20)
        assert bed.owners() == first

    in_control(scenario)


def test_a_paused_leader_is_replaced_and_writes_nothing_when_it_wakes() -> None:
    async def scenario(bed: ControllerBed) -> None:
        await bed.steady("a", "b", "c")
        old = bed.members[bed.leader()]
        old.process.pause()
        await asyncio.sleep(1)
        old.meta.expire()
        old.meta.lost = True
        await bed.until(lambda: old.name not in bed.owners().values(), 2)
        now = bed.records()
        bed.topics["while-away"] = 3
        old.process.resume()
        await asyncio.sleep(0.2)
        assert not old.controller.leading
        assert {uuid: item for uuid, item in bed.records().items() if uuid != "while-away"} == now

    in_control(scenario)


def test_a_suspended_leader_moves_nothing() -> None:
    async def scenario(bed: ControllerBed) -> None:
        await bed.steady("a", "b", "c")
        leader = bed.members[bed.leader()]
        others = [member for member in bed.members.values() if member is not leader]
        leader.meta.suspend()
        for other in others:
            other.meta.suspend()
        before = bed.records()
        bed.topics["new"] = 3
        others[0].crash()
        await asyncio.sleep(5)
        assert bed.records() == before
        assert not leader.controller.leading
        for item in (leader, others[1]):
            item.meta.connected, item.meta.valid_until_s = True, float("inf")
        await bed.until(lambda: "new" in bed.records(), 3)
        await bed.until(lambda: others[0].name not in bed.owners().values(), 2)

    in_control(scenario)


def test_a_second_interruption_takes_over_nothing_from_those_that_still_return() -> None:
    """The outage ended every session; the first that is back loses its connection once more."""

    async def scenario(bed: ControllerBed) -> None:
        await bed.steady("a", "b", "c")
        before = bed.owners()
        first, *others = bed.members.values()
        for member in (first, *others):
            member.meta.suspend()
        await asyncio.sleep(10)
        for member in (first, *others):
            member.meta.expire()
        first.meta.connected, first.meta.valid_until_s = True, float("inf")
        await first.register()
        await asyncio.sleep(1)
        first.meta.suspend()
        await asyncio.sleep(1.5)
        first.meta.connected, first.meta.valid_until_s = True, float("inf")
        await asyncio.sleep(3)
        assert first.controller.leading
        assert bed.owners() == before
        for member in others:
            member.meta.connected, member.meta.valid_until_s = True, float("inf")
            await member.register()
        await asyncio.sleep(10)
        assert bed.owners() == before

    in_control(scenario)


def test_a_leader_record_of_an_earlier_life_is_removed() -> None:
    """The controller's machine restarts so fast that its old session still holds the lead."""

    async def scenario(bed: ControllerBed) -> None:
        await bed.steady("a", "b")
        old = bed.members[bed.leader()]
        old.crash()
        held = bed.storage.records.pop(server_path(old.name))
        assert held.owner is old.meta
        bed.storage.record_changed(server_path(old.name))
        (new,) = await bed.start(old.name)
        await bed.until(lambda: bed.leader() != "" and any(
            item.controller.leading for item in (new, *bed.members.values())
        ), 2)  # fmt: skip
        assert bed.storage.records[LEADER].owner is not old.meta

    in_control(scenario)


def test_a_controller_that_stops_lets_another_lead_at_once() -> None:
    async def scenario(bed: ControllerBed) -> None:
        await bed.steady("a", "b")
        old = bed.leader()
        await bed.members[old].controller.close()
        assert await bed.until(lambda: bed.leader() not in ("", old), 1) < 0.3

    in_control(scenario)


def test_a_controller_that_failed_lets_another_lead_and_can_lead_again() -> None:
    async def scenario(bed: ControllerBed) -> None:
        await bed.steady("a", "b")
        old = bed.members[bed.leader()]

        whole = vars(old.controller)["_roster"]
        vars(old.controller)["_roster"] = SimpleNamespace(look=lambda *_: 1 / 0)
        old.controller.wake()
        await bed.until(lambda: bed.leader() not in ("", old.name), 2)
        vars(old.controller)["_roster"] = whole
        bed.members[bed.leader()].crash()
        await bed.until(lambda: bed.leader() == old.name, 10)
        await bed.until(lambda: set(bed.owners().values()) == {old.name}, 2)

    in_control(scenario)


def test_without_live_servers_the_assignment_stays() -> None:
    """The last server's own record vanished: it plans nothing rather than unassign everything."""

    async def scenario(bed: ControllerBed) -> None:
        (a,) = await bed.steady("a")
        before = bed.records()
        del bed.storage.records[server_path("a")]
        bed.storage.record_changed(server_path("a"))
        bed.topics["new"] = 1
        a.controller.wake()
        await asyncio.sleep(5)
        assert bed.records() == before

    in_control(scenario)


def test_moves_are_remembered_with_their_kind() -> None:
    async def scenario(bed: ControllerBed) -> None:
        _, b, c = await bed.steady("a", "b", "c")
        leader = bed.members[bed.leader()].controller
        if leader in (b.controller, c.controller):
            return
        planned = leader.publication.planned_moves
        assert planned > 0
        assert leader.publication.takeovers == 0
        mine = [key for key, owner in bed.owners().items() if owner == "b"]
        b.crash()
        await asyncio.sleep(2)
        assert leader.publication.takeovers == len(mine)
        recent = list(leader.publication.recent)[-len(mine) :]
        assert {PartitionKey(item.topic_uuid, item.partition) for item in recent} == set(mine)
        assert not any(item.planned for item in recent)

    in_control(scenario, replace(LIMITS, moves_at_once=100))
