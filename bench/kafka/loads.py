"""What is done to a system: Kafka's own Java programs, and processes of confluent-kafka."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.kafka.systems import ROOT, System
from bench.kafka_figures import consumed, produced
from opentalos.backends.jars import java, need_jars

HEAP_MB: Final = 512
JOB_S: Final = 300.0
_PRODUCER: Final = "org.apache.kafka.tools.ProducerPerformance"
_CONSUMER: Final = "org.apache.kafka.tools.ConsumerPerformance"
WARM_SHARE: Final = 5  # of the records before those that count
Settings = Mapping[str, str]
BY_DEFAULT: Final[Settings] = {"acks": "all"}
LARGE_BATCHES: Final[Settings] = {
    "acks": "all",
    "batch.size": "262144",
    "linger.ms": "5",
    "buffer.memory": "67108864",
}


def shown(settings: Settings) -> str:
    """For a table."""
    return " ".join(f"{name}={value}" for name, value in settings.items())


@dataclass(frozen=True)
class JavaTools:
    """Runs Kafka's performance programs; the same class path and heap for both systems."""

    work: Path

    def produce(
        self,
        system: System,
        topic: str,
        row: tuple[int, int],
        settings: Settings,
        *,
        per_s: int = -1,
    ) -> float:
        """Records a second, after a warm-up. Args: row: records that count, bytes of each."""
        command = self._producer(system, topic, row, settings, per_s)
        return produced(self._run(command))

    def producing(
        self,
        system: System,
        topic: str,
        row: tuple[int, int],
        settings: Settings,
        *,
        per_s: int,
    ) -> "subprocess.Popen[bytes]":
        """A producer at a rate; the caller ends it."""
        command = self._producer(system, topic, row, settings, per_s)
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def consume(self, system: System, topic: str, records: int, group: str) -> float:
        """MB a second, as a new group from the first record."""
        command = [*self._java(), _CONSUMER, "--bootstrap-server", system.address]
        command += ["--topic", topic, "--group", group, "--num-records", str(records)]
        command += ["--timeout", "60000", "--command-config", self._config(system, {})]
        return consumed(self._run(command), records)

    def _producer(
        self, system: System, topic: str, row: tuple[int, int], settings: Settings, per_s: int
    ) -> list[str]:
        records, size = row
        warmed = max(1, records // WARM_SHARE)
        command = [*self._java(), _PRODUCER, "--bootstrap-server", system.address]
        command += ["--topic", topic, "--record-size", str(size), "--throughput", str(per_s)]
        command += ["--num-records", str(records + warmed), "--warmup-records", str(warmed)]
        return [*command, "--command-config", self._config(system, settings)]

    def _java(self) -> list[str]:
        quiet = "-Dlog4j2.level=ERROR"
        return [java(), f"-Xmx{HEAP_MB}m", quiet, "-cp", f"{need_jars('kafka')}/*"]

    def _config(self, system: System, settings: Settings) -> str:
        with tempfile.NamedTemporaryFile(
            "w", dir=self.work, suffix=".properties", delete=False
        ) as file:
            for name, value in {**system.java, **settings}.items():
                file.write(f"{name}={value}\n")
        return file.name

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=JOB_S)
        if done.returncode:
            raise RuntimeError(f"a Java client failed:\n{done.stdout[-800:]}{done.stderr[-800:]}")
        return done.stdout


def confluent(program: str, system: System, arguments: Mapping[str, Any]) -> dict[str, float]:
    """Run a load of ``bench.kafka.confluent_load`` in a process; what it measured."""
    document = {"program": program, "settings": dict(system.librdkafka), **arguments}
    done = subprocess.run(
        [sys.executable, "-m", "bench.kafka.confluent_load", json.dumps(document)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=JOB_S,
    )
    if done.returncode:
        raise RuntimeError(f"{program} failed:\n{done.stdout[-800:]}{done.stderr[-800:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found
