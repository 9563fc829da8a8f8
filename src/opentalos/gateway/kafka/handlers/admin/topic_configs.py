"""Settings of a topic under Kafka's names, and ours under ``talos.``: one table.

A setting that cannot differ here has its one value: asking for that value changes nothing, asking
for another one is refused, so that nobody counts on what does not happen.

Source: Apache Kafka 4.3, topic configuration, for names and their meaning.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from opentalos.broker.context import BrokerConfig
from opentalos.broker.values import AttributeChange, Topic
from opentalos.gateway.kafka.handlers.admin.outcome import Refused
from opentalos.model.message import Durability
from opentalos.model.settings.partitioning import PARTITIONER_KEY, Partitioning
from opentalos.model.settings.topic_attributes import DURABILITY_KEY, RETENTION_BYTES_KEY
from opentalos.wire.kafka.errors import ErrorCode

UNLIMITED: Final = "-1"
NEVER: Final = str((1 << 63) - 1)  # of flush.messages: no flush is waited for
_MS: Final = 1_000
_LONG_DIGITS_MAX: Final = 19
_FLUSHES: Final = {"1": Durability.SYNCED, NEVER: Durability.FLUSHED}


class Source(IntEnum):
    """Where a value comes from. Source: Apache Kafka 4.3, DescribeConfigsResponse.ConfigSource."""

    TOPIC = 1
    SERVER = 4  # its configuration file
    DEFAULT = 5


class Kind(IntEnum):
    """Type of a value. Source: Apache Kafka 4.3, DescribeConfigsResponse.ConfigType."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    LIST = 7


class Operation(IntEnum):
    """What a change does with a value. Source: Apache Kafka 4.3, AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """A setting. ``read_only``: it cannot be changed; ``server_name``: of the server's default."""

    name: str
    kind: Kind
    value: Callable[[Topic, BrokerConfig], str]
    default: Callable[[BrokerConfig], str]
    server_name: str = ""
    read_only: bool = True
    text: str


@dataclass(slots=True)
class Asked:
    """Settings that a request sets. ``fixed``: what it expects of those that cannot differ."""

    retention_s: int | None = None
    attributes: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    fixed: dict[str, str] = field(default_factory=dict)

    @property
    def change(self) -> AttributeChange:
        """As a change of a topic."""
        return AttributeChange(
            retention_s=self.retention_s, attributes=self.attributes, removed=tuple(self.removed)
        )

    @property
    def changes(self) -> bool:
        """Whether a topic would be written."""
        return bool(self.retention_s is not None or self.attributes or self.removed)


def _always(value: str) -> Callable[[Topic, BrokerConfig], str]:
    return lambda topic, config: value


def _default(value: str) -> Callable[[BrokerConfig], str]:
    return lambda config: value


def _one_value(name: str, kind: Kind, value: str, server_name: str, text: str) -> TopicConfig:
    return TopicConfig(
        name=name, kind=kind, value=_always(value), default=_default(value),
        server_name=server_name, text=text,
    )  # fmt: skip


def _retention_bytes(topic: Topic, config: BrokerConfig) -> str:
    kept = topic.retention_bytes
    return UNLIMITED if kept is None else str(kept)


def _flush_messages(topic: Topic, config: BrokerConfig) -> str:
    return next(text for text, level in _FLUSHES.items() if level is topic.durability)


def message_bytes_max(config: BrokerConfig) -> str:
    """Of one batch, for every topic of this server."""
    return str(config.message.block_bytes_max)


_LISTED: Final = (
    TopicConfig(
        name="retention.ms", kind=Kind.LONG, read_only=False, server_name="log.retention.ms",
        value=lambda topic, config: str(topic.retention_s * _MS),
        default=lambda config: str(config.topic.retention_default_s * _MS),
        text="How long messages are kept; rounded up to whole seconds.",
    ),
    TopicConfig(
        name="retention.bytes", kind=Kind.LONG, read_only=False,
        server_name="log.retention.bytes", value=_retention_bytes, default=_default(UNLIMITED),
        text="Bytes kept of each partition; -1: only age decides.",
    ),
    TopicConfig(
        name="talos.durability", kind=Kind.STRING, read_only=False,
        value=lambda topic, config: topic.durability.value,
        default=_default(Durability.SYNCED.value),
        text="synced: an acknowledged message survives power loss; flushed: crashes of processes.",
    ),
    TopicConfig(
        name="talos.partitioner", kind=Kind.STRING,
        value=lambda topic, config: topic.partitioning.value,
        default=_default(Partitioning.MURMUR2.value),
        text="Which partition a key belongs to: murmur2, as Kafka's producers do, or official, as "
        "official Talos SDKs do. It can be given only when the topic is created.",
    ),
    TopicConfig(
        name="flush.messages", kind=Kind.LONG, read_only=False,
        server_name="log.flush.interval.messages", value=_flush_messages, default=_default("1"),
        text="talos.durability for tools that know only Kafka's settings: 1 is synced, the largest "
        f"number, {NEVER}, is flushed.",
    ),
    TopicConfig(
        name="max.message.bytes", kind=Kind.INT, server_name="message.max.bytes",
        value=lambda topic, config: message_bytes_max(config), default=message_bytes_max,
        text="Largest batch; a limit of the server, [message] block_bytes_max.",
    ),
    _one_value(
        "cleanup.policy", Kind.LIST, "delete", "log.cleanup.policy",
        "Old messages are deleted. Compaction is not supported.",
    ),
    _one_value(
        "compression.type", Kind.STRING, "producer", "compression.type",
        "Batches are kept as producers compressed them.",
    ),
    _one_value(
        "message.timestamp.type", Kind.STRING, "CreateTime", "log.message.timestamp.type",
        "The time of a message is its producer's.",
    ),
    _one_value(
        "min.insync.replicas", Kind.INT, "1", "min.insync.replicas",
        "The store replicates before a message is acknowledged, whatever acks a producer asks for.",
    ),
)  # fmt: skip
CONFIGS: Final[Mapping[str, TopicConfig]] = {config.name: config for config in _LISTED}
_SAME: Final = frozenset(("talos.durability", "flush.messages"))  # two names of one setting
_AT_CREATION: Final = {"talos.durability": DURABILITY_KEY, "talos.partitioner": PARTITIONER_KEY}


