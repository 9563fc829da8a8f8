"""The options of a write, checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from opentalos.model.errors import ConfigError
from opentalos.model.message import Compression
from opentalos.pipelines.datasource.connection import (
    connection,
    lowered,
    path_as_topic,
    refuse_unknown,
)
from opentalos.sdk.core.config import ClientConfig

_KNOWN: Final = (
    "url", "key", "keyFile", "profile", "timeoutSeconds", "topic", "compression", "writeId",
    "delivery", "blockMessages", "blockBytes", "metadata",
)  # fmt: skip
# Spark also passes its own options of a stream to the sink.
_SPARKS: Final = ("checkpointLocation", "queryName", "outputMode")
BLOCK_BYTES: Final = 1 << 20  # before compression, as in the SDK
BLOCK_BYTES_MAX: Final = 16 << 20  # below the servers' limit of 20 MiB with headers
BLOCK_MESSAGES: Final = 20_000  # the limit of a consumer's get
BLOCK_MESSAGES_MAX: Final = 100_000  # the servers' limit
WRITE_ID_CHARACTERS_MAX: Final = 1_000


class Delivery(Enum):
    """The delivery guarantee of a write when tasks are retried."""

    AUTO = "auto"  # exactly once if the server recognizes repeated puts, else at least once
    EXACTLY_ONCE = "exactly-once"  # fails if the server does not recognize them
    AT_LEAST_ONCE = "at-least-once"  # a retry stores its rows again


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of one write."""

    config: ClientConfig
    topic: str  # "": each row has its own
    compression: Compression
    write_id: str  # "": none
    delivery: Delivery
    ignore_metadata: bool = False  # of rows that were read from a topic
    block_messages: int
    block_bytes: int


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """The options of a write. Raises: ConfigError: one is unknown, missing or invalid."""
    given = path_as_topic(lowered(options))
    ours = {name: text for name, text in given.items() if name not in _lowered(_SPARKS)}
    refuse_unknown(ours, _KNOWN, "a write")
    write_id = given.get("writeid", "")
    if len(write_id) > WRITE_ID_CHARACTERS_MAX:
        raise ConfigError(f"writeId is too long: give at most {WRITE_ID_CHARACTERS_MAX} characters")
    return WriteOptions(
        config=connection(given),
        topic=given.get("topic", "").strip(),
        compression=_compression(given.get("compression", "snappy")),
        write_id=write_id,
        delivery=_delivery(given.get("delivery", "auto")),
        ignore_metadata=_ignore_metadata(given.get("metadata", "fail")),
        block_messages=_number(given, "blockMessages", BLOCK_MESSAGES, BLOCK_MESSAGES_MAX),
        block_bytes=_number(given, "blockBytes", BLOCK_BYTES, BLOCK_BYTES_MAX),
    )


def _lowered(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


def _compression(text: str) -> Compression:
    try:
        return Compression[text.upper()]
    except KeyError:
        known = ", ".join(codec.name.lower() for codec in Compression)
        raise ConfigError(f"compression is {text!r}: choose one of {known}") from None


def _delivery(text: str) -> Delivery:
    try:
        return Delivery(text.lower())
    except ValueError:
        known = ", ".join(choice.value for choice in Delivery)
        raise ConfigError(f"delivery is {text!r}: choose one of {known}") from None


def _ignore_metadata(text: str) -> bool:
    if text.lower() not in ("fail", "ignore"):
        raise ConfigError(f"metadata is {text!r}: choose fail or ignore")
    return text.lower() == "ignore"


def _number(given: Mapping[str, str], name: str, default: int, largest: int) -> int:
    text = given.get(name.lower(), str(default)).strip()
    if not text.isdecimal() or not 0 < int(text) <= largest:
        raise ConfigError(f"{name} is {text!r}: give a whole number from 1 to {largest}")
    return int(text)
