"""Apache Druid: coordinator with metadata store, historical, broker and indexer; small heaps."""

import json
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from opentalos.backends.daemon import Launch
from opentalos.backends.jars import DRUID_KAFKA, fetched, java, need_jars
from opentalos.backends.places import BackendError
from opentalos.backends.ports import HOST
from opentalos.backends.service import Backend
from opentalos.backends.zookeeper import ZookeeperBackend

_PROBE_TIMEOUT_S: Final = 2.0
_EXPORTED: Final = ("jdk.internal.misc", "jdk.internal.ref")
_OPENED: Final = ("java.nio", "sun.nio.ch", "jdk.internal.ref", "java.io", "java.lang")
_LOGGING: Final = """<Configuration status="WARN"><Appenders>
<Console name="C" target="SYSTEM_OUT">
<PatternLayout pattern="%d{ISO8601} %p [%t] %c{1} - %m%n"/></Console></Appenders>
<Loggers><Root level="warn"><AppenderRef ref="C"/></Root></Loggers></Configuration>
"""
# Java heap and memory outside of it, in MiB.
_MEMORY: Final = {
    "coordinator": (256, 64),
    "historical": (256, 256),
    "broker": (320, 256),
    "indexer": (512, 256),
}
_FOLDERS: Final = ("conf", "tmp", "deep", "segments", "tasks", "indexing-logs", "derby")


