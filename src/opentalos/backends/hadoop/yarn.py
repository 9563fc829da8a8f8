"""YARN: a ResourceManager and two NodeManagers."""

import json
import os
import shutil
import socket
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from opentalos.adapters.java_home import spark_java_home
from opentalos.backends.daemon import Launch
from opentalos.backends.hadoop.conf_files import write_log4j, write_site
from opentalos.backends.hadoop.hdfs import HdfsBackend
from opentalos.backends.hadoop.java_command import java_command
from opentalos.backends.jars import need_jars
from opentalos.backends.places import BackendError
from opentalos.backends.ports import HOST
from opentalos.backends.service import Backend

APP_ATTEMPTS_MAX: Final = 4  # YARN's default is 2, whatever an application asks for
_RESOURCE_MANAGER: Final = "rm"
# Each on an address of its own, so that they count as two machines.
_NODES: Final = {"nm1": "127.0.0.2", "nm2": "127.0.0.3"}
_HEAPS_MB: Final = {_RESOURCE_MANAGER: 256, **dict.fromkeys(_NODES, 192)}
_SERVER: Final = "org.apache.hadoop.yarn.server"
_CLASSES: Final = {
    _RESOURCE_MANAGER: f"{_SERVER}.resourcemanager.ResourceManager",
    **dict.fromkeys(_NODES, f"{_SERVER}.nodemanager.NodeManager"),
}
_NODE_MEMORY_MB: Final = 6144  # which YARN gives to containers; what is there is not measured
_NODE_CORES: Final = 4
_CONTAINER_MEMORY_MB: Final = 128  # in steps of
_HEARTBEAT_MS: Final = 200  # containers start and end on one; the default is 1000
_RETRY_MS: Final = 500  # of NodeManagers that are up before the ResourceManager; default: 30 s
_PROBE_TIMEOUT_S: Final = 2.0
_INHERITED: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR")  # by containers


