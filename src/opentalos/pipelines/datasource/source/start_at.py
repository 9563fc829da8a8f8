"""The options startingPosition and endingPosition: where a read starts or ends."""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum

from opentalos.model.checks import json_value
from opentalos.model.errors import ConfigError


class Edge(Enum):
    """A position with a name."""

    EARLIEST = "earliest"  # the first retained message
    LATEST = "latest"  # after the last message
    GROUP = "group"  # after the committed offset of the consumer group


Offsets = Mapping[str, Mapping[int, int]]  # by the topic's name and partition
StartAt = Edge | datetime | Offsets


def parse_start_at(option: str, text: str) -> StartAt:
    """The position that a text names. Raises: ConfigError: the text is invalid."""
    word = text.strip()
    if word.lower() in (edge.value for edge in Edge):
        return Edge(word.lower())
    if word.startswith("{"):
        return _offsets(option, word)
    try:
        time = datetime.fromisoformat(word)
    except ValueError:
        raise ConfigError(
            f"{option} is {text!r}: give earliest, latest, group, a time such as "
            f'2026-01-31T12:00:00Z, or offsets such as {{"topic": {{"0": 123}}}}'
        ) from None
    if time.tzinfo is None:
        raise ConfigError(f"{option} is {word}, a time without a zone: write {word}Z for UTC")
    return time


def _offsets(option: str, text: str) -> Offsets:
    try:
        found = json_value(text)
        return {
            topic: {int(partition): _offset(offset) for partition, offset in partitions.items()}
            for topic, partitions in found.items()
        }
    except (ValueError, AttributeError) as error:
        raise ConfigError(
            f'{option} is invalid: {error}; give offsets such as {{"topic": {{"0": 123}}}}'
        ) from None


def _offset(given: object) -> int:
    if type(given) is not int or given < 0:
        raise ValueError(f"{given!r} is not an offset")
    return given
