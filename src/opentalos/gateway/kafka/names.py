"""Topics by name and by id, as one client sees them; see docs/adr/0062-names-for-kafka-clients.md.

A plain name means what it means everywhere for the caller; ``OWNER/NAME`` is any topic. A list
shows the plain name only where that name means the topic. The id is the topic's uuid.
"""

from opentalos.broker.values import Topic
from opentalos.gateway.kafka.gateway import Services
from opentalos.model.errors import TopicNotExist
from opentalos.model.identity import Permission, Principal
from opentalos.model.names import SYSTEM_TENANT

ID_BYTES = 16
NO_ID = bytes(ID_BYTES)


def topic_of(services: Services, caller: Principal, action: Permission, name: str) -> Topic:
    """The topic that a name means to the caller, if it may do this to it; hot path.

    Raises: TopicNotExist, PermissionDenied, InvalidName.
    """
    return services.broker.context.find_topic(caller, action, name)


def topic_of_id(
    services: Services, caller: Principal, action: Permission, topic_id: bytes
) -> Topic:
    """The topic of an id, if the caller may do this to it; hot path.

    Raises: TopicNotExist, PermissionDenied.
    """
    return services.broker.context.topic_of_uuid(caller, action, topic_id.hex())


async def just_made(services: Services, error: TopicNotExist) -> bool:
    """Whether another server has made the topic just now, so that the lookup should be repeated."""
    return await services.broker.context.appeared(error)


def name_of(services: Services, caller: Principal, topic: Topic) -> str:
    """The shortest name by which the caller reaches the topic."""
    if topic.owner == SYSTEM_TENANT:
        return topic.name
    meant = services.broker.context.topics.names.meant(caller, topic.name)
    return topic.name if meant is topic else f"{topic.owner}/{topic.name}"


def id_of(topic: Topic) -> bytes:
    """The topic's id: 16 bytes."""
    return bytes.fromhex(topic.uuid)


def is_internal(topic: Topic) -> bool:
    """Whether it is one of the service's own, which patterns of consumers leave out."""
    return topic.owner == SYSTEM_TENANT