class YarnBackend(Backend):
    """Daemons ``rm``, ``nm1``, ``nm2``; clients, such as spark-submit, read ``conf_dir``.

    Files of applications are in the HDFS below the same directory, which has to run.
    """

    kind = "yarn"
    default_port = 8032

    @property
    def url(self) -> str:
        return f"yarn://{HOST}:{self.ports[_RESOURCE_MANAGER]}"

    @property
    def web_url(self) -> str:
        """Of the ResourceManager's pages and of YARN's REST, which lists and ends applications."""
        return f"http://{HOST}:{self.ports['rm-http']}"

    @property
    def conf_dir(self) -> Path:
        """What clients set as HADOOP_CONF_DIR: the settings of YARN and of its HDFS."""
        return self.home / "conf"

    @property
    def container_logs(self) -> Path:
        """Below it, what containers have said."""
        return self.home / "containers"

    def names(self) -> list[str]:
        return list(_HEAPS_MB)

    def missing(self) -> str:
        """Ready once every NodeManager is registered."""
        request = f"{self.web_url}/ws/v1/cluster/metrics"
        try:
            with urllib.request.urlopen(request, timeout=_PROBE_TIMEOUT_S) as reply:
                metrics = cast("dict[str, Any]", json.load(reply)["clusterMetrics"])
        except (OSError, ValueError, KeyError):
            return "the ResourceManager does not reply"
        active = int(metrics["activeNodes"])
        if active < len(_NODES):
            return f"{active} of {len(_NODES)} NodeManagers are registered"
        return ""

    def status(self) -> dict[str, Any]:
        web = self.web_url if self.ports else ""
        return {**super().status(), "conf_dir": str(self.conf_dir), "web_url": web}

    def _port_uses(self, first: int) -> Mapping[str, int]:
        uses = ("rm", "rm-scheduler", "rm-tracker", "rm-admin", "rm-http")
        found = {use: first + index for index, use in enumerate(uses)}
        for number, name in enumerate(_NODES, 1):
            start = first + 10 * number
            found |= {name: start, f"{name}-localizer": start + 1, f"{name}-http": start + 2}
        return found

    def _prepare(self) -> None:
        hdfs = HdfsBackend(self.home.parent)
        if not hdfs.ports or hdfs.missing():
            raise BackendError("yarn needs HDFS; run talos backend start hdfs yarn")
        core = {"fs.defaultFS": hdfs.url, "hadoop.tmp.dir": self.home / "data"}
        write_site(self.conf_dir / "core-site.xml", core)
        shutil.copy(hdfs.conf_dir / "hdfs-site.xml", self.conf_dir)
        write_site(self.conf_dir / "yarn-site.xml", self._site())
        prefix = "yarn.scheduler.capacity"
        queues = {
            f"{prefix}.root.queues": "default",
            f"{prefix}.root.default.capacity": 100,
            # The default for drivers is a tenth, which is less than one of them here.
            f"{prefix}.maximum-am-resource-percent": 1.0,
        }
        write_site(self._daemon_conf / "capacity-scheduler.xml", queues)
        write_log4j(self._daemon_conf, "INFO")
        # Nodes are named by their addresses, whatever this machine's name service makes of them.
        self._hosts.write_text(f"{HOST} localhost {socket.gethostname()}\n")

    def _site(self) -> dict[str, object]:
        ports, manager, node = self.ports, "yarn.resourcemanager", "yarn.nodemanager"
        addresses = {
            "address": "rm",
            "scheduler.address": "rm-scheduler",
            "resource-tracker.address": "rm-tracker",
            "admin.address": "rm-admin",
            "webapp.address": "rm-http",
        }
        return {
            f"{manager}.hostname": HOST,
            **{f"{manager}.{name}": f"{HOST}:{ports[use]}" for name, use in addresses.items()},
            f"{manager}.am.max-attempts": APP_ATTEMPTS_MAX,
            # A driver whose container failed is started again on the other node.
            f"{manager}.am-scheduling.node-blacklisting-enabled": True,
            f"{manager}.am-scheduling.node-blacklisting-disable-threshold": 0.8,
            f"{manager}.connect.retry-interval.ms": _RETRY_MS,
            f"{manager}.nodemanagers.heartbeat-interval-ms": _HEARTBEAT_MS,
            f"{node}.resource.memory-mb": _NODE_MEMORY_MB,
            f"{node}.resource.cpu-vcores": _NODE_CORES,
            "yarn.scheduler.minimum-allocation-mb": _CONTAINER_MEMORY_MB,
            "yarn.scheduler.maximum-allocation-mb": _NODE_MEMORY_MB,
            # Java reserves addresses that it never uses.
            f"{node}.vmem-check-enabled": False,
            f"{node}.disk-health-checker.max-disk-utilization-per-disk-percentage": 100,
        }

    @property
    def _daemon_conf(self) -> Path:
        return self.home / "daemon-conf"

    @property
    def _hosts(self) -> Path:
        return self._daemon_conf / "hosts"

    def _launch(self, name: str) -> Launch:
        flags = [*self._java_flags, f"-Djdk.net.hosts.file={self._hosts}"]
        path = (self.conf_dir, self._daemon_conf, f"{need_jars(self.kind)}/*")
        command = [*java_command(_HEAPS_MB[name], flags, path), _CLASSES[name]]
        for option, value in self._options(name).items():
            command += ["-D", f"yarn.nodemanager.{option}={value}"]
        # Containers inherit what a NodeManager has: nothing of who starts it belongs there.
        kept = [f"{item}={os.environ[item]}" for item in _INHERITED if item in os.environ]
        return Launch(["env", "-i", *kept, f"JAVA_HOME={spark_java_home()}", *command])

    def _options(self, name: str) -> dict[str, object]:
        """Of one NodeManager."""
        if name not in _NODES:
            return {}
        host, ports = _NODES[name], self.ports
        return {
            "address": f"{host}:{ports[name]}",
            "localizer.address": f"{host}:{ports[f'{name}-localizer']}",
            "webapp.address": f"{host}:{ports[f'{name}-http']}",
            "local-dirs": self.home / "data" / name,
            "log-dirs": self.container_logs / name,
        }
