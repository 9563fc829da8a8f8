"""Where a read starts or ends, as its user says it."""

import json
from collections.abc import Mapping
from datetime import datetime
from enum import Enum

from opentalos.model.errors import ConfigError


class Edge(Enum):
    """A place that has a name."""

    EARLIEST = "earliest"  # the first retained message
    LATEST = "latest"  # behind the last message
    GROUP = "group"  # behind the checkpoint of the consumer group


Offsets = Mapping[str, Mapping[int, int]]  # by the topic's name and partition
StartAt = Edge | datetime | Offsets


def parse_start_at(option: str, text: str) -> StartAt:
    """The place that a text means. Raises: ConfigError: it means none."""
    word = text.strip()
    if word.lower() in (edge.value for edge in Edge):
        return Edge(word.lower())
    if word.startswith("{"):
        return _offsets(option, word)
    try:
        time = datetime.fromisoformat(word)
    except ValueError:
        raise ConfigError(
            f"{option} is earliest, latest, group, a time such as 2026-01-31T12:00:00Z, or "
            f'offsets such as {{"topic": {{"0": 123}}}}; not {text!r}'
        ) from None
    if time.tzinfo is None:
        raise ConfigError(f"{option}: the time {word} needs a zone, such as {word}Z")
    return time


def _offsets(option: str, text: str) -> Offsets:
    try:
        found = json.loads(text)
        return {
            topic: {int(partition): _offset(offset) for partition, offset in partitions.items()}
            for topic, partitions in found.items()
        }
    except (ValueError, AttributeError) as error:
        raise ConfigError(
            f'{option} needs offsets such as {{"topic": {{"0": 123}}}}: {error}'
        ) from None


def _offset(given: object) -> int:
    if type(given) is not int or given < 0:
        raise ValueError(f"{given!r} is no offset")
    return given
