"""A session in each version: topics, records, a group, rights, all by requests made by kio."""

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from scripts.kafka_capture.made import WAIT_MS, MadeClient

from opentalos.wire.kafka.apis import ApiKey, api_of
from opentalos.wire.kafka.spec import includes

K = ApiKey
Values = dict[str, Any]
NO_ID = UUID(int=0)
TIME_MS = 1_700_000_000_000
VERSIONS_MAX = 20
TOPIC, GROUP_TOPIC = 2, 3  # kinds of resources
LITERAL, ALLOW, READ = 3, 3, 3
WARM_TRIES_MAX = 100
WARM_PAUSE_S = 0.2


def batch() -> bytes:
    """A record batch of one record."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1_000)
    builder.append(0, TIME_MS, b"k", b"hi", [("header", b"value")])
    return bytes(builder.build())


class Session:
    """What the requests of one version need of the answers before."""

    def __init__(self, client: MadeClient, version: int) -> None:
        self._client, self.version = client, version
        self.topic, self.group = f"golden-{version}", f"group-{version}"
        self.topic_id, self.member, self.generation = NO_ID, "", -1

    def call(self, key: ApiKey, values: Values) -> Any:
        """The answer, or None if the request has no such version."""
        if not includes(api_of(key).versions, self.version):
            return None
        return self._client.call(key, self.version, values)

    def always(self, key: ApiKey, values: Values) -> Any:
        """The answer, in the nearest version there is."""
        first, last = api_of(key).versions
        return self._client.call(key, min(max(self.version, first), last), values)

    def named(self) -> dict[str, Any]:
        """The topic, by name or by id."""
        return {"name": self.topic, "topic": self.topic, "topic_id": self.topic_id}

    def topics(self) -> None:
        """Create, describe, change."""
        new: Any = {"name": self.topic, "num_partitions": 1, "replication_factor": 1}
        self.always(K.CREATE_TOPICS, {"topics": [new], "timeout": WAIT_MS})
        found = self._client.call(K.METADATA, 13, {"topics": [{"name": self.topic}]})
        self.topic_id = UUID(bytes=found.topics[0].topic_id)
        self.call(K.METADATA, {"topics": [{"name": self.topic, "topic_id": NO_ID}]})
        more: Any = {"name": self.topic, "count": 2, "assignments": None}
        self.call(K.CREATE_PARTITIONS, {"topics": [more], "timeout": WAIT_MS})
        resource: Any = {"resource_type": TOPIC, "resource_name": self.topic}
        change: Any = [{"name": "retention.ms", "config_operation": 0, "value": "86400000"}]
        self.call(K.INCREMENTAL_ALTER_CONFIGS, {"resources": [resource | {"configs": change}]})
        whole: Any = [{"name": "retention.ms", "value": "86400000"}]
        self.call(K.ALTER_CONFIGS, {"resources": [resource | {"configs": whole}]})
        keys = ["retention.ms", "cleanup.policy", "max.message.bytes"]
        asked: Any = resource | {"configuration_keys": keys}
        self.call(K.DESCRIBE_CONFIGS, {"resources": [asked], "include_synonyms": True})
        page: Any = {
            "topics": [{"name": self.topic}],
            "response_partition_limit": 100,
            "cursor": None,
        }
        self.call(K.DESCRIBE_TOPIC_PARTITIONS, page)
        self.call(K.DESCRIBE_CLUSTER, {"endpoint_type": 1})
        self.call(
            K.API_VERSIONS, {"client_software_name": "golden", "client_software_version": "1"}
        )

    def records(self) -> None:
        """Write, read, ask for offsets, delete."""
        part: Any = {"index": 0, "records": batch()}
        written: Any = {"acks": -1, "timeout": WAIT_MS, "transactional_id": None}
        written["topic_data"] = [self.named() | {"partition_data": [part]}]
        self.always(K.PRODUCE, written)
        wanted: Any = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
        wanted["current_leader_epoch"] = wanted["last_fetched_epoch"] = -1
        wanted["log_start_offset"] = -1
        read: Any = {"max_wait": 500, "min_bytes": 1, "max_bytes": 10_000, "session_epoch": -1}
        read["replica_id"] = -1
        read["topics"] = [self.named() | {"partitions": [wanted]}]
        self.call(K.FETCH, read)
        at: Any = {"partition_index": 0, "timestamp": TIME_MS, "current_leader_epoch": -1}
        self.call(
            K.LIST_OFFSETS,
            {"replica_id": -1, "topics": [self.named() | {"partitions": [at]}], "timeout": WAIT_MS},
        )
        epoch: Any = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        self.call(
            K.OFFSET_FOR_LEADER_EPOCH,
            {"replica_id": -1, "topics": [self.named() | {"partitions": [epoch]}]},
        )
        new: Any = {"transaction_timeout": WAIT_MS, "producer_id": -1, "producer_epoch": -1}
        self.call(K.INIT_PRODUCER_ID, new)
        gone: Any = self.named() | {"partitions": [{"partition_index": 0, "offset": 1}]}
        self.call(K.DELETE_RECORDS, {"topics": [gone], "timeout": WAIT_MS})

    def _member(self) -> Values:
        return {
            "group_id": self.group,
            "member_id": self.member,
            "generation_id": self.generation,
            "generation_id_or_member_epoch": self.generation,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": "range",
        }

    def joined(self) -> None:
        """Become the only member of a classic group."""
        self.always(K.FIND_COORDINATOR, {"key": self.group, "coordinator_keys": [self.group]})
        self.call(K.FIND_COORDINATOR, {"key": self.group, "coordinator_keys": [self.group]})
        asked: Any = {"session_timeout": WAIT_MS, "rebalance_timeout": WAIT_MS}
        asked |= {"protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}]}
        for _ in range(2):  # the first answer names the member
            answer = self.always(K.JOIN_GROUP, self._member() | asked)
            self.member, self.generation = answer.member_id, answer.generation_id
            if not answer.error_code:
                break
        given: Any = [{"member_id": self.member, "assignment": b"\0\0\0\0\0\0\0\0\0\0"}]
        self.always(K.SYNC_GROUP, self._member() | {"assignments": given})

    def offsets(self) -> None:
        """A member commits and leaves; the group is described and deleted."""
        self.call(K.HEARTBEAT, self._member())
        part: Any = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "note"}
        part["committed_leader_epoch"] = part["commit_timestamp"] = -1
        spot: Any = self.named() | {"partitions": [part], "partition_indexes": [0]}
        self.always(K.OFFSET_COMMIT, self._member() | {"retention_time": -1, "topics": [spot]})
        whole: Any = {
            "group_id": self.group,
            "member_id": None,
            "member_epoch": -1,
            "topics": [spot],
        }
        self.call(K.OFFSET_FETCH, whole | {"groups": [whole]})
        self.call(K.DESCRIBE_GROUPS, {"groups": [self.group]})
        self.call(K.LIST_GROUPS, {"states_filter": ["Stable"]})
        member: Any = {"member_id": self.member, "group_instance_id": None}
        self.always(K.LEAVE_GROUP, self._member() | {"members": [member]})
        self.call(K.OFFSET_DELETE, {"group_id": self.group, "topics": [spot]})
        self.call(K.DELETE_GROUPS, {"groups_names": [self.group]})

    def newer_groups(self) -> None:
        """A member of a group as KIP-848 has it."""
        group = f"next-{self.group}"
        asked: Any = {"group_id": group, "rebalance_timeout": WAIT_MS, "topic_partitions": []}
        asked |= {"member_id": f"member-{self.version}" if self.version else ""}
        asked |= {"subscribed_topic_names": [self.topic]}
        answer = self.call(K.CONSUMER_GROUP_HEARTBEAT, asked)
        self.call(K.CONSUMER_GROUP_DESCRIBE, {"group_ids": [group]})
        if answer is not None:
            left = {"group_id": group, "member_id": answer.member_id, "member_epoch": -1}
            self.call(K.CONSUMER_GROUP_HEARTBEAT, left | {"rebalance_timeout": -1})

    def rights(self) -> None:
        """Grant, list, take back."""
        right: Any = {
            "resource_type": TOPIC,
            "resource_name": self.topic,
            "resource_pattern_type": LITERAL,
            "principal": "User:alice",
            "host": "*",
            "operation": READ,
            "permission_type": ALLOW,
        }
        self.call(K.CREATE_ACLS, {"creations": [right]})
        names = ("resource_type", "resource_name", "principal", "host")
        those: Any = {f"{name}_filter": right[name] for name in names}
        those |= {"pattern_type_filter": LITERAL, "operation": READ, "permission_type": ALLOW}
        self.call(K.DESCRIBE_ACLS, those)
        self.call(K.DELETE_ACLS, {"filters": [those]})

    def end(self) -> None:
        """Delete the topic."""
        gone: Any = {
            "topics": [{"name": self.topic, "topic_id": NO_ID}],
            "topic_names": [self.topic],
        }
        self.call(K.DELETE_TOPICS, gone | {"timeout": WAIT_MS})


STEPS: tuple[Callable[[Session], None], ...] = (
    Session.topics,
    Session.records,
    Session.joined,
    Session.offsets,
    Session.newer_groups,
    Session.rights,
    Session.end,
)


def warm(port: int) -> None:
    """Wait until Kafka coordinates groups, which it begins to with the first question."""
    with MadeClient(port) as client:
        for _ in range(WARM_TRIES_MAX):
            session = Session(client, 3)
            session.group = "warm"
            session.joined()
            if session.generation > 0:
                return
            time.sleep(WARM_PAUSE_S)
    raise TimeoutError("Kafka coordinates no group")


def speak(port: int) -> None:
    """All versions of all requests but those of SASL."""
    for version in range(VERSIONS_MAX):
        with MadeClient(port) as client:
            session = Session(client, version)
            for step in STEPS:
                step(session)


def authenticate(port: int, name: str, password: str) -> None:
    """PLAIN, in both forms and every version."""
    token = f"\0{name}\0{password}".encode()
    with MadeClient(port) as client:
        client.call(K.SASL_HANDSHAKE, 0, {"mechanism": "PLAIN"})
        client.token(token)
    for version in versions(K.SASL_AUTHENTICATE):
        with MadeClient(port) as client:
            client.call(K.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
            client.call(K.SASL_AUTHENTICATE, version, {"auth_bytes": token})


def versions(key: ApiKey) -> Iterator[int]:
    """All that the definitions have."""
    first, last = api_of(key).versions
    return itertools.islice(itertools.count(first), last - first + 1)
