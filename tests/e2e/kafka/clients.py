"""Kafka's clients, asked which topics there are: in a process of their own or in this one."""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiokafka.admin
import aiokafka.helpers
from confluent_kafka.admin import AdminClient
from tests.server_process import Key, ServerProcess
from tests.waiting import completed, limit_s

from opentalos.backends.jars import java, need_jars


def kafka_address(server: ServerProcess) -> str:
    """HOST:PORT of a running server's port for Kafka."""
    return str(json.loads((server.data / "server.json").read_text())["kafka"])


def by_librdkafka(address: str, within_s: float | None = None, **settings: Any) -> set[str]:
    """Topics, by confluent-kafka. ``within_s``: None: the limit of any wait."""
    admin = AdminClient({"bootstrap.servers": address, **settings})
    admin.poll(0)  # asks for a token, if one is needed
    return set(admin.list_topics(timeout=limit_s() if within_s is None else within_s).topics)


def by_aiokafka(address: str, ca: Path | None = None, **settings: Any) -> set[str]:
    """Topics, by aiokafka."""
    if ca is not None:
        settings["ssl_context"] = aiokafka.helpers.create_ssl_context(cafile=str(ca))

    async def listed() -> set[str]:
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=address, **settings)
        try:
            await admin.start()
            return set(await admin.list_topics())
        finally:
            await admin.close()

    return asyncio.run(listed())


_KAFKA_PYTHON = """import json, sys
from kafka import KafkaAdminClient
admin = KafkaAdminClient(**json.loads(sys.argv[1]))
print(json.dumps(list(admin.list_topics())))
admin.close()
"""


def by_kafka_python(address: str, **settings: Any) -> set[str]:
    """Topics, by kafka-python; in its own process, as its import warns."""
    settings["bootstrap_servers"] = address
    command = [sys.executable, "-c", _KAFKA_PYTHON, json.dumps(settings)]
    return set(json.loads(completed(command, check=True).stdout))


def by_java(address: str, folder: Path, settings: Mapping[str, str], *more: str) -> str:
    """What kafka-topics.sh prints."""
    config = folder / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = [
        java(), "-Xmx256m", "-cp", f"{need_jars('kafka')}/*",
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", address,
        "--command-config", str(config), *more,
    ]  # fmt: skip
    done = completed(command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def java_login(mechanism: str, key: Key, protocol: str = "SASL_PLAINTEXT") -> dict[str, str]:
    """Settings of Java's clients."""
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    return {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": (
            f"org.apache.kafka.common.security.{module}LoginModule required "
            f'username="{key.key_id}" password="{key.secret}";'
        ),
    }
