"""Standalone HBase: master, region server and an embedded ZooKeeper in one process."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opentalos.backends.daemon import Launch
from opentalos.backends.hadoop.conf_files import write_log4j, write_site
from opentalos.backends.jars import java, need_jars
from opentalos.backends.ports import HOST
from opentalos.backends.service import Backend

_HEAP_MB = 512
_READY = "Master has completed initialization"
_OPENED = ("java.lang", "java.nio", "sun.nio.ch", "java.net", "java.io")
_EXPORTED = ("java.base/jdk.internal.misc", "java.security.jgss/sun.security.krb5")


class HbaseBackend(Backend):
    """One daemon, ``hbase``; its data is in local files."""

    kind = "hbase"
    default_port = 2191

    @property
    def url(self) -> str:
        return f"hbase://{HOST}:{self.ports['zookeeper']}"

    @property
    def conf_dir(self) -> Path:
        """The directory of hbase-site.xml and the logging configuration."""
        return self.home / "conf"

    def names(self) -> list[str]:
        return [self.kind]

    def missing(self) -> str:
        """Ready once the master is active: tables can be created, written and read."""
        daemon = self.daemon(self.kind)
        if daemon.pid is None:
            return "not running"
        return "" if _READY in daemon.log_text() else "the master is not yet active"

    def status(self) -> dict[str, Any]:
        return {**super().status(), "conf_dir": str(self.conf_dir)}

    def _port_uses(self, first: int) -> Mapping[str, int]:
        return {"zookeeper": first, "master": first + 1, "regionserver": first + 2}

    def _prepare(self) -> None:
        ports = self.ports
        for name in ("data", "tmp", "zk", "logs"):
            (self.home / name).mkdir(exist_ok=True)
        site = {
            "hbase.rootdir": f"file://{self.home}/data",
            "hbase.tmp.dir": self.home / "tmp",
            "hbase.cluster.distributed": False,
            "hbase.unsafe.stream.capability.enforce": False,
            "hbase.zookeeper.quorum": HOST,
            "hbase.zookeeper.property.clientPort": ports["zookeeper"],
            "hbase.zookeeper.property.dataDir": self.home / "zk",
            "hbase.master.ipc.address": HOST,
            "hbase.regionserver.ipc.address": HOST,
            "hbase.master.hostname": "localhost",
            "hbase.regionserver.hostname": "localhost",
            "hbase.master.info.port": -1,
            "hbase.regionserver.info.port": -1,
            "hbase.master.port": ports["master"],
            "hbase.regionserver.port": ports["regionserver"],
            "hbase.regionserver.handler.count": 10,
            "hbase.wal.provider": "filesystem",
            "hbase.master.wait.on.regionservers.timeout": 500,  # ready in 5 s, not in 12
            "hbase.master.wait.on.regionservers.interval": 100,
            "hbase.regionserver.msginterval": 500,
            "hbase.hconnection.threads.max": 16,
        }
        write_site(self.conf_dir / "hbase-site.xml", site)
        loggers = {"org.apache.hadoop.hbase.master.HMaster": "INFO"}
        write_log4j(self.conf_dir, "WARN", **loggers)

    def _launch(self, name: str) -> Launch:
        flags = [f"-Xmx{_HEAP_MB}m", "-Xms64m", *self._java_flags]
        flags += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        flags += [f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTED]
        flags.append(f"-Dhbase.log.dir={self.home}/logs")
        main = "org.apache.hadoop.hbase.master.HMaster"
        path = f"{self.conf_dir}:{need_jars(self.kind)}/*"
        return Launch([java(), *flags, "-cp", path, main, "start"])
