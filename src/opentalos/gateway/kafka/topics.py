"""Topics of requests: by name, or by id, which is the topic's uuid as bytes."""

from collections.abc import Collection

from opentalos.broker.cluster.kafka_nodes import UNKNOWN, KafkaNode
from opentalos.broker.cluster.ownership import NO_EPOCH
from opentalos.broker.values import Topic
from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.gateway import Services
from opentalos.model.errors import LeaderEpochFenced, NotOwner, TopicNotExist
from opentalos.model.identity import Permission
from opentalos.wire.kafka.errors import ErrorCode

_KNOWN_MAX = 1_000  # topics of one connection


class _Known(dict[str | bytes, Topic]):
    """Topics that the client named, in the state of its session."""


def named_topic(services: Services, call: KafkaCall, action: Permission, key: str | bytes) -> Topic:
    """The topic of a name or id, if the caller may do this to it.

    What the connection asked for before is found without a search; whoever uses the topic
    authorizes each time. Raises: TopicNotExist, PermissionDenied.
    """
    context, state = services.broker.context, call.session.state
    known = state.get(_Known)
    if known is None:
        known = state[_Known] = _Known()
    topic: Topic | None = known.get(key)
    if topic is not None and context.topics.by_resource(topic.resource) is topic:
        return topic
    if isinstance(key, bytes):
        topic = context.topic_of_uuid(call.caller, action, key.hex())
    else:
        topic = context.find_topic(call.caller, action, key)
    if len(known) >= _KNOWN_MAX:
        known.clear()
    known[key] = topic
    return topic


class NewLeaders:
    """Leaders that an answer names to a client that asked a former one, with their addresses.

    Source: Apache Kafka 4.3, KIP-951.
    """

    def __init__(self, services: Services) -> None:
        self._nodes = services.broker.kafka_nodes
        self._named: dict[int, KafkaNode] = {}

    def of(self, topic: Topic, partition: int, error: Exception) -> tuple[int, int]:
        """Number and epoch of a partition's leader; -1: the error is not about that, or it is not
        known."""
        if not isinstance(error, NotOwner | LeaderEpochFenced):
            return UNKNOWN, NO_EPOCH
        epoch, node = self._nodes.leader(topic.uuid, partition)
        if node is None:
            return UNKNOWN, NO_EPOCH
        self._named[node.number] = node
        return node.number, epoch

    @property
    def nodes(self) -> Collection[KafkaNode]:
        """All that were named."""
        return self._named.values()


def missing_code(error: Exception, key: str | bytes) -> ErrorCode | None:
    """The code for a topic that does not exist, or of which the caller may not know."""
    if isinstance(error, TopicNotExist) and isinstance(key, bytes):
        return ErrorCode.UNKNOWN_TOPIC_ID
    return None
