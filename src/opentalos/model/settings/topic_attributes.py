"""Attributes of topics that change what the server does; all others are notes of their owners."""

from collections.abc import Iterable
from typing import Final

from opentalos.model.errors import InvalidTopicParams
from opentalos.model.settings.partitioning import PARTITIONER_KEY

DURABILITY_KEY: Final = "durability"  # synced or flushed
RETENTION_BYTES_KEY: Final = "retention.bytes"  # bytes kept per partition
_SETTINGS: Final = frozenset((DURABILITY_KEY, RETENTION_BYTES_KEY))


def check_settings(keys: Iterable[str]) -> None:
    """Refuse what looks like a setting, a key with a dot, and has no effect here.

    A topic that accepted ``cleanup.policy=compact`` in silence would lose messages that its owner
    counts on. Only for callers that can read the reason: official SDKs may keep notes under any
    key.

    Raises: InvalidTopicParams.
    """
    for key in keys:
        if "." in key and key not in _SETTINGS:
            raise InvalidTopicParams(
                f"attribute {key} is not supported: settings of a topic are {DURABILITY_KEY} "
                f"(synced or flushed), {PARTITIONER_KEY} (murmur2 or official) and "
                f"{RETENTION_BYTES_KEY} (of each partition), and its retention; names of notes "
                "have no dot"
            )
