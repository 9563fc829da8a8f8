"""One real server, and what clients of Kafka need to reach it."""

from typing import Any

import pytest
from tests.e2e.kafka.clients import kafka_address
from tests.server_process import ROOT_KEY, ServerProcess
from tests.shared_servers import SharedServers

from opentalos.sdk import ClientConfig

SASL = "SASL_PLAINTEXT"


@pytest.fixture
def kafka_server(servers: SharedServers) -> ServerProcess:
    return servers.get()


@pytest.fixture
def sdk_config(kafka_server: ServerProcess) -> ClientConfig:
    key_id, secret = ROOT_KEY.key_id, ROOT_KEY.secret
    return ClientConfig(endpoints=(kafka_server.url,), key_id=key_id, secret=secret)


@pytest.fixture
def librdkafka(kafka_server: ServerProcess) -> dict[str, Any]:
    """Configuration of confluent-kafka."""
    return {
        "bootstrap.servers": kafka_address(kafka_server),
        "security.protocol": SASL,
        "sasl.mechanism": "PLAIN",
        "sasl.username": ROOT_KEY.key_id,
        "sasl.password": ROOT_KEY.secret,
    }


@pytest.fixture
def in_python(kafka_server: ServerProcess) -> dict[str, Any]:
    """Arguments of the clients of aiokafka and kafka-python."""
    return {
        "bootstrap_servers": kafka_address(kafka_server),
        "security_protocol": SASL,
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": ROOT_KEY.key_id,
        "sasl_plain_password": ROOT_KEY.secret,
    }