def source_of(entry: TopicConfig, topic: Topic, config: BrokerConfig) -> Source:
    """A value that equals the default counts as the default, whoever set it."""
    return Source.DEFAULT if entry.value(topic, config) == entry.default(config) else Source.TOPIC


def asked_at_creation(values: Mapping[str, str | None]) -> Asked:
    """The settings of a topic to create; no value takes the default. Raises: Refused."""
    asked = Asked()
    for name, value in values.items():
        entry = _entry(name)
        if value is None:
            continue
        if name in _AT_CREATION:
            asked.attributes[_AT_CREATION[name]] = value
        else:
            _set(asked, entry, value)
    return asked


def ask(asked: Asked, name: str, operation: int, value: str | None, config: BrokerConfig) -> None:
    """Add one operation of a change. Raises: Refused."""
    entry = _entry(name)
    if operation in (Operation.APPEND, Operation.SUBTRACT):
        if entry.kind is not Kind.LIST:
            raise _invalid(f"{name} is no list; set it")
        if operation == Operation.SUBTRACT:
            raise _invalid(f"{name} is always {entry.default(config)}")
        asked.fixed[name] = value or ""
    elif operation == Operation.SET:
        if value is None:
            raise _invalid(f"{name} needs a value; delete it to get the default")
        _set(asked, entry, value)
    elif operation == Operation.DELETE:
        _reset(asked, entry, config)
    else:
        raise Refused(ErrorCode.INVALID_REQUEST, f"there is no operation {operation}")


def asked_instead(values: Mapping[str, str | None], config: BrokerConfig) -> Asked:
    """These settings and no others: what is left out gets its default. Raises: Refused.

    How keys are spread stays, since nobody can change it.
    """
    asked = Asked()
    for name, value in values.items():
        ask(asked, name, Operation.SET, value, config)
    same = _SAME if _SAME & values.keys() else frozenset[str]()
    for name, entry in CONFIGS.items():
        if not entry.read_only and name not in values and name not in same:
            _reset(asked, entry, config)
    return asked


def check_fixed(topic: Topic, asked: Asked, config: BrokerConfig) -> None:
    """Raises: Refused: the topic would not have a value that the request expects."""
    for name, value in asked.fixed.items():
        entry = CONFIGS[name]
        real = entry.value(topic, config)
        if value.strip().lower() != real.lower():
            raise _invalid(f"{name} is {real} here and cannot be {value[:100]!r}: {entry.text}")


def _set(asked: Asked, entry: TopicConfig, value: str) -> None:
    """Raises: Refused."""
    if entry.name == "retention.ms":
        if value.strip() == UNLIMITED:
            raise _invalid("retention.ms cannot be unlimited: give a time")
        asked.retention_s = -(-_integer(entry.name, value) // _MS)
    elif entry.name == "retention.bytes":
        if value.strip() == UNLIMITED:
            asked.removed.append(RETENTION_BYTES_KEY)
        else:
            asked.attributes[RETENTION_BYTES_KEY] = str(_integer(entry.name, value))
    elif entry.name == "talos.durability":
        asked.attributes[DURABILITY_KEY] = value
    else:
        # Also of flush.messages, as the request may set talos.durability to something else.
        asked.fixed[entry.name] = value
        if entry.name == "flush.messages" and value.strip() in _FLUSHES:
            asked.attributes.setdefault(DURABILITY_KEY, _FLUSHES[value.strip()].value)


def _reset(asked: Asked, entry: TopicConfig, config: BrokerConfig) -> None:
    """To the default; what cannot differ has it already."""
    if entry.name == "retention.ms":
        asked.retention_s = config.topic.retention_default_s
    elif entry.name == "retention.bytes":
        asked.removed.append(RETENTION_BYTES_KEY)
    elif entry.name in ("talos.durability", "flush.messages"):
        asked.removed.append(DURABILITY_KEY)
    elif entry.name == "talos.partitioner":
        raise _invalid("talos.partitioner can be given only when a topic is created")


def _entry(name: str) -> TopicConfig:
    """Raises: Refused."""
    entry = CONFIGS.get(name)
    if entry is None:
        raise _invalid(f"{name[:100]!r} is no setting of a topic here: use {', '.join(CONFIGS)}")
    return entry


def _integer(name: str, value: str) -> int:
    text = value.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= _LONG_DIGITS_MAX):
        raise _invalid(f"{name} must be a number above 0, not {value[:100]!r}")
    return int(text)


def _invalid(text: str) -> Refused:
    return Refused(ErrorCode.INVALID_CONFIG, text)
