"""Naming rules and the topic resource name. Source: docs/protocol/administration.md#names."""

import re
from typing import NamedTuple

from opentalos.model.errors import InvalidName

NAME_CHARS_MAX = 80
# Topics of the service itself. Their names break the rule for names on purpose: nobody can create
# or own one of them, and no principal, team or organisation may be called like their owner.
SYSTEM_TENANT = "system"
METRICS_TOPIC = (
    "__metrics"  # what servers, machines and clients measured: wire/metrics/measurement.py
)
USAGE_TOPIC = "__usage"  # what tenants stored: wire/metrics/usage.py
SYSTEM_TOPICS = (METRICS_TOPIC, USAGE_TOPIC)
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9_-]{0,78}[a-zA-Z0-9-])?")
_SHOWN_CHARS_MAX = 40  # of a refused name in the error's text


def check_name(name: str, what: str = "topic name") -> str:
    """Return ``name`` if it follows the rule for topics, groups and client ids.

    Raises: InvalidName: 1 to 80 of ``[a-zA-Z0-9_-]``, not starting with ``_`` or ``-``, not
    ending with ``_``.
    """
    if not _NAME.fullmatch(name):
        shown = name[:_SHOWN_CHARS_MAX]
        raise InvalidName(
            f"invalid {what} {shown!r}: 1 to {NAME_CHARS_MAX} of [a-zA-Z0-9_-], "
            "not starting with '_' or '-', not ending with '_'"
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
            shown = text[:_SHOWN_CHARS_MAX]
            raise InvalidName(f"invalid topic resource name {shown!r}: need owner#topic#uuid")
        return cls(*parts)


def uuid_of(resource: str) -> str:
    """The uuid of a topic's resource name; of a uuid, itself."""
    return resource.rpartition("#")[2]
