"""Apache Kafka: broker and controller in one process, for benchmark comparisons."""

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Final

from opentalos.backends.daemon import Launch
from opentalos.backends.jars import java, need_jars
from opentalos.backends.places import BackendError
from opentalos.backends.ports import HOST
from opentalos.backends.service import Backend

_HEAP_MB: Final = 768
_TOOL_HEAP_MB: Final = 384
_TOOL_S: Final = 300.0
_READY: Final = "Kafka Server started"
_CONFIG: Final = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{client},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{client}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.cleaner.dedupe.buffer.size=16777216
"""
_LOGGING: Final = """rootLogger.level=WARN
rootLogger.appenderRef.A.ref=A
appender.A.type=Console
appender.A.name=A
appender.A.target=SYSTEM_ERR
appender.A.layout.type=PatternLayout
appender.A.layout.pattern=%d %p %c{1}: %m%n
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=INFO
"""


class KafkaBackend(Backend):
    """One daemon, ``kafka``."""

    kind = "kafka"
    default_port = 9092

    @property
    def hosts(self) -> str:
        """HOST:PORT for ``bootstrap.servers``."""
        return f"{HOST}:{self.ports['client']}"

    @property
    def url(self) -> str:
        return f"kafka://{self.hosts}"

    def names(self) -> list[str]:
        return [self.kind]

    def missing(self) -> str:
        """Ready once its log reports the start."""
        return "" if _READY in self.daemon(self.kind).log_text() else "it has not started"

    def tool(self, main: str, *arguments: str) -> str:
        """Run a Kafka tool and return its output. Raises: BackendError: it failed."""
        command = [*self._java(_TOOL_HEAP_MB), main, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_S)
        if done.returncode != 0:
            raise BackendError(f"{main} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def create_topic(self, name: str, partitions: int, *settings: str) -> None:
        """Create a topic; ``settings`` are NAME=VALUE."""
        more = [part for setting in settings for part in ("--config", setting)]
        where = ("--bootstrap-server", self.hosts)
        self.tool(
            "org.apache.kafka.tools.TopicCommand",
            *where, "--create", "--topic", name, "--partitions", str(partitions), *more,
        )  # fmt: skip

    def _port_uses(self, first: int) -> Mapping[str, int]:
        return {"client": first, "controller": first + 1}

    def _prepare(self) -> None:
        data = self.home / "data"
        data.mkdir(exist_ok=True)
        ports = self.ports
        (self.home / "server.properties").write_text(
            _CONFIG.format(
                host=HOST, data=data, client=ports["client"], controller=ports["controller"]
            )
        )
        (self.home / "log4j2.properties").write_text(_LOGGING)
        if not (data / "meta.properties").exists():
            cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            where = ("-c", str(self.home / "server.properties"))
            # As --cluster-id=ID: an ID with a leading dash would be parsed as an option.
            self.tool("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", *where)

    def _java(self, heap_mb: int) -> Sequence[str]:
        logging = f"-Dlog4j2.configurationFile={self.home / 'log4j2.properties'}"
        return [java(), f"-Xmx{heap_mb}m", logging, "-cp", f"{need_jars(self.kind)}/*"]

    def _launch(self, name: str) -> Launch:
        program, heap, *rest = self._java(_HEAP_MB)
        collector = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", f"-Xms{_HEAP_MB}m")
        main = ("kafka.Kafka", str(self.home / "server.properties"))
        return Launch([program, heap, *collector, *rest, *main])
