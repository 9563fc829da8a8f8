"""What is recorded of who changed what, and what never is."""

import logging
from collections.abc import Callable

import pytest
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE, BOB, CAROL, ROOT

from opentalos.broker.audit.trail import Act, Origin
from opentalos.broker.values import BaseQuota, CheckpointKey, ConsumeUnit, PartitionQuota, UserQuota
from opentalos.model.errors import (
    OutcomeUnknown,
    PermissionDenied,
    PrincipalExists,
    TopicExists,
    TopicNotExist,
)
from opentalos.model.identity import Permission
from opentalos.model.settings.security import AuditSettings
from opentalos.wire.metrics.audit_event import AuditEvent

FROM = Origin("10.1.2.3", "request-1")


def recorded(w: World) -> Callable[[], list[AuditEvent]]:
    """The events since the call before."""
    raw: list[bytes] = []
    w.broker.context.audit.connect(raw.append, lambda: FROM)

    def take() -> list[AuditEvent]:
        found = [AuditEvent.decode(event) for event in raw]
        raw.clear()
        return found

    return take


async def test_a_change_has_who_from_where_what_and_the_outcome() -> None:
    async with world() as w:
        take = recorded(w)
        topic = await w.topic(CAROL, "orders", partitions=3)
        (event,) = take()
        assert (event.principal, event.tenant) == ("carol", CAROL.owner_id)
        assert (event.address, event.request) == FROM
        assert (event.action, event.resource) == ("create a topic", topic.resource)
        assert (event.owner, event.outcome, event.error) == (CAROL.owner_id, "done", "")
        assert event.details == {"partitions": "3"}
        assert (event.server, event.at_ms) == ("s1", w.clock.now_ms)


async def test_every_kind_of_change_is_recorded() -> None:
    async with world() as w:
        take, broker = recorded(w), w.broker
        await broker.principals.create(ROOT, "eve")
        await broker.principals.create_key(ROOT, "eve")
        await broker.principals.set_disabled(ROOT, "eve", True)
        topic = await w.topic(ALICE)
        await broker.permissions.grant_to(ALICE, topic.resource, "bob", Permission.GET_MESSAGE)
        await broker.permissions.revoke_from(ALICE, topic.resource, "bob")
        await broker.quotas.set_topic_quota(ALICE, topic.resource, BaseQuota(space_bytes=5))
        await broker.quotas.set_user_quota(ROOT, "alice", UserQuota(topics=9))
        wanted = PartitionQuota(organisation="CLacme", total=7)
        await broker.partition_quotas.approve_quota(ROOT, wanted)
        await w.put(ALICE, topic, 0, 3)
        unit = ConsumeUnit("g", topic.resource, "w", (0,))
        assert await broker.consumers.lock_worker(ALICE, unit, "10.0.0.1")
        await broker.consumers.reset_checkpoint(ALICE, CheckpointKey("g", topic.resource, 0), 1)
        await broker.topics.delete_topic(ALICE, topic.resource)
        found = take()
        assert [event.action for event in found] == [
            "create a principal", "create a key", "disable a principal", "create a topic",
            "grant", "revoke", "set a topic quota", "set a user quota", "approve quota",
            "reset a checkpoint", "delete a topic",
        ]  # fmt: skip
        assert {event.outcome for event in found} == {"done"}
        assert [event.owner for event in found] == [
            *["eve"] * 3, *["alice"] * 5, "CLacme", "alice", "alice",
        ]  # fmt: skip
        assert found[4].details == {"identifier": "bob", "permission": "GET_MESSAGE"}
        assert found[9].details == {"group": "g", "partition": "0", "offset": "1"}


async def test_no_secret_is_recorded(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as w:
        raw: list[bytes] = []
        w.broker.context.audit.connect(raw.append, lambda: FROM)
        await w.broker.principals.create(ROOT, "eve")
        with caplog.at_level(logging.INFO, "opentalos.audit"):
            first = await w.broker.principals.create_key(ROOT, "eve")
            second = await w.broker.principals.rotate_key(ROOT, first.key_id)
        for key in (first, second):
            assert key.secret not in caplog.text
            assert key.secret.encode() not in b"".join(raw)
            assert key.key_id.encode() in b"".join(raw)
        assert AuditEvent.decode(raw[-1]).owner == "eve"


async def test_a_denial_is_shown_to_the_owner_of_what_was_tried() -> None:
    async with world() as w:
        topic = await w.topic(ALICE)
        take = recorded(w)
        with pytest.raises(TopicNotExist):
            await w.broker.topics.delete_topic(BOB, topic.resource)
        with pytest.raises(PermissionDenied):
            await w.broker.principals.create(BOB, "eve")
        topics, principals = take()
        assert (topics.principal, topics.owner, topics.outcome) == ("bob", "alice", "denied")
        assert (topics.action, topics.address) == ("CHANGE_TOPIC", "10.1.2.3")
        assert (principals.action, principals.outcome) == ("create a principal", "denied")


async def test_a_failure_is_recorded_once_and_too_many_are_counted() -> None:
    async with world(audit=AuditSettings(failures_per_s_max=2)) as w:
        await w.broker.principals.create(ROOT, "eve")
        take = recorded(w)
        for _ in range(5):
            with pytest.raises(PrincipalExists):
                await w.broker.principals.create(ROOT, "eve")
        found = take()
        assert [(event.outcome, event.error) for event in found] == [
            ("failed", "PrincipalExists")
        ] * 2
        w.time.advance(1.0)
        topic = await w.topic(ALICE)
        with pytest.raises(TopicExists):
            await w.topic(ALICE)
        made, failed = take()
        assert (made.resource, made.outcome) == (topic.resource, "done")
        assert failed.details["left_out"] == "3"


async def test_an_unknown_outcome_is_said_to_be_unknown() -> None:
    async with world() as w:
        take = recorded(w)
        act = Act("delete a topic", "alice#t#1", "alice")
        w.broker.context.audit.record(ALICE, act, OutcomeUnknown("timeout"))
        (event,) = take()
        assert (event.outcome, event.error) == ("unknown", "OutcomeUnknown")


async def test_a_line_of_the_log_has_the_same_fields(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as w:
        recorded(w)
        with caplog.at_level(logging.INFO, "opentalos.audit"):
            topic = await w.topic(ALICE)
        assert caplog.messages == [
            "audit principal='alice' tenant='alice' address='10.1.2.3' action='create a topic' "
            f"resource='{topic.resource}' owner='alice' outcome='done' partitions='1'"
        ]


async def test_long_texts_of_a_caller_are_cut() -> None:
    async with world() as w:
        take = recorded(w)
        act = Act("a", "r" * 10_000, "o" * 10_000, {str(n): "v" * 10_000 for n in range(99)})
        w.broker.context.audit.record(ALICE, act)
        (event,) = take()
        assert len(event.encode()) < 10_000
