"""Records of format 1 as they lie in data directories: they must stay readable."""

from opentalos.catalog.principals.record import KeyRecord, PrincipalRecord, decode_principal
from opentalos.catalog.quota.quotas import PartitionQuota, UserQuota
from opentalos.catalog.quota.records import decode_quota_record
from opentalos.catalog.topics.groups import TopicGroup, TopicGroupType, decode_topic_group
from opentalos.catalog.topics.topic import BaseQuota, Topic, TopicStatus, decode_topic
from opentalos.model.identity import Grantee, GrantType, Principal

TOPIC = (
    b'{"acl":[["DEVELOPER","bob",6],["GUEST","guest",2]],"attributes":{"durability":"flushed"},'
    b'"bound_organisation":"CLx","bound_team":"CIy","charge_id":"c","consumer_partitions":4,'
    b'"created_ms":1700000000000,"name":"t","old_partitions":4,"owner":"CL#1","owner_name":"A",'
    b'"partitions":2,"partitions_changed_ms":1700000000001,"partitions_ever":8,'
    b'"quota":{"get_bytes_per_s":null,"get_requests_per_s":null,"put_bytes_per_s":0,'
    b'"put_requests_per_s":7,"space_bytes":1000},"retention_s":86400,"status":"DELETING",'
    b'"uuid":"00ff","version":1}'
)
PRINCIPAL = (
    b'{"version":1,"id":"carol","number":7,"organisation":"CLx","team":"CIy","admin":false,'
    b'"created_ms":5,"disabled":true,"keys":[{"key_id":"AKX","sealed":"AQID","created_ms":6,'
    b'"disabled":false}]}'
)
GROUP = (
    b'{"version":1,"name":"g","owner":"CLx","type":"TOPIC_PATTERN","pattern":"a.*","topics":[],'
    b'"excluded":["ax"]}'
)
USER_QUOTA = (
    b'{"version":1,"user":{"rates":{"space_bytes":5,"put_requests_per_s":null,'
    b'"get_requests_per_s":null,"put_bytes_per_s":null,"get_bytes_per_s":null},"topics":3}}'
)
PARTITION_QUOTA = (
    b'{"version":1,"partitions":{"organisation":"CLx","total":20,"used":0,"reason":"r",'
    b'"organisation_name":"X"}}'
)


def test_a_topic_of_format_1_reads() -> None:
    assert decode_topic(TOPIC) == Topic(
        uuid="00ff",
        owner="CL#1",
        name="t",
        partitions=2,
        consumer_partitions=4,
        partitions_ever=8,
        retention_s=86_400,
        status=TopicStatus.DELETING,
        attributes={"durability": "flushed"},
        acl={Grantee(GrantType.DEVELOPER, "bob"): 6, Grantee(GrantType.GUEST, "guest"): 2},
        quota=BaseQuota(space_bytes=1_000, put_requests_per_s=7, put_bytes_per_s=0),
        created_ms=1_700_000_000_000,
        old_partitions=4,
        partitions_changed_ms=1_700_000_000_001,
        charge_id="c",
        owner_name="A",
        bound_organisation="CLx",
        bound_team="CIy",
    )


def test_a_principal_of_format_1_reads() -> None:
    carol = Principal(id="carol", number=7, organisation="CLx", team="CIy")
    key = KeyRecord(key_id="AKX", sealed=b"\x01\x02\x03", created_ms=6, disabled=False)
    assert decode_principal(PRINCIPAL) == PrincipalRecord(
        principal=carol, created_ms=5, disabled=True, keys=(key,)
    )


def test_a_topic_group_of_format_1_reads() -> None:
    assert decode_topic_group(GROUP) == TopicGroup(
        name="g", owner="CLx", type=TopicGroupType.TOPIC_PATTERN, pattern="a.*", excluded=("ax",)
    )


def test_quotas_of_format_1_read() -> None:
    assert decode_quota_record(USER_QUOTA) == UserQuota(rates=BaseQuota(space_bytes=5), topics=3)
    assert decode_quota_record(PARTITION_QUOTA) == PartitionQuota(
        organisation="CLx", total=20, reason="r", organisation_name="X"
    )
