"""What a migration decides."""

from dataclasses import replace

import pytest

from opentalos.cli.migrate.copy import Pace
from opentalos.cli.migrate.plan import (
    Action,
    Move,
    action_for,
    chosen_names,
    move_for,
    producer_id_of,
    wanted_grants,
)
from opentalos.cli.migrate.state_file import CopiedTopic
from opentalos.model.errors import BadRequest
from opentalos.model.identity import Permission
from opentalos.model.message import PRODUCER_ID_MAX
from opentalos.sdk.core.values import (
    PartitionState,
    Quota,
    TopicDescription,
    TopicInfo,
    TopicStatus,
)

KNOWN = CopiedTopic("a#t#1", "b#t#2")


def described(resource: str = "a#t#1", end: int = -1, **fields: object) -> TopicDescription:
    found = TopicDescription(
        info=TopicInfo("t", resource, resource.partition("#")[0]), partitions=2, retention_s=3600,
        status=TopicStatus.ACTIVE, created_ms=0, quota=Quota(),
        states=(PartitionState(0, 0, end, end + 1, 0, 0, 0),),
    )  # fmt: skip
    return replace(found, **fields)  # type: ignore[arg-type]


def test_topics_are_chosen_by_pattern_and_system_topics_are_none() -> None:
    found = ["orders", "orders-eu", "clicks", "__audit"]
    assert chosen_names((), found) == ["clicks", "orders", "orders-eu"]
    assert chosen_names(("orders*", "bob/granted"), found) == ["bob/granted", "orders", "orders-eu"]
    with pytest.raises(BadRequest, match=r"no topic of the source matches x\*"):
        chosen_names(("x*",), found)


def test_a_topic_is_created_adopted_if_empty_or_resumed() -> None:
    assert action_for(described(), None, None) is Action.CREATE
    assert action_for(described(end=9), described("b#t#2"), None) is Action.ADOPT
    assert action_for(described(), described("b#t#2", end=5), KNOWN) is Action.RESUME


@pytest.mark.parametrize(
    ("source", "target", "known", "said"),
    [
        (described(), described("b#t#2", partitions=3), None, "2 partitions at the source and 3"),
        (described(), described("b#t#2", attributes={"partitioner": "murmur2"}), None, "official"),
        (described(), described("b#t#2", end=0), None, "not of this migration"),
        (described(), described(), None, "same topic"),
        (described("a#t#9"), described("b#t#2"), KNOWN, "again at the source"),
        (described(), described("b#t#9"), KNOWN, "again at the target"),
        (described(), None, KNOWN, "deleted at the target"),
        (described(old_partitions=4), None, None, "try again later"),
    ],
)
def test_what_cannot_be_copied_is_refused(
    source: TopicDescription, target: TopicDescription | None, known: CopiedTopic | None, said: str
) -> None:
    with pytest.raises(BadRequest, match=said):
        action_for(source, target, known)


def test_owners_need_no_grant() -> None:
    given = {"a": Permission.ADMIN, "b": Permission.ADMIN, "c": Permission.GET_MESSAGE}
    found = wanted_grants(described(permissions=given), "a", "b")
    assert found == {"c": Permission.GET_MESSAGE}


def test_a_position_is_set_unless_the_group_has_moved_at_the_target() -> None:
    assert move_for(5, -1, None) is Move.SET
    assert move_for(9, 5, 5) is Move.SET
    assert move_for(5, 5, None) is Move.SAME
    assert move_for(5, 7, 5) is Move.KEEP
    assert move_for(5, 7, None) is Move.KEEP


def test_the_producer_id_is_the_same_in_each_run_and_another_per_target() -> None:
    found = producer_id_of("a#t#1", "b#t#2")
    assert found == producer_id_of("a#t#1", "b#t#2") != producer_id_of("a#t#1", "b#t#3")
    assert 0 < found <= PRODUCER_ID_MAX


def test_bytes_pass_at_the_given_rate() -> None:
    now_s = [0.0]
    pace = Pace(100.0, clock=lambda: now_s[0])
    assert [pace.charge(50), pace.charge(50), pace.charge(10)] == [0.0, 0.5, 1.0]
    now_s[0] = 9.0
    assert pace.charge(1) == 0.0
    assert Pace(None).charge(1 << 40) == 0.0