class DruidBackend(Backend):
    """Four daemons, which discover each other through the ZooKeeper below the same directory.

    They can read from Kafka if the jars of that extension were fetched before the start.
    """

    kind = "druid"
    default_port = 8081

    @property
    def url(self) -> str:
        """Coordinator, for ingestion, and broker, for queries."""
        return f"druid://{HOST}:{self.ports['coordinator']},{HOST}:{self.ports['broker']}"

    def names(self) -> list[str]:
        return list(_MEMORY)

    def missing(self) -> str:
        """Each daemon is healthy, and the coordinator has a worker for tasks."""
        for name in self.names():
            if self._answer(name, "/status/health") is not True:
                return f"the {name} is not healthy"
        if not self._answer("coordinator", "/druid/indexer/v1/workers"):
            return "the coordinator has no indexer"
        servers = self._answer("coordinator", "/druid/coordinator/v1/servers?simple")
        return "" if servers else "the coordinator has no historical"

    def _answer(self, name: str, path: str) -> Any:
        url = f"http://{HOST}:{self.ports[name]}{path}"
        try:
            with urllib.request.urlopen(url, timeout=_PROBE_TIMEOUT_S) as reply:
                return json.load(reply)
        except (OSError, ValueError):
            return None

    def _port_uses(self, first: int) -> Mapping[str, int]:
        uses = ("coordinator", "broker", "historical", "indexer", "derby")
        return {use: first + index for index, use in enumerate(uses)}

    def _prepare(self) -> None:
        zookeeper = ZookeeperBackend(self.home.parent)
        if not zookeeper.ports or zookeeper.missing():
            raise BackendError("druid needs ZooKeeper; run talos backend start zookeeper druid")
        for name in _FOLDERS:
            (self.home / name).mkdir(exist_ok=True)
        conf = self.home / "conf"
        (conf / "log4j2.xml").write_text(_LOGGING)
        _write(conf / "common.runtime.properties", self._shared(zookeeper.hosts))
        for name in self.names():
            (conf / name).mkdir(exist_ok=True)
            own = {"druid.service": f"druid/{name}", "druid.plaintextPort": self.ports[name]}
            _write(conf / name / "runtime.properties", {**own, **self._own(name)})

    def _shared(self, zookeeper: str) -> dict[str, object]:
        derby = self.ports["derby"]
        return {
            "druid.extensions.loadList": "[]",
            "druid.host": HOST,
            "druid.zk.service.host": zookeeper,
            "druid.zk.paths.base": "/druid",
            "druid.metadata.storage.type": "derby",
            "druid.metadata.storage.connector.connectURI": (
                f"jdbc:derby://{HOST}:{derby}/{self.home}/derby/metadata;create=true"
            ),
            "druid.metadata.storage.connector.host": HOST,
            "druid.metadata.storage.connector.port": derby,
            "druid.storage.type": "local",
            "druid.storage.storageDirectory": self.home / "deep",
            "druid.indexer.logs.type": "file",
            "druid.indexer.logs.directory": self.home / "indexing-logs",
            "druid.selectors.indexing.serviceName": "druid/coordinator",
            "druid.selectors.coordinator.serviceName": "druid/coordinator",
            "druid.serverview.type": "http",
            "druid.coordinator.loadqueuepeon.type": "http",
            "druid.indexer.runner.type": "httpRemote",
            "druid.emitter": "noop",
            "druid.monitoring.monitors": "[]",
            "druid.server.http.numThreads": 12,
            "druid.global.http.numConnections": 8,
            "druid.processing.buffer.sizeBytes": "16MiB",
            "druid.processing.numMergeBuffers": 2,
            "druid.processing.numThreads": 1,
            "druid.sql.enable": True,
            "druid.startup.logging.logProperties": False,
            "druid.lookup.enableLookupSyncOnStartup": False,
        }

    def _own(self, name: str) -> dict[str, object]:
        if name == "coordinator":
            return {
                "druid.coordinator.asOverlord.enabled": True,
                "druid.coordinator.asOverlord.overlordService": "druid/coordinator",
                "druid.coordinator.startDelay": "PT2S",
                "druid.coordinator.period": "PT2S",
                "druid.indexer.queue.startDelay": "PT1S",
                "druid.indexer.storage.type": "metadata",
                "druid.manager.segments.pollDuration": "PT1S",
                "druid.coordinator.kill.supervisor.on": False,
            }
        if name == "historical":
            cache = [{"path": str(self.home / "segments"), "maxSize": "1g"}]
            return {
                "druid.segmentCache.locations": json.dumps(cache),
                "druid.server.maxSize": "1g",
                "druid.historical.cache.useCache": False,
            }
        if name == "broker":
            return {
                "druid.broker.http.numConnections": 6,
                "druid.sql.planner.metadataRefreshPeriod": "PT2S",
                "druid.broker.segment.awaitInitializationOnStart": False,
            }
        tasks = json.dumps([str(self.home / "tasks")])
        return {"druid.worker.capacity": 3, "druid.worker.baseTaskDirs": tasks}

    def _launch(self, name: str) -> Launch:
        heap_mb, direct_mb = _MEMORY[name]
        flags = [f"-Xmx{heap_mb}m", "-Xms64m", f"-XX:MaxDirectMemorySize={direct_mb}m"]
        flags += self._java_flags
        flags += [f"--add-exports=java.base/{package}=ALL-UNNAMED" for package in _EXPORTED]
        flags += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        flags.append("--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED")
        flags += ["-Duser.timezone=UTC", "-Dfile.encoding=UTF-8"]
        flags.append(f"-Djava.io.tmpdir={self.home}/tmp")
        flags.append(
            f"-Dderby.stream.error.file={self.home}/logs/derby.log"
        )  # default: the current directory
        flags.append("-Djava.util.logging.manager=org.apache.logging.log4j.jul.LogManager")
        conf = self.home / "conf"
        path = f"{conf}:{conf / name}:{need_jars(self.kind)}/*"
        if fetched(DRUID_KAFKA):  # Druid finds extensions on the class path by itself
            path += f":{need_jars(DRUID_KAFKA)}/*"
        return Launch([java(), *flags, "-cp", path, "org.apache.druid.cli.Main", "server", name])


def _write(path: Path, properties: Mapping[str, object]) -> None:
    lines = [
        f"{name}={str(value).lower() if isinstance(value, bool) else value}\n"
        for name, value in properties.items()
    ]
    path.write_text("".join(lines))
