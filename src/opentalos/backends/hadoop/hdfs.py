"""HDFS: a NameNode and one to three DataNodes."""

import json
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from opentalos.backends.daemon import Launch
from opentalos.backends.hadoop.conf_files import write_log4j, write_site
from opentalos.backends.hadoop.java_command import java_command
from opentalos.backends.jars import need_jars
from opentalos.backends.places import BackendError, Say
from opentalos.backends.ports import HOST
from opentalos.backends.service import Backend

DATANODES_MAX = 3
_NAMENODE = "nn"
_HEAPS_MB = {_NAMENODE: 256, "dn": 192}
_PROBE_TIMEOUT_S = 2.0
_FORMAT_TIMEOUT_S = 120.0
_FORMAT_HEAP_MB = 128
_SOCKET_TIMEOUT_MS = 5000


class HdfsBackend(Backend):
    """Daemons ``nn``, ``dn1`` .. ``dnN``; clients read ``conf_dir``."""

    kind = "hdfs"
    default_port = 9820

    @property
    def url(self) -> str:
        return f"hdfs://{HOST}:{self.ports['nn']}"

    @property
    def conf_dir(self) -> Path:
        """The directory of core-site.xml and hdfs-site.xml, for clients and daemons."""
        return self.home / "conf"

    @property
    def datanodes(self) -> int:
        """The number of DataNodes."""
        return int(self.settings.get("datanodes", 1))

    def names(self) -> list[str]:
        return [_NAMENODE, *(f"dn{number}" for number in range(1, self.datanodes + 1))]

    def start(self, say: Say, *, port: int | None = None, datanodes: int | None = None) -> None:
        """Start; ``datanodes`` None: as many as before, initially one."""
        wanted = datanodes or self.datanodes
        if not 1 <= wanted <= DATANODES_MAX:
            raise BackendError(f"the number of DataNodes must be 1 to {DATANODES_MAX}")
        if self._is_running() and wanted < self.datanodes:
            raise BackendError(f"hdfs is running with {self.datanodes} DataNodes; stop it first")
        self.home.mkdir(parents=True, exist_ok=True)
        self._remember(datanodes=wanted)
        super().start(say, port=port)

    def data_dir(self, name: str) -> Path:
        """The data directory of a daemon."""
        return self.home / "data" / name

    def missing(self) -> str:
        """Ready once the NameNode has left safe mode and every DataNode is registered."""
        state = self._jmx("nn-http", "NameNode", "FSNamesystemState")
        if state is None or "FSState" not in state:  # incomplete replies during the start
            return "the NameNode does not reply"
        if state["FSState"] != "Operational":
            return "the NameNode is in safe mode"
        alive = int(state["NumLiveDataNodes"])
        if alive < self.datanodes:
            return f"{alive} of {self.datanodes} DataNodes are registered"
        for name in self.names()[1:]:
            info = self._jmx(f"{name}-http", "DataNode", "DataNodeInfo")
            if info is None or "RUNNING" not in str(info.get("BPServiceActorInfo")):
                return f"{name} is not registered"
        return ""

    def status(self) -> dict[str, Any]:
        more = {"conf_dir": str(self.conf_dir), "datanodes": self.datanodes}
        return {**super().status(), **more}

    def _port_uses(self, first: int) -> Mapping[str, int]:
        uses = {"nn": first, "nn-http": first + 1}
        for number in range(1, self.datanodes + 1):
            start = first + 10 * number
            name = f"dn{number}"
            uses |= {name: start, f"{name}-http": start + 1, f"{name}-ipc": start + 2}
        return uses

    def _jmx(self, port: str, service: str, name: str) -> dict[str, Any] | None:
        query = f"Hadoop:service={service},name={name}"
        url = f"http://{HOST}:{self.ports[port]}/jmx?qry={query}"
        try:
            with urllib.request.urlopen(url, timeout=_PROBE_TIMEOUT_S) as reply:
                beans = json.load(reply)["beans"]
        except (OSError, ValueError, KeyError):
            return None
        return cast("dict[str, Any]", beans[0]) if beans else None

    def _prepare(self) -> None:
        self._write_conf()
        if not (self.data_dir(_NAMENODE) / "current").exists():
            command = [*self._java(_FORMAT_HEAP_MB), *_NAMENODE_CLASS, "-format", "-nonInteractive"]
            log = self.home / "format.log"
            with log.open("wb") as output:
                done = subprocess.run(
                    command, stdout=output, stderr=output, timeout=_FORMAT_TIMEOUT_S
                )
            if done.returncode != 0:
                raise BackendError(f"could not format the NameNode; see {log}")

    def _write_conf(self) -> None:
        ports = self.ports
        name_dir = self.data_dir(_NAMENODE)
        core = {"fs.defaultFS": self.url, "hadoop.tmp.dir": self.home / "data"}
        site = {
            "dfs.replication": self.datanodes,
            "dfs.namenode.rpc-address": f"{HOST}:{ports['nn']}",
            "dfs.namenode.http-address": f"{HOST}:{ports['nn-http']}",
            "dfs.namenode.name.dir": f"file://{name_dir}",
            "dfs.namenode.datanode.registration.ip-hostname-check": False,
            "dfs.namenode.safemode.extension": 0,
            "dfs.namenode.fs-limits.min-block-size": 65536,
            "dfs.namenode.handler.count": 10,
            # Block recovery is assigned on a heartbeat, which bounds the failover time.
            "dfs.heartbeat.interval": 1,
            "dfs.namenode.heartbeat.recheck-interval": 2000,  # dead after 14 s without a heartbeat
            "dfs.namenode.redundancy.interval.seconds": 1,
            # After this time a hung DataNode is excluded from recoveries, new blocks and reads.
            "dfs.namenode.stale.datanode.interval": 6000,
            "dfs.namenode.avoid.write.stale.datanode": True,
            "dfs.namenode.avoid.read.stale.datanode": True,
            # With few DataNodes the average load is so low that a node with a few more open files
            # counts as too busy, and new blocks get fewer replicas than there are nodes.
            "dfs.namenode.redundancy.considerLoad": False,
            "dfs.permissions.enabled": True,  # the user that started the NameNode is the superuser
            # The default delays a close by 400 ms if it overtakes the report of the DataNode.
            "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": 5,
            # Also used by the DataNodes: an idle writer sends keepalives at half of its timeout, so
            # a client with a longer timeout would lose every idle pipeline.
            "dfs.client.socket-timeout": _SOCKET_TIMEOUT_MS,
            # With as many DataNodes as replicas a dead one cannot be replaced; keep writing.
            "dfs.client.block.write.replace-datanode-on-failure.enable": True,
            "dfs.client.block.write.replace-datanode-on-failure.policy": "DEFAULT",
            "dfs.client.block.write.replace-datanode-on-failure.best-effort": True,
        }
        write_site(self.conf_dir / "core-site.xml", core)
        write_site(self.conf_dir / "hdfs-site.xml", site)
        write_log4j(self._daemon_conf, "INFO")
        # The jar from Maven has no webapps directory, which both HTTP servers need.
        for name in ("hdfs", "datanode"):
            folder = self._daemon_conf / "webapps" / name / "WEB-INF"
            folder.mkdir(parents=True, exist_ok=True)
            text = '<web-app xmlns="http://java.sun.com/xml/ns/javaee" version="2.5"/>'
            (folder / "web.xml").write_text(text)
        (self._daemon_conf / "webapps" / "static").mkdir(exist_ok=True)

    @property
    def _daemon_conf(self) -> Path:
        return self.home / "daemon-conf"

    def _java(self, heap_mb: int) -> list[str]:
        path = (self.conf_dir, self._daemon_conf, f"{need_jars(self.kind)}/*")
        return java_command(heap_mb, self._java_flags, path)

    def _launch(self, name: str) -> Launch:
        if name == _NAMENODE:
            return Launch([*self._java(_HEAPS_MB[name]), *_NAMENODE_CLASS])
        ports = self.ports
        options = {
            "dfs.datanode.data.dir": f"file://{self.data_dir(name)}",
            "dfs.datanode.address": f"{HOST}:{ports[name]}",
            "dfs.datanode.http.address": f"{HOST}:{ports[f'{name}-http']}",
            "dfs.datanode.ipc.address": f"{HOST}:{ports[f'{name}-ipc']}",
            # How long a recovery waits for another DataNode that is hung; the default is 60 s.
            "dfs.client.socket-timeout": _SOCKET_TIMEOUT_MS,
        }
        # Daemons take these as program arguments, not as JVM properties.
        arguments = [word for key, value in options.items()
                     for word in ("-D", f"{key}={value}")]  # fmt: skip
        return Launch([*self._java(_HEAPS_MB["dn"]), *_DATANODE_CLASS, *arguments])


_NAMENODE_CLASS = ["org.apache.hadoop.hdfs.server.namenode.NameNode"]
_DATANODE_CLASS = ["org.apache.hadoop.hdfs.server.datanode.DataNode"]
