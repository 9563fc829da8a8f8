"""Finds the topic that a path names and checks the caller's permission."""

from opentalos.broker.values import Topic
from opentalos.gateway.rest.routing.call import Call
from opentalos.model.errors import InvalidName, TopicNotExist
from opentalos.model.identity import Permission


def topic_of(call: Call, action: Permission) -> Topic:
    """The topic of the path. Raises: TopicNotExist, also for an invalid name; PermissionDenied."""
    name = call.places["topic"]
    try:
        return call.broker.context.find_topic(call.caller, action, name)
    except InvalidName as error:
        raise TopicNotExist(f"topic {name} does not exist") from error
