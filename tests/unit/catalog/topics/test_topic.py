from dataclasses import replace

import pytest
from tests.unit.catalog.support import ALICE, CAROL, ROOT

from opentalos.catalog.topics.change import (
    AttributeChange,
    NewTopic,
    bound_topic,
    changed_topic,
    new_topic,
    shrunk_topic,
    split_name,
    tombstone,
    without_attribute,
)
from opentalos.catalog.topics.topic import BaseQuota, Topic, TopicStatus, decode_topic, encode_topic
from opentalos.model.errors import (
    BadRequest,
    ChangePartitionTooFast,
    CorruptLog,
    InvalidName,
    InvalidTopicParams,
    NewerFormat,
    PermissionDenied,
    SubResourceNameExists,
)
from opentalos.model.identity import Grantee, GrantType, Permission
from opentalos.model.limits import TopicLimits
from opentalos.model.message import Durability

LIMITS = TopicLimits()
NOW_MS = 1_700_000_000_000


def _topic(**fields: object) -> Topic:
    new = NewTopic(name="t", partitions=4)
    made = new_topic(new, ("alice", "t"), "u1", NOW_MS, LIMITS)
    return replace(made, **fields)  # type: ignore[arg-type]


def test_a_record_reads_back_as_the_same_topic() -> None:
    topic = _topic(
        attributes={"durability": "flushed", "retention.bytes": "1000", "free": "ü"},
        acl={Grantee(GrantType.APP_ROOT, "bob"): 5, Grantee(GrantType.GUEST, "guest"): 2},
        quota=BaseQuota(space_bytes=10, put_bytes_per_s=0),
        old_partitions=2,
        bound_organisation="CLx",
    )
    assert decode_topic(encode_topic(topic)) == topic
    assert topic.resource == "alice#t#u1"
    assert topic.durability is Durability.FLUSHED
    assert topic.retention_bytes == 1000


def test_a_newer_record_is_refused_and_garbage_is_corrupt() -> None:
    value = encode_topic(_topic()).rpartition(b",")[0] + b"}"  # without its checksum
    with pytest.raises(NewerFormat, match="2"):
        decode_topic(value.replace(b'"version":1', b'"version":2'))
    for garbage in (b"", b"[]", b"{}", b'{"version":1}', value.replace(b"ACTIVE", b"ODD")):
        with pytest.raises(CorruptLog):
            decode_topic(garbage)


def test_a_new_topic_takes_the_documented_defaults() -> None:
    topic = _topic()
    assert (topic.retention_s, topic.partitions_ever, topic.old_partitions) == (86_400, 4, None)
    assert topic.durability is Durability.SYNCED
    assert topic.retention_bytes is None


@pytest.mark.parametrize(
    "new",
    [
        NewTopic(name="t", partitions=None),
        NewTopic(name="t", partitions=0),
        NewTopic(name="t", partitions=257),
        NewTopic(name="t", partitions=1, retention_s=3_599),
        NewTopic(name="t", partitions=1, retention_s=365 * 86_400 + 1),
        NewTopic(name="t", partitions=1, attributes={"durability": "maybe"}),
        NewTopic(name="t", partitions=1, attributes={"retention.bytes": "-1"}),
        NewTopic(name="t", partitions=1, attributes={"retention.bytes": "9" * 5_000}),
        NewTopic(name="t", partitions=1, attributes={"k": "v" * (64 << 10)}),
        NewTopic(name="t", partitions=1, attributes={"": "v"}),
    ],
)
def test_an_attribute_out_of_its_range_is_refused(new: NewTopic) -> None:
    with pytest.raises(InvalidTopicParams):
        new_topic(new, ("alice", "t"), "u", NOW_MS, LIMITS)


def test_a_creator_cannot_grant_what_only_owners_have() -> None:
    for permission in (Permission.CHANGE_TOPIC, Permission.ADMIN):
        acl = {Grantee(GrantType.DEVELOPER, "bob"): permission}
        with pytest.raises(PermissionDenied):
            new_topic(NewTopic(name="t", partitions=1, acl=acl), ("a", "t"), "u", 0, LIMITS)


