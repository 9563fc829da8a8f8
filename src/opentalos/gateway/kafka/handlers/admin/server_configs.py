"""Settings of a server under Kafka's names: a few that programs look for, all read-only."""

from collections.abc import Callable
from typing import Final, NamedTuple

from opentalos.broker.cluster.kafka_nodes import KafkaNode
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.handlers.admin.topic_configs import (
    UNLIMITED,
    Kind,
    Source,
    message_bytes_max,
)


class ServerConfig(NamedTuple):
    """A setting of this server."""

    name: str
    kind: Kind
    source: Source
    value: Callable[[Services], str]
    text: str


def _fixed(name: str, kind: Kind, value: str, text: str) -> ServerConfig:
    return ServerConfig(name, kind, Source.DEFAULT, lambda services: value, text)


def _configured(
    name: str, kind: Kind, value: Callable[[Services], str], setting: str
) -> ServerConfig:
    return ServerConfig(name, kind, Source.SERVER, value, f"{setting} in the configuration file.")


def _advertised(services: Services) -> str:
    """What Metadata names for this server; empty: clients cannot reach it."""
    nodes = services.broker.kafka_nodes
    protocol = "SASL_SSL" if services.port.tls is not None else "SASL_PLAINTEXT"
    own = (node for node in nodes.nodes() if node.number == nodes.own)
    return ",".join(f"{protocol}://{_authority(node)}" for node in own)


def _authority(node: KafkaNode) -> str:
    return f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"


SERVER_CONFIGS: Final = (
    _configured("advertised.listeners", Kind.LIST, _advertised, "[kafka] advertise"),
    _configured(
        "node.id", Kind.INT, lambda services: str(services.broker.kafka_nodes.own),
        "Follows from [server] name",
    ),
    _configured(
        "num.partitions", Kind.INT,
        lambda services: str(services.broker.context.config.topic.partitions_default),
        "[topic] partitions_default",
    ),
    _configured(
        "log.retention.ms", Kind.LONG,
        lambda services: str(services.broker.context.config.topic.retention_default_s * 1_000),
        "[topic] retention_default_s",
    ),
    _configured(
        "message.max.bytes", Kind.INT,
        lambda services: message_bytes_max(services.broker.context.config),
        "[message] block_bytes_max",
    ),
    _configured(
        "socket.request.max.bytes", Kind.INT,
        lambda services: str(services.port.settings.request_bytes_max),
        "[kafka] request_bytes_max",
    ),
    _configured(
        "connections.max.idle.ms", Kind.LONG,
        lambda services: str(int(services.port.settings.idle_timeout_s * 1_000)),
        "[kafka] idle_timeout_s",
    ),
    _fixed("log.retention.bytes", Kind.LONG, UNLIMITED, "Only topics can limit their bytes."),
    _fixed("log.cleanup.policy", Kind.LIST, "delete", "Compaction is not supported."),
    _fixed("log.message.timestamp.type", Kind.STRING, "CreateTime", "Of the producer."),
    _fixed("compression.type", Kind.STRING, "producer", "Batches are kept as they were sent."),
    _fixed("default.replication.factor", Kind.INT, "1", "The store replicates."),
    _fixed("min.insync.replicas", Kind.INT, "1", "The store replicates."),
    _fixed("auto.create.topics.enable", Kind.BOOLEAN, "false", "Topics are created on request."),
    _fixed("delete.topic.enable", Kind.BOOLEAN, "true", "By those who may change them."),
)  # fmt: skip
