"""Thousands of calls of each client of Kafka: what a handful does not show."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.kafka.clients import kafka_address
from tests.e2e.rest.client import rest
from tests.server_process import ROOT_KEY, ServerProcess
from tests.shared_servers import SharedServers
from tests.waiting import completed

from opentalos.backends.jars import JAVA_CLIENTS, java, need_jars

ROOT = Path(__file__).resolve().parents[4]
LOGINS = 24  # of each client, a third by each mechanism
CALLS_MIN = 2_000
SEED = 1


@pytest.fixture
def server(servers: SharedServers) -> ServerProcess:
    return servers.get()


def topic_of(server: ServerProcess, client: str) -> str:
    name = f"calls-{client}"
    assert rest(server, "POST", "topics", {"name": name, "partitions": 1}).status == 201
    return name


def counted(command: Sequence[str]) -> Any:
    """What the program prints last."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = completed(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def judge(found: Any, client: str) -> None:
    calls = sum(found["calls"].values())
    sys.stdout.write(f"| {client}: {calls} calls, {found['failed']} failures\n")
    assert found["failures"] == []
    assert found["failed"] == 0
    assert calls >= CALLS_MIN


@pytest.mark.parametrize("client", ["confluent-kafka", "aiokafka", "kafka-python"])
def test_every_call_of_a_client_in_python_works(server: ServerProcess, client: str) -> None:
    given = {
        "client": client,
        "address": kafka_address(server),
        "topic": topic_of(server, client),
        "key": [ROOT_KEY.key_id, ROOT_KEY.secret],
        "logins": LOGINS,
        "seed": SEED,
    }
    program = "tests.e2e.kafka.volume.kafka_calls"
    judge(counted([sys.executable, "-m", program, json.dumps(given)]), client)


def test_every_call_of_the_java_client_works(server: ServerProcess, tmp_path: Path) -> None:
    compiler = next(need_jars(JAVA_CLIENTS).glob("ecj-*.jar"))
    jars = f"{need_jars('kafka')}/*"
    named = ":".join(map(str, need_jars("kafka").glob("*.jar")))
    source = str(Path(__file__).parent / "KafkaCalls.java")
    compile_it = [java(), "-jar", str(compiler), "-17", "-nowarn", "-d", str(tmp_path)]
    done = completed([*compile_it, "-cp", named, source])
    assert done.returncode == 0, done.stdout + done.stderr
    command = [java(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
    command += ["-Dlog4j2.level=OFF", "-cp", f"{tmp_path}:{jars}", "KafkaCalls"]
    key = (ROOT_KEY.key_id, ROOT_KEY.secret)
    judge(
        counted([*command, kafka_address(server), topic_of(server, "java"), *key, str(LOGINS)]),
        "kafka-clients",
    )