def test_only_members_name_their_organisation_as_owner() -> None:
    assert split_name(ALICE, "t") == ("alice", "t")
    assert split_name(CAROL, "t") == ("CLacme", "t")
    assert split_name(CAROL, "CLacme/t") == ("CLacme", "t")
    assert split_name(ROOT, "CLother/t") == ("CLother", "t")
    with pytest.raises(PermissionDenied):
        split_name(CAROL, "CLother/t")
    for name in ("alice/t", "CLacme/a/b", "CLacme/", "/t", "..", "a b", "a\0", "x" * 10_240, ""):
        with pytest.raises(InvalidName):
            split_name(CAROL, name)


def test_growth_shows_at_once_to_producers_and_consumers() -> None:
    grown = changed_topic(_topic(), AttributeChange(partitions=6), NOW_MS, LIMITS)
    assert (grown.partitions, grown.consumer_partitions, grown.partitions_ever) == (6, 6, 6)
    assert grown.old_partitions == 4
    assert not grown.shrinking


def test_a_shrink_drops_the_producers_count_first() -> None:
    shrinking = changed_topic(_topic(), AttributeChange(partitions=1), NOW_MS, LIMITS)
    assert (shrinking.partitions, shrinking.consumer_partitions) == (1, 4)
    assert shrinking.shrinking
    ended = shrunk_topic(shrinking)
    assert (ended.consumer_partitions, ended.partitions_ever) == (1, 4)
    assert not ended.shrinking


def test_the_partition_count_cannot_change_while_a_shrink_drains_or_too_soon() -> None:
    shrinking = changed_topic(_topic(), AttributeChange(partitions=1), NOW_MS, LIMITS)
    later_ms = NOW_MS + 60_000
    with pytest.raises(ChangePartitionTooFast, match="draining partitions 1 to 3"):
        changed_topic(shrinking, AttributeChange(partitions=2), later_ms, LIMITS)
    ended = shrunk_topic(shrinking)
    with pytest.raises(ChangePartitionTooFast, match=r"4\.9 s ago, limit 5\.0 s"):
        changed_topic(ended, AttributeChange(partitions=2), NOW_MS + 4_900, LIMITS)
    again = changed_topic(ended, AttributeChange(partitions=2), NOW_MS + 5_000, LIMITS)
    assert (again.partitions, again.consumer_partitions, again.partitions_ever) == (2, 2, 4)


def test_only_the_fields_that_are_set_change() -> None:
    topic = _topic(attributes={"a": "1", "b": "2"})
    assert changed_topic(topic, AttributeChange(), NOW_MS, LIMITS) == topic
    same = AttributeChange(partitions=4)
    assert changed_topic(topic, same, NOW_MS, LIMITS) == topic
    change = AttributeChange(retention_s=7_200, attributes={"b": "3", "c": "4"})
    changed = changed_topic(topic, change, NOW_MS, LIMITS)
    assert changed.retention_s == 7_200
    assert changed.attributes == {"a": "1", "b": "3", "c": "4"}
    assert without_attribute(changed, "a").attributes == {"b": "3", "c": "4"}


def test_a_tombstone_grants_nothing_and_keeps_what_names_the_logs() -> None:
    dead = tombstone(_topic(acl={Grantee(GrantType.DEVELOPER, "bob"): 3}))
    assert dead.status is TopicStatus.DELETING
    assert (dead.acl, dead.uuid, dead.partitions_ever) == ({}, "u1", 4)


def test_a_topic_is_bound_once_and_only_if_a_developer_owns_it() -> None:
    bound = bound_topic(_topic(), "CLacme", "CIred")
    assert (bound.bound_organisation, bound.bound_team) == ("CLacme", "CIred")
    with pytest.raises(SubResourceNameExists):
        bound_topic(bound, "CLother", "CIred")
    with pytest.raises(SubResourceNameExists):
        bound_topic(_topic(owner="CLacme"), "CLother", "CIred")
    for organisation, team in (("acme", "CIred"), ("CLacme", "red"), ("CLacme", "CI red")):
        with pytest.raises(InvalidName):
            bound_topic(_topic(), organisation, team)


def test_a_text_for_people_is_bounded() -> None:
    with pytest.raises(BadRequest):
        new_topic(
            NewTopic(name="t", partitions=1, owner_name="x" * 257), ("a", "t"), "u", 0, LIMITS
        )
