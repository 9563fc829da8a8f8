"""Naming rules and the topic resource name. Source: docs/protocol/administration.md#names."""

import re
from typing import NamedTuple

from opentalos.model.checks import shown_value
from opentalos.model.errors import InvalidName

NAME_CHARS_MAX = 80
# Internal topics. Their names break the naming rule on purpose, so that clients cannot create or
# own them; no principal, team or organisation may have the name of their owner.
SYSTEM_TENANT = "system"
METRICS_TOPIC = (
    "__metrics"  # measurements of servers, machines and clients: wire/metrics/measurement.py
)
USAGE_TOPIC = "__usage"  # storage use of tenants: wire/metrics/usage.py
AUDIT_TOPIC = "__audit"  # who changed what: wire/metrics/audit_event.py
SYSTEM_TOPICS = (METRICS_TOPIC, USAGE_TOPIC, AUDIT_TOPIC)
TOPIC_NAME_CHARS_MAX = 120
GROUP_NAME_CHARS_MAX = 200
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,119}|_[a-zA-Z0-9][a-zA-Z0-9._-]{0,118}")
_GROUP_NAME = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,199}")
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9_-]{0,78}[a-zA-Z0-9-])?")


def check_name(name: str, what: str) -> str:
    """Return ``name`` if it follows the rule for tables, organisations, servers and client ids.

    Raises: InvalidName: 1 to 80 of ``[a-zA-Z0-9_-]``, not starting with ``_`` or ``-``, not
    ending with ``_``.
    """
    if not _NAME.fullmatch(name):
        raise InvalidName(
            f"invalid {what} {shown_value(name)}: use 1 to {NAME_CHARS_MAX} ASCII letters, digits, "
            "_ and -, "
            "starting with a letter or digit and not ending with _"
        )
    return name


def check_topic_name(name: str) -> str:
    """Return ``name`` if it may name a topic: wider than ``check_name``, as those of Kafka have
    dots and may begin with ``_``. Two of them begin the service's own topics.

    Raises: InvalidName: 1 to 120 of ``[a-zA-Z0-9._-]``, of which the first, or the second after
    ``_``, is a letter or digit.
    """
    if not _TOPIC_NAME.fullmatch(name):
        raise InvalidName(
            f"invalid topic name {shown_value(name)}: use 1 to {TOPIC_NAME_CHARS_MAX} ASCII "
            "letters, digits, _, - and ., starting with a letter or digit, or with _ and one"
        )
    return name


def check_group_name(name: str) -> str:
    """Return ``name`` if it may name a consumer group: wider than ``check_name``, as Kafka clients
    name groups after packages and applications.

    Raises: InvalidName: 1 to 200 of ``[a-zA-Z0-9._-]``, not starting with ``.`` or ``-``.
    """
    if not _GROUP_NAME.fullmatch(name):
        raise InvalidName(
            f"invalid consumer group {shown_value(name)}: use 1 to {GROUP_NAME_CHARS_MAX} ASCII "
            "letters, digits, _, - and ., not starting with - or ."
        )
    return name


class ResourceName(NamedTuple):
    """``{owner}#{topic}#{uuid}``; the owner part may contain ``#``, so parse from the right."""

    owner: str
    topic: str
    uuid: str

    def __str__(self) -> str:
        return f"{self.owner}#{self.topic}#{self.uuid}"

    @classmethod
    def parse(cls, text: str) -> "ResourceName":
        """Split a resource name. Raises: InvalidName."""
        parts = text.rsplit("#", 2)
        if len(parts) != 3 or not all(parts):
            raise InvalidName(
                f"invalid topic resource name {shown_value(text)}: it must be owner#topic#uuid"
            )
        return cls(*parts)


def uuid_of(resource: str) -> str:
    """The uuid of a topic's resource name; of a uuid, itself."""
    return resource.rpartition("#")[2]
